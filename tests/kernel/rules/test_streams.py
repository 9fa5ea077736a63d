"""Streams between nodes: rules 61 to 73. The kernel sees no chunk: only that a stream opened, what of it is kept, and its end."""

from typing import Any

import pytest

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import reruns
from perdure.kernel.outstanding import outstanding
from perdure.kernel.values import Ask, Error, Flow, Part, PortEnd
from tests.kernel.driver import Run, compiled
from tests.kernel.rules import graphs
from tests.kernel.rules.graphs import UNDO, effects, node, start, undone

REF = "sha256:" + "a" * 64


def flow(*pairs: str) -> list[dict[str, str]]:
    """Stream edges: `flow("a b")` leads from a to the port x of b."""
    return [{"from": one.split()[0], "to": f"{one.split()[1]}.x"} for one in pairs]


def opens(run: Any, name: str = "a", **fields: Any) -> Any:
    return run._command(c.OpenStream, name, (), None, ports=("out",), **fields)


def ends(run: Any, name: str = "a", chunks: int = 3, **fields: Any) -> Any:
    part = Part("out", chunks, REF, 9)
    return run._command(c.Complete, name, (), None, ended=(PortEnd("out", chunks, 9),), parts=(part,), **fields)


def lapses(run: Any, name: str = "a", **fields: Any) -> Any:
    return run._command(c.Lapse, name, (), None, reason="crashed", **fields)


@pytest.fixture(autouse=True)
def _checked(monkeypatch):
    """Have the checker look at every journal of this file, append by append, however its test ends."""
    found = []

    class Checked(Run):
        def __init__(self, *given, **keys):
            self.checker = Checker({})
            super().__init__(*given, **keys)

        def do(self, command):
            before = len(self.journal)
            result = super().do(command)
            self.checker.model.library.irs = self.state.library
            for event in self.journal[before:]:
                found.extend(self.checker.feed(event))
            found.extend(self.checker.settle())
            return result

    monkeypatch.setattr(graphs, "Run", Checked)
    yield
    assert found == []


# -- 61, 62: opening ---------------------------------------------------------------------------------------------------


def test_rule_61_a_stream_edge_is_taken_when_its_source_begins_to_yield():
    run = start(node("a"), node("b"), edges=flow("a b"))
    assert run.state_of("b") == "pending"
    opens(run)
    assert (run.state_of("a"), run.state_of("b")) == ("running", "queued")
    opened = run.events("stream.opened")[0]
    assert (opened.edition, opened.attempt, opened.ports) == (1, 1, ("out",))
    assert run.counter == 2


def test_rule_61_who_yields_has_begun_and_is_not_sent_again():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run, worker="w1")
    assert (run.events("node.started")[0].worker, run.get("a").begun) == ("w1", True)
    assert [one.address.node for one in outstanding(run.state) if isinstance(one, fx.Dispatch)] == ["b"]


def test_rule_61_an_opening_that_is_delivered_again_changes_nothing():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    before = len(run.journal)
    opens(run)
    assert len(run.journal) == before


def test_rule_61_a_stream_that_never_opened_is_empty_and_its_edge_is_taken_with_the_outcome():
    run = start(node("a"), node("b"), edges=flow("a b"))
    run.complete("a", None)
    assert run.state_of("b") == "queued"
    run.complete("b")
    assert run.state.state == "completed"


def test_rule_61_an_outcome_that_says_more_than_was_heard_opens_and_closes_the_stream():
    run = start(node("a"), node("b"), edges=flow("a b"))
    ends(run, chunks=2)
    assert [event.type for event in run.journal[2:5]] == ["stream.opened", "stream.closed", "node.completed"]
    assert run.get("a").flow == Flow(1, "end", (Part("out", 2, REF, 9),), (PortEnd("out", 2, 9),))


def test_rule_61_a_port_that_the_definition_lacks_fails_the_node():
    run = start(node("a"), node("b"), edges=flow("a b"))
    run._command(c.OpenStream, "a", (), None, ports=("alt",))
    assert run.get("a").error.code == "no_such_port"


