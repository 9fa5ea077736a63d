"""`perdure.testing.run`: every kind of stub, virtual time, people and signals by script, and errors that help."""

import asyncio
import math
import time
from pathlib import Path

import pytest

import perdure
import perdure.testing
from perdure.testing import Chosen, Signal, Stub, StubInvalid, approve, assert_run, nobody, one_of, reject, run

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def task(node_id, *dependencies, **more):
    config = {"function": "nowhere:nothing"}
    return {"id": node_id, "type": "task", "dependencies": list(dependencies), "config": config, **more}


def node(node_id, node_type, *dependencies, config=None, **more):
    return {"id": node_id, "type": node_type, "dependencies": list(dependencies), "config": config or {}, **more}


def flow(*nodes, **more):
    return {"name": "flow", "nodes": list(nodes), **more}


# -- stubs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], "text", 7, 1.5, True, None, {}])
def test_a_value_is_the_output(value):
    assert run(flow(task("a")), stubs={"a": value}).outputs == {"a": value}


def test_a_value_is_not_shared_between_runs():
    value: dict = {"list": []}
    found = run(flow(task("a"), task("b")), stubs={"a": value, "b": lambda call: call.config})
    found.outputs["a"]["list"].append(1)
    assert value == {"list": []}


def test_a_function_sees_the_call():
    seen: list = []
    definition = flow(
        task("first"),
        node("second", "http", "first", config={"url": "{{ first.word }}/{{ inputs.n }}"}),
    )
    run(definition, inputs={"n": 3}, stubs={"first": {"word": "hello"}, "second": seen.append})
    (call,) = seen
    assert (call.node, call.attempt, call.item, call.iteration) == ("second", 1, None, None)
    assert call.config == {"url": "hello/3"}
    assert call.inputs == {"first": {"word": "hello"}}
    assert call.key == "run0/second/do"


@pytest.mark.slow
def test_a_function_may_be_async_and_sleeps_in_virtual_time():
    async def slow(call):
        await asyncio.sleep(3600)
        return call.attempt

    begun = time.monotonic()
    found = run(flow(task("a")), stubs={"a": slow})
    assert found.outputs == {"a": 1}
    assert found.seconds >= 3600
    assert time.monotonic() - begun < 600


def test_a_function_may_give_a_stub():
    stubs = {"a": lambda call: Stub(delay=10, then=call.attempt)}
    found = run(flow(task("a")), stubs=stubs)
    assert (found.outputs, found.seconds >= 10) == ({"a": 1}, True)


def test_failures_first():
    found = run(flow(task("a", retry={"max_attempts": 3})), stubs={"a": Stub(fails=2, then={"ok": True})})
    assert_run(found, state="completed", outputs={"a": {"ok": True}}, attempts={"a": 3})
    assert [call.attempt for call in found.calls] == [1, 2, 3]


@pytest.mark.parametrize(
    ("error", "code"), [("quota", "quota"), (perdure.NotDone("x"), "not_done"), (ValueError("x"), "error")]
)
def test_failures_have_the_code_they_are_given(error, code):
    found = run(flow(task("a", retry={"max_attempts": 2})), stubs={"a": Stub(fails=9, error=error)})
    assert_run(found, state="failed", error=code, attempts={"a": 2})


def test_an_exception_is_raised():
    found = run(flow(task("a")), stubs={"a": perdure.Abort("closed")})
    assert_run(found, state="failed", error="aborted", attempts={"a": 1})
    assert found.error == {"code": "aborted", "message": "closed", "attempts": 1, "node": "a"}


def test_a_delay_beyond_the_timeout_is_a_timeout():
    definition = flow(task("a", timeout_seconds=30, retry={"max_attempts": 1}))
    assert_run(run(definition, stubs={"a": Stub(delay=math.inf)}), state="failed", error="timeout")


