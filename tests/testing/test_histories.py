"""`perdure.testing.simulate`: examples end in every history, what gets stuck is shown, the same seed is the same history."""

from pathlib import Path

import pytest

import perdure
from perdure.expressions.json_schema import fits
from perdure.invariants import Checker
from perdure.invariants.model import Violation
from perdure.simulation.stage.samples import _FORMATS, sample
from perdure.testing import Stub, approve, nobody, one_of, simulate
from perdure.testing.histories import fill_inputs

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
ORDER = {
    "stock": {"available": 9},
    "credit": Stub(fails=2, then={"rating": "A"}),
    "freight": {"cost": 5},
    "offer": one_of({"price": 110, "agreed": True}, {"price": 118, "agreed": False}),
    "charge": {"amount": 110},
    "ship": one_of({"shipped": True}, perdure.Abort("the lorry broke down")),
}
APPEAL = """
name: appeal
nodes:
  - {id: ask, type: human, rejection_path: [appeal]}
  - {id: appeal, type: wait, config: {signal: appeal}}
  - {id: pay, type: http, dependencies: [ask], config: {url: x}}
"""


def task(node_id, *dependencies, **more):
    config = {"function": "nowhere:nothing"}
    return {"id": node_id, "type": "task", "dependencies": list(dependencies), "config": config, **more}


def flow(*nodes, **more):
    return {"name": "flow", "nodes": list(nodes), **more}


@pytest.mark.slow
def test_the_order_ends_in_every_history():
    report = simulate(EXAMPLES / "demo" / "order.yaml", stubs=ORDER, seeds=100)
    assert report.ok, report
    assert {(end.state, end.reason) for end in report.ends} == {("completed", ""), ("failed", "ship: aborted")}
    assert sum(end.seeds for end in report.ends) == 100
    assert report.never_reached == ()
    assert report.faults > 300


@pytest.mark.slow
def test_the_briefing_ends_in_every_history():
    stubs = {"weather": {"degrees": 3}, "news": {"headline": "Hi"}}
    report = simulate(EXAMPLES / "briefing" / "briefing.yaml", stubs=stubs, seeds=100)
    assert report.ok, report
    assert [(end.state, end.seeds, end.example) for end in report.ends] == [("completed", 100, 0)]


@pytest.mark.slow
def test_the_same_seeds_give_the_same_report():
    first, second = (simulate(EXAMPLES / "demo" / "order.yaml", stubs=ORDER, seeds=10, start=40) for _ in range(2))
    assert first == second
    assert first.digest != simulate(EXAMPLES / "demo" / "order.yaml", stubs=ORDER, seeds=10, start=41).digest


@pytest.mark.slow
def test_what_gets_stuck_in_some_histories_is_shown():
    report = simulate(APPEAL, stubs={"appeal": nobody()}, seeds=30)
    assert not report.ok
    stuck, completed = report.ends
    assert (stuck.state, stuck.reason, completed.state) == ("stuck", "appeal waits", "completed")
    assert stuck.seeds + completed.seeds == 30
    assert report.bad is not None
    assert (report.bad.kind, report.bad.faults) == ("stuck", ())
    assert report.bad.message == "appeal waits for the signal 'appeal'."
    assert [line for line in report.bad.history if "ask is decided: reject" in line]
    assert "appeal went wrong in" in str(report)
    assert "shortest bad history (seed" in str(report)


@pytest.mark.slow
def test_without_a_script_people_and_signals_come():
    report = simulate(APPEAL, seeds=30)
    assert report.ok, report
    assert report.never_reached == ()


@pytest.mark.slow
def test_a_loop_without_end_is_endless(monkeypatch):
    monkeypatch.setattr("perdure.simulation.stage.user_world.MAX_EVENTS", 300)
    looping = task(
        "a", loop={"condition": "true", "max_iterations": 1000000, "delay_ms": 1000}, retry={"max_attempts": 1}
    )
    report = simulate(flow(looping, limits={"max_hops": 1000000}), seeds=1, start=82)
    assert [end.state for end in report.ends] == ["endless"]
    assert report.bad is not None
    assert len(report.bad.history) <= 101


@pytest.mark.slow
def test_a_handler_that_hangs_is_stuck():
    report = simulate(flow(task("a")), stubs={"a": Stub(delay=float("inf"))}, seeds=3)
    assert [(end.state, end.reason) for end in report.ends] == [("stuck", "a waits")]


@pytest.mark.slow
def test_nodes_never_reached_are_listed():
    report = simulate(APPEAL, stubs={"ask": approve()}, seeds=5)
    assert report.ok
    assert report.never_reached == ("appeal",)