def test_rule_61_a_node_that_streams_nowhere_may_still_open_one():
    run = start(node("a", stream={}), node("b", "a"))
    opens(run)
    assert run.state_of("b") == "pending"
    ends(run)
    assert run.state_of("b") == "queued"


def test_rule_61_a_node_without_streams_cannot_open_one():
    run = start(node("a"))
    opens(run)
    assert run.get("a").error.code == "no_such_port"


def test_rule_62_plain_dependents_wait_for_the_outcome():
    run = start(node("a"), node("b"), node("p", "a"), edges=flow("a b"))
    opens(run)
    assert run.state_of("p") == "pending"
    ends(run)
    assert run.state_of("p") == "queued"


def test_rule_62_a_reader_whose_source_broke_off_before_its_join_fired_is_held():
    run = start(node("a"), node("w"), node("b", "w"), edges=flow("a b"))
    opens(run)
    lapses(run)
    run.complete("w")
    assert (run.state_of("b"), run.get("b").reason) == ("held", "stream")
    opens(run)
    assert run.state_of("b") == "queued"


def test_rule_62_a_reader_of_two_streams_waits_for_both():
    run = start(node("a"), node("d"), node("b"), edges=flow("a b", "d b"))
    opens(run)
    assert run.state_of("b") == "pending"
    opens(run, "d")
    assert run.state_of("b") == "queued"
    lapses(run, "a")
    lapses(run, "d")
    opens(run, "a")
    assert run.state_of("b") == "held"
    opens(run, "d")
    assert run.state_of("b") == "queued"


# -- 63: editions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["lapse", "fail", "hand_back"])
def test_rule_63_what_breaks_off_is_begun_anew_and_so_are_its_readers(how):
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    run.begin("b")
    if how == "lapse":
        lapses(run)
    elif how == "fail":
        run.fail("a", retryable=True)
    else:
        run._command(c.Lapse, "a", (), None, reason="handed_back")
    closed = run.events("stream.closed")[0]
    assert (closed.edition, closed.reason, closed.stops) == (1, "restart", True)
    assert (run.state_of("b"), run.get("b").reason) == ("held", "stream")
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["b"]
    assert [(close.address.attempt, close.reason) for close in effects(run, fx.CloseStream)] == [(1, "restart")]
    if how == "fail":
        run.pass_time(10)
    opens(run, attempt=2)
    assert run.events("stream.opened")[-1].edition == 2
    assert (run.state_of("b"), run.get("b").attempt) == ("queued", 2)
    assert (run.get("b").failures, run.get("b").crashes, run.get("b").tries) == (0, 0, 1)


def test_rule_63_a_chain_of_streams_begins_anew_as_a_whole():
    run = start(node("a"), node("b"), node("d"), edges=flow("a b", "b d"))
    opens(run, "a")
    opens(run, "b")
    lapses(run, "a")
    assert [run.state_of(name) for name in "abd"] == ["queued", "held", "held"]
    assert [event.node for event in run.events("stream.closed")] == ["a", "b"]
    opens(run, "a")
    assert [run.state_of(name) for name in "abd"] == ["running", "queued", "held"]
    opens(run, "b")
    assert run.state_of("d") == "queued"


def test_rule_63_no_result_of_what_read_the_old_edition_counts():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    lapses(run)
    ends(run, attempt=1)
    run.complete("b", "old", attempt=1)
    assert (run.state_of("a"), run.state_of("b")) == ("queued", "held")
    opens(run, attempt=2)
    ends(run, attempt=2)
    run.complete("b", "old", attempt=1)
    assert run.state_of("b") == "queued"
    run.complete("b", "new", attempt=2)
    assert run.get("b").output == "new"


