"""Events and the kernel: rules 41 to 44."""

from typing import Any

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel import snapshot
from perdure.kernel.address import Address
from perdure.kernel.decide import advance, decide
from perdure.kernel.evolve import evolve
from perdure.kernel.lifecycle import OPEN, IntegrityError, NodeState
from perdure.kernel.values import Error, Wait
from tests.kernel.driver import Run, compiled, fold
from tests.kernel.rules.graphs import AGAIN, DONE, UNDO, again, effects, human, node, pick, start, undone

VOCABULARY = """
run.created run.paused run.resumed run.failing run.failed run.cancelling run.cancelled run.compensating run.rolled_back
run.completed run.retried run.patched run.signalled
node.scheduled node.started node.checkpointed node.completed node.failed node.retrying node.skipped node.upstream_failed
node.held node.waiting node.resumed node.parked node.requeued node.discarded node.cancelled node.compensating
node.compensated nodes.scheduled nodes.skipped
approval.requested approval.voted approval.decided approval.escalated timer.set timer.fired child.started child.ended
item.completed item.failed stream.opened stream.closed trigger.registered trigger.received trigger.advanced
limit.reached result.ignored
"""
"""Names that other programs read: they stay."""

BESIDES = {"node.routed", "nodes.held", "nodes.cancelled", "loop.advanced", "loop.ended", "approval.delegated"}
BESIDES |= {"run.undelivered"}
BESIDES |= {"trigger.skipped", "trigger.started", "trigger.ended", "trigger.parked", "trigger.released"}
BESIDES |= {"trigger.backfilling", "trigger.carried", "trigger.handed"}
BESIDES |= {"step.started", "step.released"}
BESIDES |= {"stream.kept"}
"""What the kernel needs to say besides: late routes, two more batch forms, the turns of loops, approvals handed over, runs that
cannot be continued, and what becomes of the items of a trigger."""


def test_rule_41_decide_returns_needs_first_and_the_decision_with_the_verdicts():
    run = start(node("a", branch=pick(["b"], ["d"])), node("b"), node("d"))
    command = c.Complete(at=run.now, address=Address("run", "a"), output={"x": 1})
    needs = decide(run.state, command)
    assert isinstance(needs, c.Needs)
    assert [q.need for q in needs.questions] == [c.Need("branch", "a", (), 0)]
    assert needs.questions[0].evidence.output == {"x": 1}
    verdicts = {c.Need("branch", "a", (), 0): c.Verdict(value=False)}
    needs = decide(run.state, command, verdicts)
    assert isinstance(needs, c.Needs)
    assert [q.need for q in needs.questions] == [c.Need("branch", "a", (), 1)]
    verdicts[c.Need("branch", "a", (), 1)] = c.Verdict(value=True)
    ruling: Any = decide(run.state, command, verdicts)
    assert ruling.events[0].route.taken == ("d",)


def test_rule_41_needs_leave_the_state_as_it_was():
    run = start(node("h"), node("x", "h", loop=again("h"), branch=pick(["b"])), node("b"))
    run.complete("h", scope=(1,))
    before = snapshot.encode(run.state)
    command = c.Complete(at=run.now, address=Address("run", "x", (1,)), output=DONE)
    assert isinstance(advance(run.state, command), c.Needs)
    verdicts = {c.Need("loop", "x", (1,)): c.Verdict(value=False)}
    assert isinstance(advance(run.state, command, verdicts), c.Needs)
    assert snapshot.encode(run.state) == before
    assert run.state.undo is None


def test_rule_41_all_needs_of_one_moment_are_asked_at_once():
    run = start(node("a"), *(node(f"b{n}", "a", when="inputs.x") for n in range(3)), answers={"when": True})
    needs = decide(run.state, c.Complete(at=run.now, address=Address("run", "a")))
    assert isinstance(needs, c.Needs)
    assert [q.need.node for q in needs.questions] == ["b0", "b1", "b2"]


def test_rule_41_decide_changes_nothing_and_advance_does():
    run = start(node("a"), node("b", "a"))
    command = c.Complete(at=run.now, address=Address("run", "a"))
    before = snapshot.encode(run.state)
    foreseen = decide(run.state, command)
    assert snapshot.encode(run.state) == before
    assert advance(run.state, command) == foreseen
    assert snapshot.encode(run.state) != before


