"""Calls of models in the budgets of node and run: set aside before, settled by what the provider counted (rules 82 to 84)."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from perdure import llms
from perdure.kernel import events as e
from perdure.llms import calls
from perdure.llms.durable import rebuild
from perdure.llms.scripted.scripted_server import serving
from perdure.model.money import Budget, Usage
from perdure.service.runs.run_usage import usage_of
from tests.engine.helpers import (
    ask,
    crash,
    ended,
    events,
    finish,
    opened,
    output_of,
    running,
    start,
    state_of,
    until,
    until_true,
    workflow,
)
from tests.llms.helpers import KINDS, models_at
from tests.nodes.test_llm import QUICK, TITLE, node, run

PRICES = {"input": 1.0, "cached": 0.1, "written": 1.25, "output": 10.0}
SAYS_NO = {"say": "no", "usage": {"input": 10, "output": 90}}


@pytest.fixture(autouse=True)
def _no_models(monkeypatch):
    monkeypatch.setattr(calls, "FIRST_WAIT_SECONDS", 0.001)
    yield
    llms.configure(None)


def charged(server, wants):
    """What the server counted for the requests whose rule is wanted, by the name of the provider."""
    kinds = {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "anthropic"}
    found = {f"{kind}/m-1": Usage() for kind in KINDS}
    for one in server.seen:
        if one.usage is not None and wants(one):
            name = f"{kinds[one.path]}/m-1"
            usage = {**one.usage, "calls": 1}
            cached, written = usage.get("cached", 0), usage.get("written", 0)
            plain = usage["input"] - cached - written
            millionths = -(-(plain * 100 + cached * 10 + written * 125 + usage["output"] * 1000) // 100)
            found[name] += Usage(**usage, usd=millionths)
    return found


def set_aside_in_vain(said):
    """What was set aside for calls that have neither a result nor were released, by model: from the events alone."""
    open_calls, found = {}, Counter()
    for one in said:
        key = (getattr(one, "node", ""), getattr(one, "step", ""))
        if isinstance(one, e.StepReleased | e.NodeCheckpointed | e.StepStarted):
            before = open_calls.pop(key, None)
            if isinstance(one, e.StepStarted):
                found.update([] if before is None else [before])
                open_calls[key] = (one.model, one.reserve)
    found.update(open_calls.values())
    sums = {f"{kind}/m-1": Usage() for kind in KINDS}
    for (model, reserve), times in found.items():
        sums[model] += sum([reserve] * times, Usage())
    return sums


@pytest.mark.slow
async def test_some_hundred_calls_with_faults_are_counted_as_the_provider_counted_them(tmp_path):
    rng = random.Random(18)
    rules, lost = [], {"cut", "error_between"}
    for _ in range(120):
        fault = rng.choice(("429", "500", "cut", "error_between"))
        one = {"status": int(fault)} if fault.isdigit() else {"say": "a b c d e f", "faults": [fault]}
        rules.append({"times": 1, **one, "usage": {"input": rng.randrange(1, 20), "output": rng.randrange(1, 50)}})
    for _ in range(200):
        read, written = rng.randrange(50), rng.randrange(50)
        usage = {"input": 100 + rng.randrange(500), "cached": read, "written": written, "output": rng.randrange(99)}
        rules.append({"times": 1, "say": "well", "usage": usage})
    rng.shuffle(rules)
    retry = {**QUICK, "max_attempts": 50}
    nodes = [node(f"n{number}", model=rng.choice(list(KINDS)), retry=retry) for number in range(150)]
    async with serving(rules) as server:
        played = []
        answer = server._script.answer

        def note(asked):
            rule = answer(asked)
            played.append(rule)
            return rule

        server._script.answer = note
        llms.configure(models_at(server.port, prices=PRICES, model_max_output=100))
        async with running(tmp_path, concurrency=8) as engine:
            state = await finish(engine, workflow(*nodes, limits={"budget": {"usd": 100}}))
            unknown = set_aside_in_vain(await events(engine.journal))
    assert state.state == "completed", state.error
    view, money = usage_of(state), state.money
    by_rule = dict(zip(map(id, server.seen), played, strict=True))
    ends = Counter("lost" if lost & set(rule.faults) else str(rule.status) for rule in played)
    assert (ends["200"], min(ends.values()) > 10) == (150, True), ends
    answered = charged(server, lambda one: not lost & set(by_rule[id(one)].faults))
    assert sum(answered.values(), Usage()) == money.spent - money.unsettled
    assert money.unsettled.calls == ends["lost"] + ends["500"]  # 429 has cost nothing
    broken = sum(charged(server, lambda one: bool(lost & set(by_rule[id(one)].faults))).values(), Usage())
    assert all(broken.of(one) <= money.unsettled.of(one) for one in ("usd", "tokens", "calls"))
    assert view["by_model"] == {name: (answered[name] + unknown[name]).shown() for name in sorted(answered)}
    assert money.unsettled == sum(unknown.values(), Usage())
    assert money.spent == sum((state.find(f"n{number}").spent for number in range(150)), Usage())
    outputs = [output_of(state, f"n{number}")["usage"]["usd"] for number in range(150)]
    assert round(sum(outputs) * 1e6) == (money.spent - money.unsettled).usd
    assert money.reserved == Usage()


async def test_a_run_without_money_pauses_and_goes_on_with_more_where_it_was(tmp_path):
    rules = [{"times": 2, **SAYS_NO}, {"data": {"title": "ok"}, "usage": {"input": 30, "output": 9}}]
    definition = workflow(node(schema=TITLE, repairs=5), limits={"budget": {"usd": 0.0025}})
    async with serving(rules) as server:
        llms.configure(models_at(server.port, prices=PRICES, model_max_output=100))
        async with running(tmp_path) as engine:
            await start(engine, definition)
            state = await until(engine, lambda state: state.state == "paused")
            assert (state_of(state, "ask"), len(server.seen), set(state.pauses)) == ("held", 2, {"budget"})
            assert (state.money.spent.usd, state.money.reserved) == (2 * 910, Usage())
            refused = await ask(engine, "resume")
            assert refused.code == "budget_exhausted"
            await ask(engine, "resume", budget=Budget(usd=1_000_000))
            state = await ended(engine)
            said = await events(engine.journal)
    assert (output_of(state, "ask")["result"], state.find("ask").tries) == ({"title": "ok"}, 1)
    assert [len(one.body["messages"]) for one in server.seen] == [1, 3, 5]  # no answer was asked for again
    assert state.money.spent == Usage(input=50, output=189, calls=3, usd=2 * 910 + 120)
    steps = {one.step: one.data for one in said if isinstance(one, e.NodeCheckpointed)}
    assert rebuild(steps) == {name: steps[name]["request"] for name in ("call", "call.r1", "call.r2")}


async def test_a_call_whose_worker_died_counts_and_what_an_earlier_try_answered_is_not_asked_again(tmp_path):
    rules = [
        {"times": 1, "status": 500},
        {"when": {"turn": 1}, **SAYS_NO},
        {"times": 1, "faults": ["silence_before"]},
        {"data": {"title": "ok"}, "usage": {"input": 30, "output": 9}},
    ]
    async with serving(rules) as server:
        llms.configure(models_at(server.port, prices=PRICES, model_max_output=100))
        engine = await opened(tmp_path)
        await engine.hold()
        await start(engine, workflow(node(schema=TITLE), limits={"budget": {"usd": 1}}))
        await until_true(lambda: len(server.seen) == 3, "the repair was asked for")
        await crash(engine)
        async with running(tmp_path) as engine:
            state = await ended(engine)
            said = await events(engine.journal)
    assert output_of(state, "ask")["result"] == {"title": "ok"}
    assert [len(one.body["messages"]) for one in server.seen] == [1, 1, 3, 3]
    money, begun = state.money, [one for one in said if isinstance(one, e.StepStarted)]
    assert [one.step for one in begun] == ["call", "call.t2", "call.r1", "call.r1"]
    assert money.unsettled == begun[0].reserve + begun[2].reserve
    assert money.spent - money.unsettled == Usage(input=40, output=99, calls=2, usd=910 + 120)
    steps = {one.step: one.data for one in said if isinstance(one, e.NodeCheckpointed)}
    assert rebuild(steps) == {name: steps[name]["request"] for name in ("call.t2", "call.r1")}


async def test_what_failed_attempts_spent_is_remembered_and_max_usd_holds_over_all_of_them(tmp_path):
    models = {"prices": PRICES, "model_max_output": 100}
    retry = {**QUICK, "max_attempts": 9}
    state, server = await run(tmp_path, [SAYS_NO], schema=TITLE, repairs=0, max_usd=0.003, models=models, retry=retry)
    # 910 millionths a call, and each may cost 1,000 and some: the fourth would not fit any more
    assert (state.error.code, len(server.seen), state.find("ask").spent.usd) == ("budget_exhausted", 3, 3 * 910)
    rules = [{"say": "a b c d e f", "faults": ["cut"]}]
    state, server = await run(tmp_path / "b", rules, max_usd=0.003, models=models, retry=retry)
    assert (state.error.code, len(server.seen), state.money.unsettled.calls) == ("budget_exhausted", 2, 2)


async def test_a_model_without_a_price_is_not_asked_where_money_is_limited_and_counted_where_it_is_not(tmp_path):
    async with serving() as server:
        llms.configure(models_at(server.port))
        async with running(tmp_path) as engine:
            state = await finish(engine, workflow(node(), limits={"budget": {"usd": 1}}), "a")
            assert (state.error.code, server.seen) == ("llm:price_unknown", [])
            assert "the run has a budget in dollars; the operator prices it" in state.error.message
            assert 'prices."chat/m-1"' in state.error.message
            state = await finish(engine, workflow(node(), limits={"budget": {"tokens": 10_000}}), "b")
    assert (state.state, state.money.spent) == ("completed", Usage(input=12, output=5, calls=1, priced=False))


def has_failed_to_undo(activation):
    return activation.undo is not None and activation.undo.error is not None


@pytest.mark.parametrize(("max_usd", "undone", "asked"), [(1, "compensated", 1), (0.0001, "completed", 0)])
async def test_a_compensator_asks_whatever_the_budget_of_the_run_is_and_keeps_to_its_own(
    tmp_path, max_usd, undone, asked
):
    undo = {"type": "llm", "config": {"model": "chat", "prompt": "undo it", "max_usd": max_usd}}
    first = {"id": "a", "type": "transform", "config": {"value": 1}, "compensator": undo}
    spends = node("b", dependencies=["a"])
    definition = workflow(
        first, spends, on_failure={"compensate": True}, limits={"budget": {"usd": 0.0001, "on_exceed": "fail"}}
    )
    async with serving() as server:
        llms.configure(models_at(server.port, prices=PRICES, model_max_output=100))
        async with running(tmp_path) as engine:
            await start(engine, definition)
            state = await until(engine, lambda state: state.state == "failed" or has_failed_to_undo(state.find("a")))
    assert (state_of(state, "a"), len(server.seen), state.money.spent) == (undone, asked, Usage())
    assert state.find("b").error.code == "budget_exhausted"