def test_rule_63_a_late_success_of_an_attempt_that_opened_nothing_is_accepted_as_ever():
    run = start(node("a"), node("b"), edges=flow("a b"))
    lapses(run)
    ends(run, attempt=1)
    assert (run.state_of("a"), run.get("a").flow.edition) == ("completed", 1)
    assert run.state_of("b") == "queued"


def test_rule_63_an_attempt_before_the_one_that_streams_speaks_no_more():
    run = start(node("a"), node("b"), edges=flow("a b"))
    lapses(run)
    opens(run, attempt=2)
    ends(run, attempt=1)
    run.complete("a", "late", attempt=1)
    assert (run.state_of("a"), run.get("a").flow.edition) == ("running", 2)


def test_rule_63_an_effect_that_has_begun_and_read_the_old_edition_is_parked():
    run = start(node("a"), node("b", effect="at_most_once"), edges=flow("a b"))
    opens(run)
    run.begin("b", ask="w")
    lapses(run)
    assert (run.state_of("b"), run.get("b").error.code) == ("parked", "stream_restarted")
    opens(run, attempt=2)
    assert run.state_of("b") == "parked"
    run._command(c.Requeue, "b", (), None)
    assert run.state_of("b") == "queued"


def test_rule_63_a_reader_that_was_to_be_tried_again_waits_for_the_new_edition():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    run.fail("b", retryable=True)
    assert run.state_of("b") == "retrying"
    lapses(run)
    assert run.state_of("b") == "held"
    run.pass_time(60)
    assert run.state_of("b") == "held"
    opens(run)
    assert run.state_of("b") == "queued"


def test_rule_63_a_reader_that_fails_alone_reads_the_same_edition_again():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    run.fail("b", retryable=True)
    run.pass_time(10)
    assert (run.state_of("b"), run.get("a").flow.edition) == ("queued", 1)


def test_rule_63_a_parked_producer_keeps_its_readers_waiting_and_a_discarded_one_does_not():
    run = start(node("a", on_failure="park", retry=1), node("b"), edges=flow("a b"))
    opens(run)
    run.fail("a")
    assert (run.state_of("a"), run.state_of("b")) == ("parked", "held")
    run._command(c.Discard, "a", (), None, as_="skip")
    assert run.state_of("b") == "queued"
    run.complete("b")
    assert run.state.state == "completed"


def test_rule_63_a_reader_that_waits_for_an_answer_reads_the_new_edition_when_it_has_it():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    run._command(c.AskFor, "b", (), None, asks=(Ask(name="nap", kind="sleep", seconds=5),))
    lapses(run)
    assert run.state_of("b") == "waiting"
    run.pass_time(5)
    assert (run.state_of("b"), run.get("b").reason) == ("held", "stream")
    opens(run)
    assert run.state_of("b") == "queued"


# -- 64, 65: the end ---------------------------------------------------------------------------------------------------


def test_rule_64_the_end_of_a_stream_is_in_the_append_that_accepts_the_outcome():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    ends(run, chunks=7)
    assert [event.type for event in run.journal[-2:]] == ["stream.closed", "node.completed"]
    assert run.journal[-2].ports == (PortEnd("out", 7, 9),)
    assert [close.reason for close in effects(run, fx.CloseStream)] == ["end"]


def test_rule_64_readers_at_work_are_told_again_what_may_have_been_lost():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    ends(run)
    told = [one for one in outstanding(run.state) if isinstance(one, fx.CloseStream)]
    assert [(one.address.node, one.address.attempt, one.reason) for one in told] == [("a", 1, "end")]
    run.complete("b")
    assert outstanding(run.state) == []


def test_rule_64_an_outcome_that_does_not_say_how_the_stream_ended_is_a_failure():
    run = start(node("a", retry=1), node("b"), edges=flow("a b"))
    opens(run)
    run.complete("a", "whatever")
    assert (run.state_of("a"), run.get("a").error.code) == ("failed", "bad_output")