def test_rule_41_randomness_comes_with_the_command():
    delays = set()
    for entropy in (0.0, 0.5, 0.5, 0.9):
        run = start(node("a"))
        run.fail("a", retryable=True, entropy=entropy)
        delays.add(round(run.get("a").retry_at - run.now, 6))
    assert delays == {0.5, 0.75, 0.95}


def test_rule_41_time_comes_with_the_command():
    run = start(node("a"))
    ruling = decide(run.state, c.Complete(at=123456.5, address=Address("run", "a")))
    assert isinstance(ruling, c.Ruling)
    assert {event.at for event in ruling.events} == {123456.5}


def test_rule_41_a_timer_never_fires_early():
    run = start(node("a"))
    run.fail("a", retryable=True)
    run.tell(c.FireTimer, timer=next(iter(run.state.timers)))
    assert run.refused.code == "too_early"


def test_rule_41_ids_derive_from_run_node_scope_and_attempt():
    run = start(human("ask"), node("x", "ask", loop=again("ask")))
    first = run.ask("ask", (1,))
    run.vote(first, "approve")
    run.complete("x", AGAIN, (1,))
    second = run.ask("ask", (2,))
    assert (first, second) == ("run:ask~1:1", "run:ask~2:1")


def test_rule_41_the_same_commands_give_the_same_journal():
    def play() -> list[bytes]:
        run = start(node("a"), human("ask", "a"), {"id": "w", "type": "workflow", "config": {"workflow": "i"}})
        run.fail("a", retryable=True)
        run.pass_time(60)
        run.complete("a")
        run.vote(run.ask("ask"), "approve")
        run.suspend("w", Wait(kind="child"), workflow="i")
        return [e.encode(event) for event in run.journal]

    assert play() == play()


def test_rule_42_the_vocabulary_is_complete():
    assert set(e.TYPES) == set(VOCABULARY.split()) | BESIDES


@pytest.mark.parametrize("name", sorted(e.TYPES))
def test_rule_42_every_event_type_has_a_version(name):
    kind = e.TYPES[name]
    assert isinstance(kind.VERSION, int)
    assert kind.VERSION >= 1
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    assert fields["version"].default == 1, "a later one is written only where an event says more than before"
    assert "." in name


def test_rule_42_a_type_or_version_from_the_future_is_refused():
    event = e.RunPaused(seq=1, at=1.0)
    assert e.decode(e.encode(event)) == event
    with pytest.raises(e.UnknownEvent, match="version 2"):
        e.decode(e.encode(e.RunPaused(seq=1, at=1.0, version=2)))
    with pytest.raises(e.UnknownEvent):
        e.decode(b'{"type":"run.dreamt","seq":1,"at":1.0}')


def test_rule_42_many_at_once_are_one_event():
    run = start(
        node("a", branch=pick(["on"], default=[])),
        *(node(f"b{n}", "a") for n in range(3)),
        node("on"),
        node("off", "on"),
        node("o", "off"),
    )
    run.complete("a", {})
    assert [place.node for place in run.events("nodes.scheduled")[0].places] == ["b0", "b1", "b2"]
    assert [place.node for place in run.events("nodes.skipped")[0].places] == ["on", "off", "o"]
    assert "node.skipped" not in run.types()


def test_rule_42_many_held_or_cancelled_at_once_are_one_event():
    run = start(node("h"), node("a", "h"), node("b", "h"), node("x", "h", loop=again("h")))
    run.tell(c.Pause)
    run.complete("h", scope=(1,))
    assert [place.node for place in run.events("nodes.held")[0].places] == ["a", "b", "x"]
    run.tell(c.Resume)
    run.complete("x", DONE, (1,))
    assert [place.node for place in run.events("nodes.cancelled")[0].places] == ["a", "b"]


def test_rule_42_an_event_names_its_cause():
    """The number of the event it comes from, or, where it comes from outside, who asked for what."""
    run = start(node("a", when="inputs.x"), node("b", "a"), answers={"when": False})
    assert [event.cause for event in run.journal] == ["start", *["1"] * (len(run.journal) - 1)]
    run = start(node("a"), node("b", "a"))
    run.complete("a")
    assert [(event.seq, event.type, event.cause) for event in run.journal[1:]] == [
        (2, "node.scheduled", "1"),
        (3, "node.completed", "2"),
        (4, "node.scheduled", "3"),
    ]
    run.tell(c.Cancel, id="cancel:ann")
    assert [event.cause for event in run.journal[4:]] == ["cancel:ann", *["5"] * (len(run.journal) - 5)]


