"""Feeds events to the rules, one by one: J2, J4, J6 and E4 are about every event, the other rules about their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from perdure.invariants import (
    agents,
    attempts,
    editions,
    flow,
    generations,
    handed,
    mailboxes,
    money,
    own_patches,
    runs,
    undo,
    waits,
)
from perdure.invariants.graph import Library
from perdure.invariants.model import RUN_OVER, Model, Violation
from perdure.kernel import events as e
from perdure.model.ir import IR


class Checker:
    def __init__(self, library: Mapping[str, IR]) -> None:
        """`library` may grow while events are fed: the IR of a patch must be in it before its event."""
        self.model = Model(Library(library))

    def copy(self) -> Checker:
        """Another checker that has seen the same events, for a search that branches."""
        other = Checker(self.model.library.irs)
        other.model = self.model.copy()
        return other

    def feed(self, event: e.Event) -> list[Violation]:
        """The violations of this event, after all those before it."""
        model = self.model
        model.found = []
        expected, model.seq = model.seq + 1, event.seq
        model.at = event.at
        if event.seq != expected:
            model.blame("J2", f"event {event.seq} comes where {expected} was expected")
        if isinstance(event, e.RunCreated) != (not model.graphs):
            model.blame("J4", f"{event.type} at {event.seq}: the first event, and only it, is run.created")
            if not model.graphs:
                return model.found
        if model.state in RUN_OVER and not isinstance(event, (*runs.AUDIT, e.RunRetried, e.RunCompensating)):
            model.blame("J4", f"{event.type} comes after the run is {model.state}")
        handler = _HANDLERS.get(type(event))
        if handler is None:
            model.blame("J6", f"no rule for {type(event).__name__}")
            return model.found
        own_patches.look(model, event)
        handler(model, event)
        money.look(model, event)
        agents.look(model, event)
        if event.counter != model.counter:
            model.blame("E4", f"{event.type} says the counter is {event.counter}; it is {model.counter}")
        if min(model.tokens, model.open, model.undoing) < 0:
            model.blame("E4", f"tokens {model.tokens}, activations {model.open}, compensations {model.undoing}")
        return model.found

    def settle(self) -> list[Violation]:
        """The violations at the end of an append, for callers that know where it is."""
        self.model.found = []
        runs.settled(self.model)
        money.settled(self.model)
        editions.settled(self.model)
        return self.model.found


def check(events: Iterable[e.Event], library: Mapping[str, IR]) -> list[Violation]:
    checker = Checker(library)
    return [violation for event in events for violation in checker.feed(event)]


def _nothing(model: Model, event: e.Event) -> None:
    """Accept an event that no invariant is about."""


_HANDLERS: dict[type[e.Event], Callable[[Model, Any], None]] = {
    e.RunCreated: runs.created,
    e.RunPaused: runs.paused,
    e.RunResumed: runs.resumed,
    e.RunFailing: runs.failing,
    e.RunFailed: runs.failed,
    e.RunCancelling: runs.cancelling,
    e.RunCancelled: runs.cancelled,
    e.RunCompensating: runs.compensating,
    e.RunRolledBack: runs.rolled_back,
    e.RunCompleted: runs.completed,
    e.RunRetried: generations.retried,
    e.RunPatched: runs.patched,
    e.RunSignalled: runs.signalled,
    e.RunUndelivered: runs.undelivered,
    e.NodeScheduled: lambda model, event: attempts.scheduled(model, event, event.at, event.after, event.unbegun),
    e.NodesScheduled: attempts.each(attempts.scheduled, "at"),
    e.NodeStarted: attempts.started,
    e.NodeCheckpointed: attempts.checkpointed,
    e.StepStarted: attempts.step_started,
    e.StepReleased: attempts.step_released,
    e.NodeCompleted: handed.completed,
    e.NodeRouted: attempts.routed,
    e.NodeFailed: attempts.failed,
    e.NodeRetrying: attempts.retrying,
    e.NodeSkipped: attempts.skipped,
    e.NodesSkipped: attempts.each(attempts.skipped),
    e.NodeUpstreamFailed: attempts.upstream_failed,
    e.NodeHeld: lambda model, event: attempts.held(model, event, event.after, event.unbegun),
    e.NodesHeld: attempts.each(attempts.held),
    e.NodeWaiting: attempts.waiting,
    e.NodeResumed: attempts.resumed,
    e.NodeParked: attempts.parked,
    e.NodeRequeued: attempts.requeued,
    e.NodeDiscarded: undo.discarded,
    e.NodeCancelled: lambda model, event: attempts.cancelled(model, event, event.reason),
    e.NodesCancelled: attempts.each(attempts.cancelled, "reason"),
    e.NodeCompensating: undo.compensating,
    e.NodeCompensated: undo.compensated,
    e.LoopAdvanced: flow.advanced,
    e.LoopEnded: flow.ended,
    e.ApprovalRequested: waits.requested,
    e.ApprovalVoted: waits.voted,
    e.ApprovalDelegated: waits.delegated,
    e.ApprovalDecided: waits.decided,
    e.ApprovalEscalated: waits.escalated,
    e.TimerSet: waits.timer_set,
    e.TimerFired: waits.timer_fired,
    e.ChildStarted: waits.child_started,
    e.ChildEnded: waits.child_ended,
    e.ItemCompleted: attempts.item_completed,
    e.ItemFailed: attempts.item_failed,
    e.StreamOpened: editions.opened,
    e.StreamKept: editions.kept,
    e.StreamClosed: editions.closed,
    e.TriggerRegistered: mailboxes.registered,
    e.TriggerReceived: mailboxes.received,
    e.TriggerAdvanced: mailboxes.moved,
    e.TriggerSkipped: mailboxes.skipped,
    e.TriggerStarted: mailboxes.started,
    e.TriggerEnded: mailboxes.ended,
    e.TriggerHanded: handed.handed,
    e.TriggerParked: mailboxes.parked,
    e.TriggerReleased: mailboxes.released,
    e.TriggerBackfilling: mailboxes.backfilling,
    e.TriggerCarried: mailboxes.carried,
    e.LimitReached: _nothing,
    e.ResultIgnored: attempts.ignored,
}