def test_rule_65_a_reader_that_returns_before_the_end_has_failed():
    run = start(node("a"), node("b", retry=1), edges=flow("a b"))
    opens(run)
    run.complete("b", "too early")
    assert (run.state_of("b"), run.get("b").error.code) == ("failed", "stream_open")


def test_rule_65_one_that_may_end_early_stays_done_whatever_becomes_of_the_stream():
    run = start(node("a"), node("b", stream={"early": True}), edges=flow("a b"))
    opens(run)
    run.complete("b", "enough")
    assert run.state_of("b") == "completed"
    lapses(run)
    opens(run)
    ends(run)
    assert run.get("b").output == "enough"
    assert run.state.state == "completed"


# -- 66: checkpoints ---------------------------------------------------------------------------------------------------


def keeps(run: Any, data: Any, cursor: tuple[int, int], **fields: Any) -> None:
    run._command(c.Checkpoint, "b", (), None, data=data, cursors={"a.out": cursor}, **fields)


def test_rule_66_state_and_cursors_are_one_event_and_survive_the_reader():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    keeps(run, {"sum": 6}, (1, 3), number=1)
    event = run.events("node.checkpointed")[0]
    assert (event.data, event.cursors, event.version) == ({"sum": 6}, {"a.out": (1, 3)}, 4)
    lapses(run, "b")
    assert (run.get("b").checkpoint["data"], run.get("b").cursors) == ({"sum": 6}, {"a.out": (1, 3)})


def test_rule_66_a_checkpoint_dies_with_the_edition_and_steps_do_not():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    keeps(run, {"sum": 6}, (1, 3), number=1)
    run._command(c.Checkpoint, "b", (), None, data="done", step="charge", number=2)
    lapses(run)
    assert run.get("b").cursors is None
    assert run.get("b").checkpoint == {"data": None, "steps": {"charge": "done"}}


def test_rule_66_a_checkpoint_of_the_edition_before_is_gone_when_the_run_is_retried():
    run = start(node("a", retry=1), node("b"), edges=flow("a b"))
    opens(run)
    keeps(run, {"sum": 6}, (1, 3), number=1)
    run.fail("a")
    run.tell(c.Retry)
    opens(run)
    assert (run.get("b").checkpoint["data"], run.get("b").cursors) == (None, None)


# -- 67: broken streams ------------------------------------------------------------------------------------------------


def test_rule_67_a_failure_that_the_graph_handles_is_told_to_the_readers():
    run = start(node("a", retry=1, on_failure="continue"), node("b"), edges=flow("a b"))
    opens(run)
    run.begin("b")
    run.fail("a")
    assert (run.state_of("a"), run.state_of("b")) == ("failed", "running")
    closed = run.events("stream.closed")[0]
    assert (closed.reason, closed.stops) == ("failed", False)
    assert [close.error.code for close in effects(run, fx.CloseStream)] == ["error"]
    run.complete("b", "made the best of it")
    assert run.state.state == "completed"


def test_rule_67_readers_of_a_stream_that_fails_its_run_are_stopped():
    run = start(node("a", retry=1), node("b"), edges=flow("a b"))
    opens(run)
    run.begin("b")
    run.fail("a")
    assert run.state.state == "failed"
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["b"]
    assert not run.state.streams


def test_rule_67_a_reader_of_a_node_that_failed_before_it_yielded_finds_it_broken():
    run = start(node("a", retry=1, on_failure="continue"), node("b"), edges=flow("a b"))
    run.fail("a")
    assert (run.state_of("b"), run.get("a").flow) == ("queued", None)


def test_rule_67_what_is_skipped_skips_its_readers_as_ever():
    run = start(node("a", when="inputs.x"), node("b"), edges=flow("a b"), answers={"when": False})
    assert run.state_of("b") == "skipped"


# -- 68, 69, 70 --------------------------------------------------------------------------------------------------------


