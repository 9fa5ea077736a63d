"""Timers, approvals and children: W1, W2, W3, R6."""

from __future__ import annotations

from perdure.invariants.attempts import get
from perdure.invariants.model import ENDED, Act, Approval, Child, Model
from perdure.kernel import events as e


def timer_set(model: Model, event: e.TimerSet) -> None:
    model.timers[event.timer] = event.due_at


def timer_fired(model: Model, event: e.TimerFired) -> None:
    due = model.timers.pop(event.timer, None)
    if due is None:
        model.blame("W1", f"timer {event.timer} fires and is not set, or fired before")
    elif event.timer == "grace":
        model.grace_over = True
    elif event.timer == "deadline":
        model.late = model.state in ("running", "paused")
    if due is not None and event.at < due:
        model.blame("W1", f"timer {event.timer} is due at {due} and fires at {event.at}")


def requested(model: Model, event: e.ApprovalRequested) -> None:
    act = get(model, event)
    if event.approval in model.approvals:
        model.blame("W2", f"approval {event.approval} is asked for twice")
    if act.state != "waiting":
        model.blame("W2", f"approval {event.approval} is asked for by {act.place}, which is {act.state}")
    model.approvals[event.approval] = Approval(
        key=act.key, approvers=event.approvers, quorum=event.quorum, expires_at=event.expires_at, ask=event.ask
    )
    if event.ask and (event.ask, "approval") not in act.asks:
        model.blame("V9", f"approval {event.approval} is asked for as {event.ask}, which {act.place} did not ask for")
    if event.expires_at is not None:
        model.timers[_expiry(model, event.approval)] = event.expires_at


def _expiry(model: Model, name: str) -> str:
    """The name of the timer of an approval."""
    approval = model.approvals[name]
    timer = model.timer("approval", model.get(*approval.key))
    return f"{timer}:{approval.ask}" if approval.ask else timer


def voted(model: Model, event: e.ApprovalVoted) -> None:
    approval = _pending(model, event.approval, "voted on")
    if approval is None:
        return
    if approval.approvers and event.by not in approval.approvers:
        model.blame("W2", f"{event.by} votes on {event.approval} and may not")
    if event.by in approval.votes:
        model.blame("W2", f"{event.by} votes twice on {event.approval}")
    if (event.person or event.by) in approval.left:
        model.blame("W2", f"{event.person or event.by} votes on {event.approval}, and chose who votes in their place")
    approval.votes[event.by] = event.decision


def delegated(model: Model, event: e.ApprovalDelegated) -> None:
    approval = _pending(model, event.approval, "handed over")
    if approval is None:
        return
    if event.approver not in approval.approvers or event.to in approval.approvers:
        model.blame("W2", f"{event.approver} hands {event.approval} to {event.to}, and one of them is not to be asked")
    if event.approver in approval.votes or event.to in approval.votes:
        model.blame("W2", f"{event.approval} is handed from {event.approver} to {event.to} after one of them voted")
    if event.by in approval.left or event.to in approval.left:
        model.blame(
            "W2", f"{event.approval} is handed from {event.by} to {event.to}, and one of them has no seat any more"
        )
    approval.approvers = tuple(event.to if one == event.approver else one for one in approval.approvers)
    approval.left = (*approval.left, event.by or event.approver)


def _pending(model: Model, name: str, what: str) -> Approval | None:
    approval = model.approvals.get(name)
    if approval is None:
        model.blame("W2", f"approval {name} is {what} and was never asked for")
    elif not approval.pending:
        model.blame("W2", f"approval {name} is {what} and is no longer pending")
    return approval


def decided(model: Model, event: e.ApprovalDecided) -> None:
    approval = _pending(model, event.approval, "decided")
    if approval is None:
        return
    votes = list(approval.votes.values())
    if event.by == "timeout" and "timeout" not in approval.votes:  # a person may be called so
        if approval.expires_at is None or event.at < approval.expires_at:
            model.blame("W3", f"approval {event.approval} times out at {event.at}; its time is {approval.expires_at}")
    elif event.decision == "approve" and votes.count("approve") < approval.quorum:
        model.blame("W2", f"approval {event.approval} is approved by {votes.count('approve')} of {approval.quorum}")
    elif event.decision == "reject" and "reject" not in votes:
        model.blame("W2", f"approval {event.approval} is rejected and nobody voted so")
    approval.pending = False
    if not approval.ask:
        model.get(*approval.key).rejected = event.decision == "reject"
    model.timers.pop(_expiry(model, event.approval), None)


def escalated(model: Model, event: e.ApprovalEscalated) -> None:
    approval = _pending(model, event.approval, "escalated")
    if approval is None:
        return
    if approval.expires_at is None or event.at < approval.expires_at:
        model.blame("W3", f"approval {event.approval} is escalated before its time")
    approval.approvers, approval.expires_at, approval.left = event.approvers, event.expires_at, ()
    approval.quorum = min(approval.quorum, len(event.approvers) or approval.quorum)
    if event.expires_at is not None:
        model.timers[_expiry(model, event.approval)] = event.expires_at


def _ask_child_started(model: Model, act: Act, event: e.ChildStarted) -> None:
    if event.child in model.children:
        model.blame("R6", f"{act.place} asks for the child {event.child}, which there is already")
    if (event.ask, "child") not in act.asks:
        model.blame("V9", f"child {event.child} is started as {event.ask}, which {act.place} did not ask for")
    model.children[event.child] = act.key
    act.brood = {**act.brood, event.child: Child(ended=event.generation - 1)}


def _ask_child_ended(model: Model, act: Act, event: e.ChildEnded) -> None:
    child = act.brood[event.child]
    if event.generation < child.ended or (event.generation == child.ended and not child.open):
        model.blame("R6", f"generation {event.generation} of child {event.child} ends twice")
    done = event.state == "completed"
    if done and act.state != "completed" and not any(one.done for one in act.brood.values()):
        act.completed_seq = event.seq  # from here on there is something to undo (rule 80)
    act.brood = {**act.brood, event.child: Child(event.generation, open=False, done=done)}


def child_started(model: Model, event: e.ChildStarted) -> None:
    act = get(model, event)
    if event.ask:
        _ask_child_started(model, act, event)
        return
    if event.generation <= act.child_ended and model.children.get(event.child) == act.key:
        model.blame("R6", f"{act.place} waits for generation {event.generation} of {event.child}, which has ended")
    if model.children.get(event.child) != act.key:
        act.child_ended = min(act.child_ended, event.generation - 1)
    model.children[event.child] = act.key
    act.child_open = True


def child_ended(model: Model, event: e.ChildEnded) -> None:
    act = get(model, event)
    if event.child in act.brood:
        _ask_child_ended(model, act, event)
        return
    if model.children.get(event.child) != act.key:
        model.blame("R6", f"child {event.child} of {act.place} ends and was never started")
    undoing = model.state == "compensating" and model.plan and model.plan[-1] == act.key
    left = act.child_open and act.state in ENDED  # the activation ended without the child, which was stopped
    if event.generation < act.child_ended + (not left):  # a generation that was stopped before it began has not ended
        model.blame("R6", f"generation {event.generation} of child {event.child} ends twice")
    if not undoing and not left and act.state not in ("waiting", "parked"):
        model.blame("R6", f"child {event.child} ends and {act.place} is {act.state}")
    act.child_ended, act.child_open = event.generation, False
