"""What approvals, timers, children, map items and streams do to the state."""

from __future__ import annotations

from typing import Any

from perdure.kernel import events as e
from perdure.kernel.edges import ask_timer, clear_timer, set_state, set_timer, timer_name
from perdure.kernel.facts import ask_facts
from perdure.kernel.facts.fold_rules import began, count_item, finish, folds, get, succeed
from perdure.kernel.facts.money_facts import end_loan, lend
from perdure.kernel.lifecycle import IntegrityError, N
from perdure.kernel.state import Activation, Approval, State, Timer


@folds(e.ApprovalRequested)
def _approval_requested(state: State, event: e.ApprovalRequested) -> None:
    activation = get(state, event)
    approval = Approval(
        key=activation.key,
        approvers=event.approvers,
        quorum=event.quorum,
        on_timeout=event.on_timeout,
        escalate_to=event.escalate_to,
        requested_at=event.at,
        expires_at=event.expires_at,
        shown=event.shown,
        notify=event.notify,
        ask=event.ask,
    )
    state.put(state.approvals, event.approval, approval)
    if event.ask:
        state.edit(activation.asks[event.ask]).approval = event.approval
    _set_expiry(state, activation, approval, event.expires_at)


def _expiry(state: State, activation: Activation, approval: Approval) -> str:
    """The name of the timer of an approval."""
    if approval.ask:
        return ask_timer(state, "approval", activation, approval.ask)
    return timer_name(state, "approval", activation)


def _set_expiry(state: State, activation: Activation, approval: Approval, expires_at: float | None) -> None:
    if expires_at is not None:
        timer = Timer(expires_at, "approval", activation.key, ask=approval.ask)
        set_timer(state, _expiry(state, activation, approval), timer)


@folds(e.ApprovalVoted)
def _approval_voted(state: State, event: e.ApprovalVoted) -> None:
    approval = state.edit(state.approvals[event.approval])
    state.put(approval.votes, event.by, event.decision)
    if event.person:
        state.put(approval.persons, event.by, event.person)
    approval.comments, approval.data = event.comments, event.data


@folds(e.ApprovalDelegated)
def _approval_delegated(state: State, event: e.ApprovalDelegated) -> None:
    approval = state.edit(state.approvals[event.approval])
    approval.approvers = tuple(event.to if one == event.approver else one for one in approval.approvers)
    approval.left = tuple(dict.fromkeys((*approval.left, event.by or event.approver)))


@folds(e.ApprovalDecided)
def _approval_decided(state: State, event: e.ApprovalDecided) -> None:
    approval = state.edit(state.approvals[event.approval])
    if approval.state != "pending":
        raise IntegrityError(f"run {state.run_id}: approval {event.approval} was decided already (W2)")
    approval.state, approval.decided_at = "decided", event.at
    activation = get(state, event)
    if not approval.ask:
        activation.rejected = event.decision == "reject"  # journals older than `node.completed.rejected`
    clear_timer(state, _expiry(state, activation, approval))


@folds(e.ApprovalEscalated)
def _approval_escalated(state: State, event: e.ApprovalEscalated) -> None:
    approval = state.edit(state.approvals[event.approval])
    approval.approvers, approval.expires_at, approval.escalated = event.approvers, event.expires_at, True
    approval.left = ()  # the seats are other ones now
    if event.approvers:  # fewer people than the quorum could never approve
        approval.quorum = min(approval.quorum, len(event.approvers))
    _set_expiry(state, get(state, event), approval, event.expires_at)


@folds(e.TimerSet)
def _timer_set(state: State, event: e.TimerSet) -> None:
    kind: Any = event.timer.partition(":")[0]
    set_timer(state, event.timer, Timer(event.due_at, kind if kind in ("grace", "trigger", "budget") else "wait"))


@folds(e.TimerFired)
def _timer_fired(state: State, event: e.TimerFired) -> None:
    if event.timer not in state.timers:
        raise IntegrityError(f"run {state.run_id}: timer {event.timer} fired without being set (W1)")
    clear_timer(state, event.timer)


@folds(e.ChildStarted)
def _child_started(state: State, event: e.ChildStarted) -> None:
    activation = get(state, event)
    lend(state, event.child, event.budget)
    if event.ask:
        ask_facts.begin_child(state, activation, event)
        return
    activation.child, activation.child_workflow, activation.child_inputs = event.child, event.workflow, event.inputs
    activation.child_generation, activation.child_open = event.generation - 1, True
    state.put(state.children, event.child, activation.key)


@folds(e.ChildEnded)
def _child_ended(state: State, event: e.ChildEnded) -> None:
    activation = get(state, event)
    end_loan(state, event.child, event.usage)
    if event.child in (activation.ask_children or ()):
        ask_facts.end_child(state, activation, event)
        return
    activation.child_generation, activation.child_open = event.generation, False


@folds(e.ItemCompleted)
def _item_completed(state: State, event: e.ItemCompleted) -> None:
    activation = get(state, event)
    succeed(state, activation, event)
    activation.routed = True
    count_item(state, activation, failed=False)


@folds(e.ItemFailed)
def _item_failed(state: State, event: e.ItemFailed) -> None:
    activation = get(state, event)
    began(state, activation, event.started_at)
    activation.error, activation.output = event.error, event.error.as_output()
    finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.FAILED)
    count_item(state, activation, failed=True)


@folds(e.LimitReached)
def _nothing(state: State, event: e.Event) -> None:
    """Fold an event that is recorded and changes nothing a decision depends on."""


@folds(e.ResultIgnored)
def _result_ignored(state: State, event: e.ResultIgnored) -> None:
    get(state, event).ignored = event.attempt