def test_rule_68_what_is_kept_is_noted_once_and_in_order():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    for upto in (4, 4, 2, 8):
        run._command(c.KeepStream, "a", (), None, part=Part("out", upto, REF, 1))
    assert [part.upto for part in run.get("a").flow.parts] == [4, 8]
    ends(run, chunks=9)
    assert [part.upto for part in run.events("stream.closed")[0].parts] == [4, 8, 9]


def test_rule_68_nothing_is_kept_of_an_edition_that_is_over():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    lapses(run)
    run._command(c.KeepStream, "a", (), None, part=Part("out", 4, REF, 1), attempt=1)
    run._command(c.KeepStream, "a", (), None, part=Part("out", 4, REF, 1))
    assert run.events("stream.kept") == []


def test_rule_69_a_retry_streams_anew_and_readers_wait_until_it_does():
    run = start(node("a", retry=1), node("b"), node("d", "b"), edges=flow("a b"))
    opens(run)
    run.fail("a")
    run.tell(c.Retry)
    assert (run.state_of("a"), run.state_of("b")) == ("queued", "pending")
    opens(run)
    assert run.state_of("b") == "queued"
    ends(run)
    run.complete("b")
    run.complete("d")
    assert run.state.state == "completed"


def test_rule_69_a_retry_of_the_reader_reads_what_is_kept():
    run = start(node("a"), node("b", retry=1), edges=flow("a b"))
    opens(run)
    ends(run)
    run.fail("b")
    run.tell(c.Retry)
    assert (run.state_of("b"), run.get("a").flow.state) == ("queued", "end")
    run.complete("b")
    assert run.state.state == "completed"


def test_rule_69_what_ends_while_the_run_fails_is_kept_with_its_stream():
    run = start(node("a"), node("b"), node("z", retry=1), edges=flow("a b"))
    run.fail("z")
    opens(run)
    assert run.state_of("b") == "pending"
    ends(run)
    assert run.state.state == "failed"
    run.tell(c.Retry)
    assert (run.state_of("a"), run.state_of("b")) == ("completed", "queued")


def test_rule_69_a_rerun_adopts_what_has_ended_with_its_stream():
    nodes = (node("a"), node("b"), node("d", "b"))
    run = start(*nodes, edges=flow("a b"))
    opens(run)
    ends(run)
    run.complete("b")
    again = start(*nodes, edges=flow("a b"), adopted=reruns.adopt(run.state, "b"))
    assert again.state_of("b") == "queued"
    assert again.get("a").flow == run.get("a").flow


@pytest.mark.parametrize("force", [False, True])
def test_rule_70_a_cancelled_run_leaves_no_stream_open(force):
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    run.tell(c.Cancel, force=force, grace_seconds=5)
    if not force:
        run.pass_time(5)
    assert run.state.state == "cancelled"
    assert not run.state.streams
    assert run.events("stream.closed")[0].reason in ("cancelled", "restart")


def test_rule_70_a_pause_holds_readers_that_would_begin_and_leaves_the_stream_alone():
    run = start(node("a"), node("b"), edges=flow("a b"))
    run.tell(c.Pause)
    run.begin("a")
    opens(run)
    assert (run.state_of("b"), run.get("b").reason) == ("held", "paused")
    run.tell(c.Resume)
    assert run.state_of("b") == "queued"


def test_rule_70_what_breaks_off_while_paused_is_begun_anew_after_it():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    run.begin("a")
    run.begin("b")
    run.tell(c.Pause)
    lapses(run)
    assert (run.state_of("a"), run.state_of("b")) == ("held", "held")
    run.tell(c.Resume)
    assert (run.state_of("a"), run.state_of("b")) == ("queued", "held")
    opens(run)
    assert run.state_of("b") == "queued"


def test_rule_70_a_compensated_producer_streams_anew_in_the_next_generation():
    run = start(node("a", compensator=UNDO), node("b", retry=1), edges=flow("a b"), on_failure={"compensate": True})
    opens(run)
    ends(run)
    run.fail("b")
    undone(run, "a")
    assert run.state.state == "failed"
    run.tell(c.Retry)
    assert (run.state_of("a"), run.state_of("b")) == ("queued", "pending")
    opens(run)
    assert run.get("b").state == "queued"