def test_the_error_of_a_run_names_the_node_that_failed():
    run = start(node("a", loop=again("a")))
    run.fail("a", scope=(1,))
    failing, failed = run.events("run.failing")[0], run.events("run.failed")[0]
    assert (failed.error.node, failed.error.scope, failed.error.item) == ("a", (1,), None)
    assert failing.error == failed.error == run.state.error


def test_rule_42_events_are_shown_with_their_header_on_top():
    run = start(node("a", branch=pick(["b"])), node("b"))
    run.complete("a", {"rule": 0}, worker="w1")
    shown = e.public(run.journal[2])
    assert set(shown) == {"seq", "type", "version", "at", "cause", "node", "visit", "attempt", "counter", "data"}
    assert (shown["type"], shown["version"], shown["visit"], shown["attempt"]) == ("node.completed", 1, 1, 1)
    assert shown["data"]["output"] == {"rule": 0}
    assert (shown["data"]["route"]["rule"], shown["data"]["route"]["taken"]) == ("branch[0]", ("b",))


@pytest.mark.parametrize(
    "event",
    [
        e.StreamOpened(seq=3, at=1.0, node="a", edition=1, ports=("out",), counter=1),
        e.NodeCheckpointed(seq=3, at=1.0, node="a", data={"page": 2}, counter=1),
    ],
    ids=lambda event: event.type,
)
def test_rule_42_events_of_later_features_have_their_place_now(event):
    run = start(node("a"))
    state = fold([*run.journal, event], run.state.library)
    assert state.seq == 3
    assert state.counter == 1


def test_rule_42_events_follow_each_other_without_gap():
    run = start(node("a"), node("b", "a"))
    run.complete("a")
    assert [event.seq for event in run.journal] == [1, 2, 3, 4]
    with pytest.raises(IntegrityError, match="J2"):
        evolve(run.state, e.RunPaused(seq=9, at=1.0, counter=1))


def count(run: Run) -> None:
    """The counter, counted anew from what is in the state (E4)."""
    tokens = open_ = 0
    for activation in run.state.activations.values():
        open_ += activation.state in OPEN
        if activation.state is NodeState.PENDING and not activation.fired and not run.state.terminal:
            tokens += activation.tokens
    undoing = len(run.state.plan)
    assert run.counter == tokens + open_ + undoing
    assert run.counter >= 0
    if run.state.terminal:
        assert run.counter == 0


def test_rule_43_the_counter_is_tokens_at_joins_plus_open_activations():
    run = start(node("a"), node("b"), node("d"), node("j", "a", "b", "d"))
    run.check = count
    counters = [run.counter]
    for name in ("a", "b", "d", "j"):
        run.complete(name)
        counters.append(run.counter)
    assert counters == [3, 3, 3, 1, 0]


def test_rule_43_open_compensations_count():
    run = start(
        node("a", compensator=UNDO), node("b", "a", compensator=UNDO), node("z", "b"), on_failure={"compensate": True}
    )
    run.check = count
    run.complete("a")
    run.complete("b")
    run.fail("z")
    assert run.counter == 2
    undone(run, "b")
    assert run.counter == 1
    undone(run, "a")
    assert run.counter == 0
    assert run.status == "failed"


def test_rule_43_a_token_into_a_join_that_has_fired_is_consumed_in_the_append_that_sent_it():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.check = count
    run.complete("a")
    assert run.counter == 2
    run.complete("b")
    assert run.counter == 1
    run.complete("j")
    assert run.counter == 0


def test_rule_43_every_event_carries_the_counter_after_it():
    run = start(node("a", branch=pick(["b"], ["d"])), node("b"), node("d"), node("j", "b", "d"))
    run.complete("a", {"rule": 0})
    assert [event.counter for event in run.journal] == [0, 1, 1, 1, 1]
    with pytest.raises(IntegrityError, match="counter"):
        fold([*run.journal, e.RunPaused(seq=6, at=1.0, counter=7)], run.state.library)


def test_rule_43_the_run_completes_in_the_append_where_nothing_is_open():
    run = start(node("a"), node("b"))
    run.complete("a")
    assert run.status == "running"
    ruling = run.complete("b")
    assert [event.type for event in ruling.events] == ["node.completed", "run.completed"]