@pytest.mark.slow
def test_one_of_is_chosen_by_the_seed():
    definition, stubs = flow(task("a")), {"a": one_of(1, 2, 3)}
    outputs = [run(definition, stubs=stubs, seed=seed).outputs["a"] for seed in range(20)]
    assert set(outputs) == {1, 2, 3}
    assert outputs == [run(definition, stubs=stubs, seed=seed).outputs["a"] for seed in range(20)]


def test_the_stub_of_a_map_plays_its_items():
    definition = flow(
        node("m", "map", config={"over": [5, 6, 7], "node": {"type": "http", "config": {"n": "{{ item }}"}}})
    )
    found = run(definition, stubs={"m": lambda call: (call.item, call.config["n"])})
    assert found.outputs == {"m": [[0, 5], [1, 6], [2, 7]]}


def test_a_loop_tells_its_iteration():
    looping = task("a", loop={"condition": "output.n < 3", "max_iterations": 5})
    found = run(flow(looping), stubs={"a": lambda call: {"n": call.iteration}})
    assert [call.iteration for call in found.calls_of("a")] == [1, 2, 3]


def test_an_agent_chooses():
    agent = node("agent", "llm", branch={"type": "agent_driven", "available_next_nodes": ["x", "y"]})
    stubs = {"agent": Chosen({"said": 1}, ("y",)), "y": 1}
    assert_run(run(flow(agent, task("x"), task("y")), stubs=stubs), state="completed", never=["x"])


def test_compensators_have_stubs_of_their_own():
    undo = {"compensator": {"type": "http", "config": {"url": "undo"}}}
    definition = flow(task("pay", **undo), task("ship", "pay"), on_failure={"compensate": True})
    stubs = {"pay": {"id": 1}, "pay.compensator": {}, "ship": perdure.Abort("no")}
    found = run(definition, stubs=stubs)
    assert_run(found, state="failed", nodes={"pay": "compensated"})
    assert [(call.node, call.undo) for call in found.calls] == [("pay", False), ("ship", False), ("pay", True)]


def test_a_node_without_worker_is_replaced_by_its_stub():
    definition = flow(node("t", "transform", config={"value": 1}), node("c", "workflow", "t", config={"workflow": "x"}))
    assert run(definition, stubs={"t": 2, "c": {"child": "said"}}).outputs == {"c": {"child": "said"}}


def test_children_run_with_stubs_by_workflow():
    child = {"name": "child", "nodes": [task("a")], "outputs": {"x": "{{ a }}"}}
    definition = flow(task("a"), node("c", "workflow", "a", config={"workflow": "child"}))
    found = run(definition, workflows=[child], stubs={"a": 1, "child/a": 2})
    assert found.outputs == {"c": {"x": 2}}


def test_queues_and_processes_are_played_here():
    definition = flow(task("a", queue="gpu"), task("b", "a", isolation="process"))
    assert_run(run(definition, stubs={"a": 1, "b": 2}), state="completed", outputs={"b": 2})


# -- time, people, signals ---------------------------------------------------------------------------------------------


def test_thirty_days_pass_at_once():
    begun = time.monotonic()
    found = run(flow(node("w", "wait", config={"seconds": 30 * 86400}), task("a", "w")), stubs={"a": 1})
    assert time.monotonic() - begun < 600
    assert_run(found, state="completed")
    assert 30 * 86400 <= found.seconds < 30 * 86400 + 2


@pytest.mark.parametrize(
    ("script", "expected", "after"),
    [
        (approve(by="ann"), "a", 0),
        (approve(), "a", 0),
        (approve(after=1000), "a", 1000),
        (reject(after=60), "r", 60),
        (reject(by=["bob", "ann"]), "r", 0),
        (reject(by="bob"), "r", 3600),
        (nobody(), "r", 3600),
        (approve(after=5000), "r", 3600),
        ([reject(), approve()], "r", 0),
    ],
)
def test_people_follow_the_script(script, expected, after):
    ask = node("ask", "human", config={"approvers": ["ann", "bob"], "timeout_seconds": 3600}, rejection_path=["r"])
    found = run(flow(ask, task("a", "ask"), task("r")), stubs={"ask": script, "a": 1, "r": 1})
    assert_run(found, state="completed", never=[{"a": "r", "r": "a"}[expected]])
    assert after <= found.seconds < after + 2