def test_rule_71_a_patch_changes_no_streams():
    run = start(node("a"), node("b"), edges=flow("a b"))
    run.tell(c.Patch, ir=compiled(node("a"), node("b"), edges=[{"from": "a", "to": "b.y"}]))
    assert run.refused.code == "patch_refused"
    run.tell(c.Patch, ir=compiled(node("a"), node("b"), node("e", "b"), edges=flow("a b")))
    assert run.refused is None


def test_rule_72_one_stream_has_several_readers_and_one_that_ended_early_is_left_alone():
    run = start(node("a"), node("b"), node("d", stream={"early": True}), edges=flow("a b", "a d"))
    opens(run)
    run.complete("d")
    lapses(run)
    assert (run.state_of("b"), run.state_of("d")) == ("held", "completed")


def test_rule_73_runs_without_streams_write_what_they_wrote():
    run = start(node("a"), node("b", "a"))
    run.complete("a")
    run.complete("b")
    assert not any(event.type.startswith("stream.") for event in run.journal)
    assert {event.version for event in run.journal} == {1}


def test_an_error_of_a_worker_is_kept_as_it_was():
    run = start(node("a", retry=1, on_failure="continue"), node("b"), edges=flow("a b"))
    opens(run)
    run._command(c.Fail, "a", (), None, error=Error("llm_down", "away"))
    assert effects(run, fx.CloseStream)[0].error.code == "llm_down"


def test_rule_61_of_an_attempt_that_was_delivered_twice_one_execution_streams():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run, writer="one")
    opens(run, writer="two")
    assert [event.writer for event in run.events("stream.opened")] == ["one"]
    ends(run, chunks=7, writer="two")
    assert run.events("stream.closed") == []
    ends(run, writer="one")
    assert [event.ports[0].chunks for event in run.events("stream.closed")] == [3]


def test_rule_64_a_reader_that_waits_is_told_again_what_has_ended():
    run = start(node("a"), node("b"), edges=flow("a b"))
    opens(run)
    told = run._command(c.TellStreams, "b", (), None)
    assert (told.events, told.effects) == ((), ())
    ends(run)
    told = run._command(c.TellStreams, "b", (), None)
    assert told.events == ()
    assert [(effect.address.node, effect.reason) for effect in told.effects] == [("a", "end")]


# -- 63: what goes on --------------------------------------------------------------------------------------------------

REPEATS, CHECKPOINTS = {"restart": "repeat"}, {"restart": "checkpoint"}


@pytest.mark.parametrize("stream", [REPEATS, CHECKPOINTS])
def test_rule_63_an_edition_that_goes_on_outlives_its_attempt_and_its_readers_notice_nothing(stream):
    run = start(node("a", stream=stream), node("b"), edges=flow("a b"))
    opens(run)
    run.begin("b")
    lapses(run)
    assert (run.state_of("a"), run.state_of("b"), run.events("stream.closed")) == ("queued", "running", [])
    opens(run, attempt=2, writer="two")
    assert [(one.edition, one.attempt, one.version) for one in run.events("stream.opened")] == [(1, 1, 2), (1, 2, 3)]
    ends(run, attempt=2, writer="two")
    assert (run.state_of("a"), run.get("a").flow.edition, run.get("a").flow.by) == ("completed", 1, 2)
    run.complete("b")
    assert run.state.state == "completed"


def test_rule_63_who_waits_for_what_nobody_makes_is_put_aside_and_keeps_what_it_has():
    run = start(node("a", stream=REPEATS), node("b"), edges=flow("a b"))
    opens(run)
    run.begin("b")
    run._command(c.Checkpoint, "b", (), None, data=1, number=1, cursors={"a.out.x": (1, 5, 77)})
    run._command(c.TellStreams, "b", (), None)
    assert run.state_of("b") == "running"
    lapses(run)
    run._command(c.TellStreams, "b", (), None)
    assert (run.state_of("b"), run.get("b").reason, run.get("b").crashes) == ("held", "stream", 0)
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["b"]
    opens(run, attempt=2)
    assert (run.state_of("b"), run.get("b").checkpoint["data"], run.get("b").failures) == ("queued", 1, 0)