@pytest.mark.parametrize("how", ["fail", "cancel", "force"])
def test_rule_43_a_terminal_event_closes_everything_open(how):
    run = start(
        node("a"),
        human("ask"),
        node("s"),
        node("t"),
        node("r"),
        node("p", on_failure="park"),
        node("j", "a", "ask"),
        node("done"),
        node("k", "done", "s"),
    )
    run.check = count
    run.ask("ask", timeout_seconds=100)
    run.suspend("s", Wait(kind="signal", name="go", until=run.now + 100))
    run.suspend("t", Wait(kind="timer", until=run.now + 100))
    run.fail("r", retryable=True)
    run.fail("p")
    run.complete("done")
    run.begin("a")
    if how == "fail":
        run.fail("a")
    else:
        run.tell(c.Cancel, force=how == "force")
        if how == "cancel":
            run.complete("a")
    assert run.state.terminal
    assert run.counter == 0
    assert run.state.timers == {}
    assert not [a for a in run.state.activations.values() if a.state in OPEN]
    assert all(approval.state == "decided" for approval in run.state.approvals.values())


def test_rule_43_a_loop_keeps_the_counter_right():
    run = start(
        node("h"),
        node("a", "h"),
        node("b", "h"),
        node("j", "a", "b"),
        node("x", "h", loop=again("h")),
        node("z", "x", "j"),
    )
    run.check = count
    for iteration in (1, 2):
        run.complete("h", scope=(iteration,))
        run.complete("a", scope=(iteration,))
        run.complete("x", {"again": iteration == 1}, (iteration,))
    run.complete("z")
    assert run.status == "completed"


def outputs(*nodes, answers=None):
    written = {"one": "{{ a.x }}", "two": "{{ b.x }}"}
    return start(*nodes, outputs=written, answers=answers)


def test_rule_44_a_skipped_node_in_outputs_is_null():
    seen = []

    def render(question):
        seen.append(question.evidence.nodes)
        return {"one": 1, "two": None}

    run = outputs(node("s", branch=pick(["a"], ["b"])), node("a"), node("b"), answers={"outputs": render})
    run.complete("s", {"rule": 0})
    run.complete("a", {"x": 1})
    assert run.state.outputs == {"one": 1, "two": None}
    assert (seen[-1]["a"].output, seen[-1]["b"].output, seen[-1]["b"].state) == ({"x": 1}, None, "skipped")


def test_rule_44_a_skipped_terminal_node_is_null_in_the_default_outputs():
    run = start(node("s", branch=pick(["a"], ["b"])), node("a"), node("b"))
    run.complete("s", {"rule": 0})
    run.complete("a", {"x": 1})
    assert run.state.outputs == {"a": {"x": 1}, "b": None}


def test_rule_44_the_output_node_gives_the_outputs():
    run = start(node("a"), {"id": "out", "type": "output", "config": {}, "dependencies": ["a"]}, node("side", "a"))
    run.complete("a")
    run.complete("side", 1)
    run.complete("out", {"x": 1})
    assert run.state.outputs == {"x": 1}


def test_rule_44_any_other_error_there_ends_the_run_failed_output_error():
    run = outputs(node("a"), node("b"), answers={"outputs": Error("no_such_field", "a has no x")})
    run.complete("a", {})
    run.complete("b", {})
    assert run.status == "failed"
    assert run.state.error.code == "output_error"
    assert (run.state_of("a"), run.state_of("b")) == ("completed", "completed")


def test_rule_44_retrying_renders_the_outputs_again_and_executes_nothing():
    run = outputs(node("a"), node("b"), answers={"outputs": Error("no_such_field")})
    run.complete("a", {})
    run.complete("b", {})
    run.answers["outputs"] = {"one": 1, "two": 2}
    run.tell(c.Retry)
    assert not effects(run, fx.Dispatch)
    assert run.status == "completed"
    assert run.state.outputs == {"one": 1, "two": 2}


def test_rule_44_a_run_of_many_terminals_has_its_outputs_put_together_outside():
    run = Run(compiled(*(node(f"n{i}") for i in range(70))), answers={"outputs": lambda q: len(q.evidence.nodes)})
    run.replay_each_step = False
    for i in range(70):
        run.complete(f"n{i}")
    assert run.state.outputs == 70