def test_a_list_decides_each_time():
    ask = node("ask", "human", rejection_path=["fix"], config={})
    fix = task("fix", loop={"condition": "true", "max_iterations": 5, "loop_back_to": "ask", "timeout_path": []})
    found = run(flow(ask, fix, task("go", "ask")), stubs={"ask": [reject(), reject(), approve()], "fix": 1, "go": 1})
    assert len(found.calls_of("fix")) == 2
    assert len(found.calls_of("go")) == 1


def test_a_quorum_is_met():
    ask = node("ask", "human", config={"approvers": ["ann", "bob", "eve"], "quorum": 2})
    assert_run(run(flow(ask), stubs={"ask": approve()}), state="completed")
    waiting = run(flow(ask), stubs={"ask": approve(by="ann")})
    assert_run(waiting, state="running", nodes={"ask": "waiting"})
    assert waiting.waiting == ("ask waits for a person: 1 of 2 approvals by ann, bob, eve.",)


def test_signals_come_at_their_time():
    definition = flow(node("w", "wait", config={"signal": "go", "seconds": 100}))
    assert run(definition, signals=[Signal("go", {"x": 1}, at=50)]).outputs == {"w": {"x": 1}}
    assert_run(run(definition, signals=[Signal("go", at=150)]), state="failed", error="signal_timeout")
    assert_run(run(definition, signals=[Signal("stop", at=5)]), state="failed", error="signal_timeout")


def test_what_nobody_ends_is_given_back():
    found = run(flow(node("w", "wait", config={"signal": "go"})))
    assert_run(found, state="running", nodes={"w": "waiting"})
    assert found.waiting == ("w waits for the signal 'go'.",)


def test_a_parked_node_is_given_back():
    found = run(flow(task("a", on_failure="park", retry={"max_attempts": 1})), stubs={"a": RuntimeError("x")})
    assert_run(found, state="running", nodes={"a": "parked"})


# -- the real ones -----------------------------------------------------------------------------------------------------


def test_real_handlers_are_called_when_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # they write where they stand
    found = run(
        EXAMPLES / "demo" / "order.yaml",
        inputs={"item": "lamp", "quantity": 3},
        stubs={"manager": approve()},
        real=True,
    )
    assert_run(found, state="completed", attempts={"credit": 3})
    assert found.outputs["parcel"]["shipped"] is True


def test_some_handlers_may_be_real():
    stubs = {"news": {"headline": "Snow"}}
    found = run(EXAMPLES / "briefing" / "briefing.yaml", inputs={"city": "Oslo"}, stubs=stubs, real=["weather"])
    assert_run(found, state="completed", outputs={"text": "Oslo: 21 °C, snow"})
    with pytest.raises(StubInvalid, match=r"node 'news' .* has no stub"):
        run(EXAMPLES / "briefing" / "briefing.yaml", inputs={"city": "Oslo"}, real=["weather"])


def steps(ctx: perdure.Context):
    first = ctx.step("one", lambda: 1)
    ctx.checkpoint({"at": ctx.attempt})
    if ctx.attempt == 1:
        raise ValueError("again")
    return [first, ctx.last_checkpoint]