def test_rule_63_an_effect_that_has_begun_is_not_put_aside():
    run = start(node("a", stream=REPEATS), node("b", effect="at_most_once"), edges=flow("a b"))
    opens(run)
    run.begin("b", ask="w")
    lapses(run)
    run._command(c.TellStreams, "b", (), None)
    assert run.state_of("b") == "running"


def test_rule_63_a_late_success_of_the_attempt_before_ends_the_edition_it_made():
    run = start(node("a", stream=REPEATS), node("b"), edges=flow("a b"))
    opens(run, writer="one")
    lapses(run)
    ends(run, attempt=1, writer="one")
    assert (run.state_of("a"), run.get("a").flow.by) == ("completed", 1)


def test_rule_63_no_late_success_counts_of_what_made_an_edition_that_is_over():
    """G17: PROTOCOL 16 does not hold for it."""
    run = start(node("a"), node("b", stream=CHECKPOINTS), node("d"), edges=flow("a b", "b d"))
    opens(run, "a")
    opens(run, "b")
    lapses(run, "a")
    opens(run, "a", attempt=2)
    ends(run, "a", attempt=2)
    ends(run, "b", attempt=1)
    assert (run.state_of("b"), run.state_of("d")) == ("queued", "held")
    assert run.events("result.ignored")[-1].node == "b"


@pytest.mark.parametrize("stream", [REPEATS, CHECKPOINTS])
def test_rule_63_what_is_made_of_an_edition_that_is_over_is_over_whatever_it_says(stream):
    """G16."""
    run = start(node("a"), node("b", stream=stream), node("d"), edges=flow("a b", "b d"))
    opens(run, "a")
    opens(run, "b")
    lapses(run, "a")
    assert [run.state_of(name) for name in "abd"] == ["queued", "held", "held"]
    assert [(one.node, one.reason) for one in run.events("stream.closed")] == [("a", "restart"), ("b", "restart")]
    opens(run, "a", attempt=2)
    opens(run, "b", attempt=2)
    assert run.get("b").flow.edition == 2


def covers(run, upto, after=0, *, number, **fields):
    kept = ((after, Part("out", upto, REF, 1)),)
    run._command(c.Checkpoint, "a", (), None, data={"at": upto}, number=number, kept=kept, **fields)


def test_rule_63_a_checkpoint_and_the_pieces_it_covers_are_one_append():
    run = start(node("a", stream=CHECKPOINTS), node("b"), edges=flow("a b"))
    opens(run)
    covers(run, 4, number=1)
    assert [event.type for event in run.journal[-2:]] == ["stream.kept", "node.checkpointed"]
    covers(run, 4, number=1)
    assert len(run.events("stream.kept")) == 1
    covers(run, 9, after=0, number=2)
    assert [part.upto for part in run.get("a").flow.parts] == [9]
    covers(run, 12, after=9, number=3)
    assert [part.upto for part in run.get("a").flow.parts] == [9, 12]
    lapses(run)
    assert (run.get("a").checkpoint["data"], run.get("a").flow.parts[-1].upto) == ({"at": 12}, 12)


def test_rule_63_pieces_that_no_checkpoint_covers_are_not_kept():
    run = start(node("a", stream=CHECKPOINTS), node("b"), edges=flow("a b"))
    opens(run)
    run._command(c.KeepStream, "a", (), None, part=Part("out", 4, REF, 1))
    assert run.events("stream.kept") == []


