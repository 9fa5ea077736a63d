"""The turns of an agent, over an activation in memory: what is asked, what is kept, and what a crash repeats."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import msgspec
import pytest

from perdure.agents.transcript import read_turns
from perdure.agents.transcript_view import Open, turns_of
from perdure.llms.port import Call, Result, Thinking
from perdure.llms.scripted.scripted_model import ScriptedModel
from perdure.outcomes import StepAmbiguous
from tests.agents.desk import Dies, Journal, enter, fails, tools, work

did: Counter[str] = Counter()


def lookup(id: int, verbose: bool = False) -> dict[str, Any]:
    """Looks up a customer.

    This is not for the model."""
    did[f"lookup {id}"] += 1
    return {"id": id, "name": f"customer {id}"}


async def weather(city: str) -> str:
    did[f"weather {city}"] += 1
    await asyncio.sleep(0)
    return f"fine in {city}"


def mail(to: str, text: str, ctx: Any) -> str:
    did[f"mail {to}"] += 1
    return ctx.idempotency_key


def breaks(id: int) -> None:
    did["breaks"] += 1
    raise ValueError(f"no {id} here")


LOOKUP, WEATHER, MAIL, BREAKS = tools(lookup, weather, mail, breaks)


@pytest.fixture(autouse=True)
def _fresh():
    did.clear()


def told_in(request: Any) -> list[str]:
    """The texts of the last message of a request."""
    return [part.text for part in request.messages[-1].parts]


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def agent(*entries: Any, **more: Any) -> dict[str, Any]:
    return {"model": "scripted", "prompt": "Do it.", "tools": list(entries), **more}


READS = ({"function": LOOKUP, "effect": "read"}, {"function": WEATHER, "effect": "read"})
ONCE = {"function": MAIL, "effect": "send"}


async def test_an_agent_without_tools_gives_what_the_model_says():
    with ScriptedModel(
        [{"say": "Hello.", "usage": {"input": 20, "output": 3}}], price={"input": 1.0, "output": 1.0}
    ) as model:
        chosen, journal = await work(agent(instructions="Be brief."))
    assert chosen.output == {
        "output": "Hello.",
        "result": "Hello.",
        "text": "Hello.",
        "next_nodes": [],
        "reasoning": "",
        "turns": 1,
        "usage": {"input": 20, "cached": 0, "written": 0, "output": 3, "reasoning": 0, "calls": 1, "usd": 2.3e-05},
        "metadata": {"tool_calls": 0, "tokens_used": 23, "cache_hit": False, "llm_model": "scripted"},
    }
    assert (model.seen[0].prefix.system, journal.written) == ("Be brief.", ["prefix", "model/1"])


async def test_calls_of_a_turn_are_made_side_by_side_and_told_in_their_order():
    rules: list[dict[str, Any]] = [
        {
            "when": {"turn": 1},
            "calls": [call("weather", city="Rome"), call("lookup", id=7), call("weather", city="Oslo")],
        },
        {"say": "done"},
    ]
    with ScriptedModel(rules) as model:
        chosen, journal = await work(agent(*READS, parallel=2))
    assert (chosen.output["turns"], chosen.output["metadata"]["tool_calls"]) == (2, 3)
    results = [part for part in model.seen[1].messages[-1].parts if isinstance(part, Result)]
    assert [(one.id, json.loads(one.text) if one.text[0] == "{" else one.text) for one in results] == [
        ("t1.0", "fine in Rome"),
        ("t1.1", {"id": 7, "name": "customer 7"}),
        ("t1.2", "fine in Oslo"),
    ]
    assert {"prefix", "model/1", "guard/1", "t1.0", "t1.1", "t1.2", "model/2"} == set(journal.written)
    offered = {tool.name: tool for tool in model.seen[0].prefix.tools}
    assert offered["lookup"].description == "Looks up a customer."
    assert offered["lookup"].schema == {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "verbose": {"type": "boolean"}},
        "required": ["id"],
        "additionalProperties": False,
    }


async def test_what_is_no_call_of_a_tool_is_answered_and_has_no_effect():
    rules: list[dict[str, Any]] = [
        {"when": {"turn": 1}, "calls": [call("lookpu", id=7), call("lookup", id="x"), call("lookup", id=1, ctx=2)]},
        {"when": {"turn": 2}, "calls": [call("lookup", id=2)], "faults": ["truncated_arguments", "missing_ids"]},
        {"when": {"turn": 3}, "calls": [call("breaks", id=3)]},
        {"say": "done"},
    ]
    with ScriptedModel(rules) as model:
        await work(agent(*READS, {"function": BREAKS, "effect": "read"}))
    first = told_in(model.seen[1])
    assert "There is no tool 'lookpu'; did you mean 'lookup'?" in first[0]
    assert "lookup was not called: its arguments do not fit" in first[1]
    assert "'ctx'" in first[2]
    assert "no JSON object" in told_in(model.seen[2])[0]
    assert json.loads(told_in(model.seen[3])[0]) == {"error": {"code": "ValueError", "message": "no 3 here"}}
    assert dict(did) == {"breaks": 1}


@pytest.mark.parametrize("fault", ["missing_ids", "duplicate_ids", None])
async def test_calls_have_ids_of_their_own_where_the_models_do_not_tell_them_apart(fault):
    two = {"calls": [call("lookup", id=1), call("lookup", id=2)], "faults": [fault] if fault else []}
    with ScriptedModel([{"times": 2, **two}, {"say": "done"}]) as model:
        await work(agent(*READS))
    wires = [part.wire_id for one in model.seen[2].messages for part in one.parts if isinstance(part, Call)]
    results = [part.wire_id for one in model.seen[2].messages for part in one.parts if isinstance(part, Result)]
    assert wires == results
    assert len(set(wires)) == 4
    assert wires[:2] == (["t1_0", "t1_1"] if fault else ["call_0", "call_1"])


SENDS: list[dict[str, Any]] = [
    {"when": {"turn": 1}, "calls": [call("mail", to="ann", text="hi"), call("lookup", id=1)]},
    {"say": "sent"},
]


async def test_a_tool_that_may_send_once_is_never_made_again_by_itself():
    places, told = 0, list[str]()
    config = agent(*READS, ONCE, approvals={"unattended": True})
    with ScriptedModel(SENDS):
        _, journal = await work(config)
        total = journal.points
        assert did["mail ann"] == 1
        key = journal.steps["t1.0"]["text"]
        assert key.startswith("r1/agent/do/t1.0/")
        for point in range(1, total + 1):
            did.clear()
            journal = Journal(point)
            try:
                await work(config, journal=journal)
            except StepAmbiguous as asked:
                places += 1
                told.append(asked.message)
                assert journal.steps.keys() & {"t1.0"} == set()
            assert did["mail ann"] <= 1
    assert places == 2  # died after it had begun and before it was kept
    assert all("a call of mail with " in one and "ann" in one for one in told)  # a person decides by it


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_person_says_what_became_of_a_call_that_may_have_happened(decision):
    asked, times = 0, set[int]()

    def answer(ask: dict[str, Any]) -> Any:
        assert (ask["name"], ask["shown"]["arguments"]) == ("t1.0.happened", {"to": "ann", "text": "hi"})
        return {"decision": decision, "decided_by": "bob", "comments": "it is in the outbox", "data": None}

    with ScriptedModel(SENDS) as model:
        _, journal = await work(agent(*READS, ONCE))
        for point in range(1, journal.points + 1):
            did.clear()
            journal = Journal(point)
            await work(agent(*READS, ONCE), answer, journal)
            if journal.asks:
                asked += 1
                times.add(did["mail ann"])
                made = read_turns(journal.steps)[0].made[0]
                assert made is not None
                assert made.failed == (decision == "reject")
                assert "A person says: it is in the outbox" in told_in(model.seen[-1])[0]
                # A requeue lets steps begin again; what was asked about does not.
                before = did["mail ann"]
                journal.begun.clear()
                await work(agent(*READS, ONCE), answer, journal)
                assert did["mail ann"] == before
            else:
                assert did["mail ann"] == 1
    assert asked == 2
    assert times == ({1, 2} if decision == "approve" else {0, 1})


async def test_those_who_had_to_allow_a_call_are_asked_what_became_of_it():
    def answer(ask: dict[str, Any]) -> Any:
        return {"decision": "approve", "decided_by": "ann", "comments": "", "data": None}

    policy = {"when": "tool == 'mail'", "then": "ask", "approvers": ["ann"]}
    config = agent(*READS, ONCE, policies=[policy], approvals={"approvers": ["bob"]})
    asked = list[dict[str, Any]]()
    with ScriptedModel(SENDS):
        for point in range(1, 60):
            journal = Journal(point)
            await work(config, answer, journal)
            asked += [ask for ask in journal.asks if ask["name"] == "t1.0.happened"]
    assert len(asked) == 2
    assert all(ask["approvers"] == ["ann"] for ask in asked)


async def test_a_person_may_give_the_result_of_a_call_that_happened():
    def answer(ask: dict[str, Any]) -> Any:
        return {"decision": "reject", "decided_by": "bob", "comments": "see mail 7", "data": {"result": {"id": 7}}}

    journal = Journal()
    with ScriptedModel(SENDS) as model:
        for point in range(1, 40):
            journal = Journal(point)
            await work(agent(*READS, ONCE), answer, journal)
            if journal.asks:
                break
        given, said = told_in(model.seen[-1])[0].split("\n")
        assert json.loads(given) == {"id": 7}
        assert "a person says it was this. A person says: see mail 7" in said
    [turn, _] = turns_of("agent", journal.steps, Open())
    shown = turn()["calls"][0]
    assert (shown["outcome"], shown["decision"]) == ("made", "reject")
    assert shown["happened"] == {"decision": "reject", "decided_by": "bob", "comments": "see mail 7"}


def answering(ask: dict[str, Any]) -> Any:
    if ask["kind"] == "child":
        return {"state": "completed", "output": {"refunded": ask["inputs"]["id"]}, "error": None}
    return {"decision": "approve", "decided_by": "ann", "comments": "fine", "data": None}


async def test_workflows_and_people_are_asked_for_together_without_a_worker():
    rules: list[dict[str, Any]] = [
        {
            "when": {"turn": 1},
            "calls": [call("refund", id=7), call("ask_human", question="Is 7 right?"), call("lookup", id=7)],
        },
        {"say": "done"},
    ]
    config = agent(*READS, {"workflow": "refund@3", "effect": "write", "budget": {"usd": 1}}, "ask_human")
    with ScriptedModel(rules) as model:
        _, journal = await work(config, answering)
    assert [(ask["name"], ask["kind"]) for ask in journal.asks] == [("t1.0", "child"), ("t1.1", "approval")]
    assert (journal.asks[0]["workflow"], journal.asks[0]["inputs"]) == ("refund@3", {"id": 7})
    assert journal.asks[1]["shown"] == {"agent": "agent", "the agent asks": "Is 7 right?"}
    told = [json.loads(text) for text in told_in(model.seen[1])]
    assert told[0] == {"state": "completed", "output": {"refunded": 7}}
    assert told[1] == {"decision": "approve", "decided_by": "ann", "comments": "fine"}
    assert did["lookup 7"] == 1


LONG: list[dict[str, Any]] = [
    {"when": {"turn": 1}, "calls": [call("lookup", id=1), call("weather", city="Rome"), call("lookup", id=2)]},
    {"when": {"turn": 2}, "calls": [call("mail", to="ann", text="hi"), call("refund", id=7)]},
    {
        "when": {"turn": 3},
        "calls": [call("nothing"), call("weather", city="Oslo"), call("ask_human", question="Go on?")],
    },
    {"when": {"turn": 4}, "say": "not JSON"},
    {"when": {"turn": 5}, "data": {"sum": 3}},
]
SUM = {"type": "object", "required": ["sum"], "properties": {"sum": {"type": "integer"}}}


def long_agent() -> dict[str, Any]:
    mails = {"function": MAIL, "effect": "send", "idempotent": True, "approve": "always"}
    return agent(*READS, mails, {"workflow": "refund", "effect": "write"}, "ask_human", schema=SUM)


def spoken(journal: Journal) -> str:
    return json.dumps([msgspec.to_builtins([turn.kept["message"], turn.made]) for turn in read_turns(journal.steps)])


async def test_a_crash_at_any_moment_repeats_no_call_that_was_kept():
    """The process dies before and after everything it writes, one moment after the other: the same is said and done in the end."""
    with ScriptedModel(LONG) as model:
        chosen, journal = await work(long_agent(), answering)
        whole, once, said = journal.points, dict(did), spoken(journal)
        assert (chosen.output["output"], len(model.seen)) == ({"sum": 3}, 5)
        assert set(once.values()) == {1}
        for point in range(1, whole + 1):
            did.clear()
            model.seen.clear()
            journal = Journal(point)
            again, _ = await work(long_agent(), answering, journal)
            assert again.output == chosen.output, point
            assert spoken(journal) == said, point
            # Only what was under way when the process died is done again: one answer, or the calls of one turn.
            assert len(model.seen) <= 6, point
            assert sum(did.values()) <= sum(once.values()) + 3, point
            assert did.keys() == once.keys()
            assert len(journal.written) == len(set(journal.written)), point
    assert whole == 40


async def test_every_request_can_be_rebuilt_from_the_steps():
    with ScriptedModel(LONG):
        _, journal = await work(long_agent(), answering)
    turns = read_turns(journal.steps)
    assert [turn.step for turn in turns] == ["model/1", "model/2", "model/3", "model/4", "model/4.r1"]
    assert not any(turn.drift for turn in turns)
    journal.steps["t1.0"]["text"] = "something else"
    assert [turn.drift for turn in read_turns(journal.steps)] == [False, True, True, True, True]


async def test_an_agent_chooses_among_the_nodes_of_its_branch():
    answer = {"output": "big", "next_nodes": ["enterprise"], "reasoning": "many seats"}
    with ScriptedModel([{"data": answer}]) as model:
        chosen, _ = await work(agent(), routes=("enterprise", "standard"))
    assert (chosen.next_nodes, chosen.reasoning, chosen.output["output"]) == (("enterprise",), "many seats", "big")
    assert model.seen[0].schema["properties"]["next_nodes"]["items"]["enum"] == ["enterprise", "standard"]


async def test_a_node_outside_the_list_is_asked_about_again_and_then_final():
    rules: list[dict[str, Any]] = [{"data": {"output": "x", "next_nodes": ["admin"], "reasoning": ""}}]
    with ScriptedModel(rules) as model:
        error, _ = await fails("route_not_allowed", agent(repairs=1), routes=("standard",))
    assert (error.retryable, len(model.seen)) == (False, 2)
    assert "chose admin; it may choose from standard" in error.message


async def test_the_last_turn_has_no_tools_and_a_person_may_let_it_go_on():
    rules: list[dict[str, Any]] = [{"times": 3, "calls": [call("lookup", id=1)]}, {"say": "enough"}]
    journal = Journal()
    with ScriptedModel(rules) as model:
        error, _ = await fails("agent:max_turns", agent(*READS, max_turns=3), journal=journal)
        assert (error.retryable, model.seen[2].tool_choice) == (False, "none")
        assert "last turn" in model.seen[2].messages[-1].text
        chosen, _ = await work(agent(*READS, max_turns=3), journal=journal)
    assert (chosen.output["output"], chosen.output["turns"], did["lookup 1"]) == ("enough", 3, 2)
    assert journal.written[-2:] == ["model/3.last", "model/3-2"]
    assert not any(turn.drift for turn in read_turns(journal.steps))


async def test_an_agent_that_goes_in_circles_is_told_and_then_stopped():
    with ScriptedModel([{"calls": [call("lookup", id=1)]}]) as model:
        await fails("agent:stuck", agent(*READS))
    told = ["do something else" in told_in(one)[0] for one in model.seen[1:]]
    assert told == [False, False, False, True, True]
    assert len(model.seen) == 6


@pytest.mark.parametrize("finish", ["refused", "filtered"])
async def test_a_refusal_is_final(finish):
    with ScriptedModel([{"say": "No.", "finish": finish}]) as model:
        error, _ = await fails(f"llm:{finish}", agent())
    assert (error.retryable, len(model.seen)) == (False, 1)


async def test_a_provider_that_wants_a_long_pause_gets_it_without_a_worker():
    rules: list[dict[str, Any]] = [{"times": 1, "status": 429, "retry_after": 3600}, {"say": "now"}]
    with ScriptedModel(rules):
        chosen, journal = await work(agent(), lambda ask: {})
    assert (chosen.output["output"], [(ask["kind"], ask["seconds"]) for ask in journal.asks]) == (
        "now",
        [("sleep", 3600.0)],
    )


async def test_a_fatal_tool_fails_the_agent_and_what_else_was_done_is_kept():
    rules: list[dict[str, Any]] = [{"calls": [call("breaks", id=1), call("weather", city="Rome")]}]
    with ScriptedModel(rules):
        _, journal = await fails(
            "agent:tool_failed", agent(*READS, {"function": BREAKS, "effect": "read", "fatal": True})
        )
    assert journal.steps["t1.1"]["text"] == "fine in Rome"


async def test_a_model_that_takes_no_tools_is_not_asked():
    with ScriptedModel([{"say": "x"}], tools="none") as model:
        error, _ = await fails("bad_config", agent(*READS))
    assert ("takes no tools" in error.message, model.seen) == (True, [])


async def test_thinking_goes_back_to_its_own_provider_alone():
    rules: list[dict[str, Any]] = [
        {"when": {"turn": 1}, "thinking": "hm", "calls": [call("lookup", id=1)]},
        {"say": "done"},
    ]
    with ScriptedModel(rules) as model:
        await work(agent(*READS))
    [thinking] = [part for one in model.seen[1].messages for part in one.parts if isinstance(part, Thinking)]
    assert thinking.provider == "scripted"


async def test_a_process_that_dies_while_it_asks_asks_again_for_the_same():
    rules: list[dict[str, Any]] = [{"when": {"turn": 1}, "calls": [call("refund", id=7)]}, {"say": "done"}]
    config = agent({"workflow": "refund", "effect": "write"})
    with ScriptedModel(rules):
        _, journal = await work(config, answering)
        hashes = {ask["content"] for ask in journal.asks}
        second = Journal(3)
        with pytest.raises(Dies):
            await enter(config, second)
        await work(config, answering, second)
    assert {ask["content"] for ask in second.asks} == hashes