@pytest.mark.slow
def test_what_is_parked_is_decided_by_the_seed():
    parking = task("a", on_failure="park", retry={"max_attempts": 1})
    report = simulate(flow(parking, task("b", "a")), stubs={"a": RuntimeError("x")}, seeds=30)
    assert report.ok, report
    assert {end.state for end in report.ends} == {"completed", "failed"}


@pytest.mark.slow
def test_children_maps_agents_and_compensation_end():
    child = {"name": "child", "nodes": [task("c")]}
    definition = flow(
        task(
            "pay", effect="at_most_once", on_failure="park", compensator={"type": "task", "config": {"function": "x:y"}}
        ),
        {
            "id": "many",
            "type": "map",
            "dependencies": ["pay"],
            "config": {"over": [1, 2], "node": {"type": "http", "config": {}}},
        },
        {"id": "sub", "type": "workflow", "dependencies": ["pay"], "config": {"workflow": "child"}},
        {
            "id": "agent",
            "type": "llm",
            "dependencies": ["many", "sub"],
            "config": {},
            "branch": {"type": "agent_driven", "available_next_nodes": ["x", "y"]},
        },
        task("x"),
        task("y"),
        on_failure={"compensate": True},
    )
    stubs = {"many": one_of({}, {}, perdure.Abort("no")), "pay": one_of({}, {}, RuntimeError("lost"))}
    report = simulate(definition, workflows=[child], stubs=stubs, seeds=60)
    assert report.ok, report
    assert report.never_reached == ()


@pytest.mark.slow
def test_a_rule_that_perdure_breaks_is_the_worst(monkeypatch):
    feed = Checker.feed

    def strict(self, event):
        found = feed(self, event)
        return [*found, Violation("X1", event.seq, "nobody may vote")] if event.type == "approval.voted" else found

    monkeypatch.setattr(Checker, "feed", strict)
    report = simulate(APPEAL, stubs={"appeal": nobody()}, seeds=10)
    assert report.ends[0].state == "broken"
    assert report.bad is not None
    assert report.bad.kind == "broken rule X1"


def test_an_assert_in_a_stub_fails_the_test():
    def check(call):
        assert call.inputs == 1, "what is this"

    with pytest.raises(AssertionError, match="what is this"):
        simulate(flow(task("a")), stubs={"a": check}, seeds=5)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "minLength": 3}, "xxx"),
        ({"type": "integer", "minimum": 4}, 4),
        ({"type": "integer", "exclusiveMinimum": 4}, 5),
        ({"type": "integer", "maximum": 0}, 0),
        ({"type": "number"}, 1.0),
        ({"enum": ["b", "a"]}, "b"),
        ({"type": ["null", "string"]}, None),
        ({"type": "array", "items": {"type": "boolean"}}, [True]),
        ({"type": "object", "required": ["a"], "properties": {"a": {"default": 3}}}, {"a": 3}),
        ({"anyOf": [{"const": 1}, {"const": 2}]}, 1),
    ],
)
def test_samples_fit_simple_schemas(schema, expected):
    assert sample(schema) == expected


@pytest.mark.slow
def test_inputs_are_filled_and_outputs_fit():
    schema = {
        "type": "object",
        "required": ["a", "b"],
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    }
    assert fill_inputs(schema, {"b": "mine", "c": 1}) == {"a": 1, "b": "mine", "c": 1}
    report = simulate(flow(task("t", output_schema=schema), inputs=schema), seeds=3)
    assert [end.state for end in report.ends] == ["completed"]


@pytest.mark.slow
def test_limited_work_goes_on_whatever_fails_while_a_coordinator_takes_it_over():
    """Among these are histories in which nobody can be asked who has what was inherited (seeds 142 and 154)."""
    inner = {
        "type": "task",
        "config": {"function": "a:b"},
        "concurrency": {"key": "acme", "limit": 3},
        "rate": {"key": "acme", "limit": 4, "per_seconds": 30},
    }
    nodes = [{"id": "pages", "type": "map", "config": {"over": list(range(12)), "node": inner}}]
    report = simulate({"name": "pages", "nodes": nodes}, seeds=20, start=140)
    assert report.ok, report


@pytest.mark.parametrize("name", _FORMATS)
def test_what_is_made_up_fits_its_format(name):
    schema = {"type": "string", "format": name}
    assert fits(schema, sample(schema))


def test_a_workflow_that_asks_for_a_date_can_be_simulated():
    schema = {"type": "object", "required": ["day"], "properties": {"day": {"type": "string", "format": "date"}}}
    node = {"id": "a", "type": "transform", "config": {"value": "{{ inputs.day }}"}}
    assert simulate(flow(node, inputs=schema), seeds=2).ok