def test_rule_63_a_checkpoint_is_not_kept_without_its_pieces():
    run = start(node("a", stream=CHECKPOINTS), node("b"), edges=flow("a b"))
    covers(run, 4, number=1)  # nothing is open: the pieces can be of nothing
    assert (run.events("node.checkpointed"), run.get("a").checkpoint) == ([], None)


@pytest.mark.parametrize("stream", [{}, CHECKPOINTS])
def test_rule_63_what_a_producer_kept_dies_with_its_edition(stream):
    run = start(node("a", retry=1, stream=stream), node("b"), edges=flow("a b"))
    opens(run)
    run._command(c.Checkpoint, "a", (), None, data={"at": 4}, number=1)
    if stream:
        run.fail("a")
        run.tell(c.Retry)
    else:
        lapses(run)
    assert run.get("a").checkpoint["data"] is None


def diverges(run, **fields):
    run._command(c.Fail, "a", (), None, error=Error("stream_diverged", "another chunk"), **fields)


def test_rule_63_what_is_not_repeated_begins_anew_and_that_is_no_failure_of_the_attempt():
    run = start(node("a", retry=1, stream=REPEATS), node("b"), edges=flow("a b"))
    opens(run)
    lapses(run)
    opens(run, attempt=2)
    diverges(run)
    closed = run.events("stream.closed")[0]
    assert (closed.reason, closed.stops, closed.error.code) == ("restart", True, "stream_diverged")
    assert (run.state_of("a"), run.state_of("b"), run.get("a").failures) == ("queued", "held", 0)
    opens(run, attempt=3)
    assert run.get("a").flow.edition == 3


def test_rule_63_nobody_repeats_an_edition_of_his_own_wrongly():
    run = start(node("a", retry=1, stream=REPEATS), node("b"), edges=flow("a b"))
    opens(run)
    diverges(run)
    assert (run.state_of("a"), run.get("a").error.code) == ("failed", "stream_diverged")


def test_rule_63_an_end_before_what_a_reader_has_kept_is_not_repeated():
    run = start(node("a", stream=REPEATS), node("b"), edges=flow("a b"))
    opens(run)
    run._command(c.Checkpoint, "b", (), None, data=1, number=1, cursors={"a.out.x": (1, 5, 77)})
    lapses(run)
    opens(run, attempt=2)
    ends(run, chunks=4)
    assert (run.state_of("a"), run.state_of("b")) == ("queued", "held")
    assert run.events("stream.closed")[0].error.code == "stream_diverged"


def test_rule_66_what_was_kept_of_an_edition_that_goes_on_is_good_for_the_next_attempts():
    run = start(node("a", stream=REPEATS), node("b"), edges=flow("a b"))
    opens(run)
    run._command(c.Checkpoint, "b", (), None, data=1, number=1, cursors={"a.out.x": (1, 5, 77)})
    lapses(run)
    opens(run, attempt=2)
    lapses(run, "b")
    assert (run.get("b").checkpoint["data"], run.get("b").cursors) == (1, {"a.out.x": (1, 5, 77)})


def test_rule_67_what_goes_on_ends_with_a_run_that_fails():
    run = start(node("a", stream=REPEATS), node("b"), node("z", retry=1), edges=flow("a b"))
    opens(run)
    run.begin("b")
    run.fail("z")
    lapses(run)
    assert (run.state.state, run.state.streams) == ("failed", {})
    run.tell(c.Retry)
    opens(run)
    assert run.get("a").flow.edition == run.get("a").attempt


def test_rule_70_a_producer_that_waits_or_is_parked_keeps_what_it_goes_on_with():
    run = start(node("a", on_failure="park", retry=1, stream=CHECKPOINTS), node("b"), edges=flow("a b"))
    opens(run)
    covers(run, 4, number=1)
    run.fail("a")
    assert (run.state_of("a"), run.state_of("b"), run.get("a").flow.state) == ("parked", "queued", "open")
    run._command(c.Requeue, "a", (), None)
    opens(run)
    ends(run, chunks=4)
    assert run.state_of("a") == "completed"