def test_a_real_function_may_use_its_context():
    node_ = {"id": "a", "type": "task", "config": {"function": "tests.testing.test_scripted_run:steps"}}
    assert run(flow(node_), real=True).outputs == {"a": [1, {"at": 2}]}


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stubs", "message"),
    [
        ({}, "node 'pay' .type 'task'. was reached and has no stub; give stubs={'pay': …}, or real=True"),
        ({"pya": 1}, "stub 'pya' names no node; did you mean 'pay'"),
        ({"pay": approve()}, "nobody decides there, it is of type 'task'"),
        ({"pay": 1, "ask": {"decision": "approve"}}, r"use approve\(\), reject\(\) or nobody\(\)"),
        ({"pay.compensator": 1}, "node 'pay' has no compensator"),
        ({"pay": 1, "ask": approve(by="eve")}, "vote run0:ask:1: .*eve"),
    ],
)
def test_mistakes_in_stubs_are_named(stubs, message):
    definition = flow(task("pay"), node("ask", "human", "pay", config={"approvers": ["ann"]}))
    with pytest.raises(StubInvalid, match=message):
        run(definition, stubs=stubs)


def test_inputs_are_held_to_the_schema():
    with pytest.raises(perdure.testing.definitions.InputsInvalid, match="city"):
        run(EXAMPLES / "briefing" / "briefing.yaml")


def test_an_assert_in_a_stub_fails_the_test():
    def check(call):
        assert call.config == 1, "not what it should be"

    with pytest.raises(AssertionError, match="not what it should be"):
        run(flow(task("a")), stubs={"a": check})


def test_it_works_inside_an_event_loop():
    async def test():
        return run(flow(task("a")), stubs={"a": 1})

    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(test()).outputs == {"a": 1}
    loop.close()


def test_the_same_run_has_the_same_history():
    histories = [
        run(flow(task("a", retry={"max_attempts": 4})), stubs={"a": Stub(fails=3)}).history() for _ in range(3)
    ]
    assert histories[0] == histories[1] == histories[2]
    assert any("attempt 4" in line for line in histories[0])


# -- assert_run --------------------------------------------------------------------------------------------------------


def test_differences_are_listed_with_the_reasons():
    definition = flow(task("a", retry={"max_attempts": 1}), task("b", "a"), outputs={"x": "{{ b }}"})
    found = run(definition, stubs={"a": RuntimeError("down"), "b": 1})
    with pytest.raises(AssertionError) as caught:
        assert_run(found, state="completed", outputs={"x": 1}, attempts={"a": 2}, nodes={"b": "completed"}, never=["a"])
    text = str(caught.value)
    assert "state: expected completed, got failed (error: RuntimeError: down)" in text
    assert "outputs differ (- expected, + got):" in text
    assert "attempts of a: expected 2, got 1" in text
    assert "node b: expected completed, got upstream_failed" in text
    assert "node a: expected never to run, and it did" in text
    assert "b has not run: the run ended before it was reached because a failed (error)" in text
    assert text.count("a failed (error: RuntimeError: down)") == 1


def test_a_wrong_name_is_said():
    found = run(flow(task("a")), stubs={"a": 1})
    for wrong in ({"nodes": {"b": "completed"}}, {"attempts": {"b": 1}}, {"never": ["b"]}):
        with pytest.raises(AssertionError, match="has no node b; known are a"):
            assert_run(found, **wrong)
    assert_run(found)


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_concurrency_limit_lets_so_many_in_at_once():
    at_work, most = 0, 0

    async def fetch(call):
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(10)
        at_work -= 1

    inner = {"type": "task", "config": {"function": "a:b"}, "concurrency": {"key": "vendor", "limit": 3}}
    found = run(flow(node("each", "map", config={"over": list(range(12)), "node": inner})), stubs={"each": fetch})
    assert (found.state, most) == ("completed", 3)
    assert found.seconds >= 40


@pytest.mark.slow
@pytest.mark.parametrize("per_seconds", [1, 60, 3600])
def test_a_rate_lets_so_many_begin_in_a_time(per_seconds):
    inner = {"type": "task", "config": {"function": "a:b"}, "rate": {"limit": 2, "per_seconds": per_seconds}}
    found = run(flow(node("each", "map", config={"over": list(range(6)), "node": inner})), stubs={"each": 1})
    assert found.state == "completed"
    assert 2 * per_seconds <= found.seconds <= 2.3 * per_seconds + 5
