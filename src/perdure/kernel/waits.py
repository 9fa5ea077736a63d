"""Durable pauses: approvals, timers, signals, children and map items, and what ends them (rules 35 to 38)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import compensation
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.causal_past import Evidence, items
from perdure.kernel.child_runs import MOST_SAID, child_failure, find_generation
from perdure.kernel.decider import GRACE_SECONDS, MAX_DEPTH, Decider, Refusal
from perdure.kernel.dispatches import hold_back, send
from perdure.kernel.lifecycle import ENDED, OPEN, N, R
from perdure.kernel.outcomes import accept, exceed, fail_attempt, fail_for_good
from perdure.kernel.settle import finish, schedule
from perdure.kernel.state import Activation, Approval, State, Timer, key_of
from perdure.kernel.steps import asks
from perdure.kernel.steps.mail import check_room
from perdure.kernel.steps.money import child_budget, heard_of
from perdure.kernel.triggers import trigger_commands
from perdure.kernel.triggers.events_heard import begin_listening
from perdure.kernel.values import Asked, Error, Wait
from perdure.model.money import Budget

PORTION = 250
"""The most items that one decision starts: while it is made, no other run of this process goes on."""

MOST_OPEN = 10_000
"""While so many activations of a run are open, each map has one open item: to cancel the run is one decision about all."""


def suspend(d: Decider, command: c.Suspend) -> None:
    activation = d.get(command)
    stale = command.address.attempt != activation.attempt or command.address.generation != d.state.generation
    if stale or activation.state not in (N.QUEUED, N.RUNNING):
        return
    if d.state.state in (R.FAILING, R.CANCELLING):
        hold_back(d, [activation], d.state.state.value)
        return
    match command.wait.kind:
        case "approval":
            _ask(d, activation, command)
        case "child":
            _start_child(d, activation, command)
        case "items":
            maximum = d.state.ir.fanout_of(d.node(activation))
            if command.wait.count > maximum:
                exceed(d, "max_fanout", command.wait.count, maximum, activation)
                return
            d.emit_for(e.NodeWaiting, activation, wait=command.wait)
            advance_items(d, activation)
        case "signal":
            d.emit_for(e.NodeWaiting, activation, wait=command.wait)
            deliver_signals(d, command.wait.name)
        case "event":
            d.emit_for(e.NodeWaiting, activation, wait=begin_listening(d.state, activation, command.wait), version=3)
        case _:
            d.emit_for(e.NodeWaiting, activation, wait=command.wait)


# -- approvals ---------------------------------------------------------------------------------------------------------


def _ask(d: Decider, activation: Activation, command: c.Suspend) -> None:
    approval = command.address.approval_id
    expires_at = None if command.timeout_seconds is None else d.at + command.timeout_seconds
    d.emit_for(e.NodeWaiting, activation, wait=Wait(kind="approval", name=approval, until=expires_at))
    d.emit_for(
        e.ApprovalRequested,
        activation,
        approval=approval,
        approvers=command.approvers,
        quorum=command.quorum,
        expires_at=expires_at,
        on_timeout=command.on_timeout,
        escalate_to=command.escalate_to,
        shown=command.shown,
        form=command.form,
        notify=command.notify,
    )


def vote(d: Decider, command: c.Vote) -> None:
    voter = command.approver or command.by
    approval = _pending(d, command.approval, voter)
    person = command.by if command.by != voter else ""
    if person and (person in approval.votes or person in approval.persons.values()):
        raise Refusal("already_voted", f"{person} has voted on {command.approval}")
    _has_not_left(approval, command.approval, command.by)
    activation = d.state.activations[approval.key]
    d.emit_for(
        e.ApprovalVoted,
        activation,
        approval=command.approval,
        decision=command.decision,
        by=voter,
        person=person,
        comments=command.comments,
        data=command.data,
        message=command.message,
    )
    _count_votes(d, command.approval, activation, person or voter)


def _pending(d: Decider, name: str, voter: str) -> Approval:
    """The pending approval, which this entry of its approvers has still to answer."""
    approval = d.state.approvals.get(name)
    if approval is None:
        raise Refusal("unknown_approval", f"run {d.state.run_id} has no approval {name}")
    if approval.state != "pending" or d.state.terminal:
        raise Refusal("already_decided", f"approval {name} is no longer pending")
    if approval.approvers and voter not in approval.approvers:
        who = ", ".join(approval.approvers)
        raise Refusal("not_an_approver", f"{voter or 'nobody'} may not decide {name}; {who} may")
    if voter in approval.votes or voter in approval.persons.values():
        raise Refusal("already_voted", f"{voter} has voted on {name}")
    return approval


def _has_not_left(approval: Approval, name: str, person: str) -> None:
    """Refuse a person who handed over a seat a say on another one: a quorum is of so many people (S29)."""
    if person and person in approval.left:
        raise Refusal(
            "already_delegated", f"{person} has handed over a seat of {name}, and has no other; ask another person"
        )


def delegate(d: Decider, command: c.Delegate) -> None:
    """Ask another person in the approver's place: the quorum stays, and so do the votes of the others."""
    name, voter = command.approval, command.approver or command.by
    approval = _pending(d, name, voter)
    if command.by in approval.votes or command.by in approval.persons.values():
        raise Refusal("already_voted", f"{command.by} has voted on {name}, and hands over no other seat of it")
    _has_not_left(approval, name, command.by)
    if not approval.approvers:
        raise Refusal("anybody_may_decide", f"{name} names no approvers; there is no seat to hand over")
    if not command.to or command.to in approval.approvers:
        raise Refusal(
            "bad_delegate", f"{command.to or 'nobody'} cannot stand in for {voter}; name a person who is not asked yet"
        )
    if command.to in approval.left:
        raise Refusal("bad_delegate", f"{command.to} has handed over a seat of {name}; name another person")
    if command.to in approval.votes or command.to in approval.persons.values():
        raise Refusal("bad_delegate", f"{command.to} has voted on {name} already")
    d.emit_for(
        e.ApprovalDelegated,
        d.state.activations[approval.key],
        approval=name,
        approver=voter,
        to=command.to,
        by=command.by,
        comments=command.comments,
    )


def _count_votes(d: Decider, approval_id: str, activation: Activation, by: str) -> None:
    """Decide an approval at k approvals, or as soon as k cannot be reached (rule 38)."""
    approval = d.state.approvals[approval_id]
    asked = approval.approvers
    votes = [vote for who, vote in approval.votes.items() if not asked or who in asked]
    voters = len(approval.approvers) or approval.quorum
    if votes.count("approve") >= approval.quorum:
        _decide(d, approval_id, activation, "approve", by)
    elif voters - votes.count("reject") < approval.quorum:
        _decide(d, approval_id, activation, "reject", by)


def _decide(d: Decider, approval_id: str, activation: Activation, decision: Any, by: str) -> None:
    approval = d.state.approvals[approval_id]
    d.emit_for(
        e.ApprovalDecided,
        activation,
        approval=approval_id,
        decision=decision,
        by=by,
        comments=approval.comments,
        data=approval.data,
    )
    if approval.ask:
        asks.decided(d, approval, activation, decision, by)
        return
    shown = (
        approval.shown
        if isinstance(approval.shown, dict)
        else {}
        if approval.shown is None
        else {"shown": approval.shown}
    )
    output = {**shown, "decision": decision, "decided_by": by, "comments": approval.comments, "data": approval.data}
    d.emit_for(e.NodeResumed, activation, reason=f"approval {decision}")
    accept(d, activation, rejected=decision == "reject", output=output)
    items_of(d, activation)


def _approval_timed_out(d: Decider, activation: Activation, ask: str) -> None:
    if activation.wait is None or activation.wait.kind != ("asks" if ask else "approval"):
        return
    name = activation.asks[ask].approval if ask else activation.wait.name
    approval = d.state.approvals[name]
    if approval.on_timeout == "escalate" and not approval.escalated:
        seconds = (approval.expires_at or d.at) - approval.requested_at
        d.emit_for(
            e.ApprovalEscalated,
            activation,
            approval=name,
            approvers=approval.escalate_to or approval.approvers,
            expires_at=d.at + seconds,
        )
        if approval.votes:  # approvers who are asked now may have voted before
            _count_votes(d, name, activation, next(reversed(approval.votes)))
    elif approval.on_timeout == "fail":
        d.emit_for(e.ApprovalDecided, activation, approval=name, decision="timeout", by="timeout")
        if ask:
            asks.decided(d, approval, activation, "timeout", "timeout")
            return
        fail_for_good(d, activation, Error("approval_timeout", "nobody decided in time"))
        items_of(d, activation)
    else:
        decision = "approve" if approval.on_timeout == "approve" else "reject"
        _decide(d, name, activation, decision, "timeout")


# -- signals -----------------------------------------------------------------------------------------------------------


def signal(d: Decider, command: c.Signal) -> None:
    if d.state.terminal:
        raise Refusal("run_ended", f"run {d.state.run_id} is {d.state.state} and takes no more signals")
    if command.signal and command.signal in d.state.signals_seen:
        return
    check_room(d, command.name)
    d.emit(e.RunSignalled, name=command.name, payload=command.payload, signal=command.signal, by=command.by)
    deliver_signals(d, command.name)


def deliver_signals(d: Decider, name: str) -> None:
    """Deliver in order: the oldest unconsumed signal goes to the activation that has waited longest (rule 37)."""
    while d.state.state not in (R.FAILING, R.CANCELLING, R.COMPENSATING):
        signals, waiting = d.state.unconsumed.get(name), d.state.signal_waits.get(name)
        if signals is None or waiting is None:
            return
        payload = signals.first[1]
        activation = d.state.activations[waiting.first[0]]
        if type(waiting.first[1]) is Asked:
            asks.signalled(d, activation, waiting.first[1].name, name, payload)
            continue
        d.emit_for(e.NodeResumed, activation, reason=f"signal {name}")
        accept(d, activation, output=payload)
        items_of(d, activation)


# -- events ------------------------------------------------------------------------------------------------------------


def hear_event(d: Decider, command: c.HearEvent) -> None:
    """End a wait for an event, with the event that was found for it (rule 53)."""
    activation = d.get(command)
    wait, where = activation.wait, command.address.place
    current = (activation.attempt, d.state.generation) == (command.address.attempt, command.address.generation)
    if not current or activation.state is not N.WAITING or wait is None or wait.kind != "event":
        raise Refusal("not_waiting", f"{where} of run {d.state.run_id} waits for no event")
    if command.position <= wait.since:
        raise Refusal("not_waiting", f"{where} waits for events behind {wait.since}, and this is {command.position}")
    if d.state.state in (R.FAILING, R.CANCELLING, R.COMPENSATING):
        raise Refusal("run_ending", f"run {d.state.run_id} is {d.state.state}; {where} does not go on")
    if not command.event:
        raise Refusal("no_match", f"none of the events up to {command.position} is one that {where} waits for")
    d.emit_for(e.NodeResumed, activation, reason=f"event {wait.name}", event=command.event, position=command.position)
    accept(d, activation, output=command.output, output_ref=command.output_ref, size=command.size)
    items_of(d, activation)


# -- children ----------------------------------------------------------------------------------------------------------


def _start_child(d: Decider, activation: Activation, command: c.Suspend) -> None:
    child = command.address.child_id(activation.undone)
    generation = activation.child_generation + 1 if child == activation.child else 1  # undone, it has another
    if d.state.depth >= MAX_DEPTH:
        message = (
            f"{command.address.node} would start a child of a run that is nested {MAX_DEPTH} deep, which is the most"
        )
        fail_for_good(d, activation, Error("limit_exceeded", message))
        items_of(d, activation)
        return
    _start_generation(d, activation, child, generation, command.workflow, command.inputs, command.budget)


def _start_generation(
    d: Decider,
    activation: Activation,
    child: str,
    generation: int,
    workflow: str,
    inputs: Any,
    given: Budget | None = None,
) -> None:
    known = d.state.lent.get(child)
    budget = child_budget(d.state, given) if known is None else known.budget
    about: dict[str, Any] = {"child": child, "workflow": workflow, "inputs": inputs, "generation": generation}
    if budget is not None:
        about |= {"budget": budget}
    d.emit_for(e.ChildStarted, activation, **about, version=1 if budget is None else 3)
    d.emit_for(e.NodeWaiting, activation, wait=Wait(kind="child", name=child, generation=generation))
    d.effect(fx.StartChild(**about, address=d.state.address(activation)))


def end_child(d: Decider, command: c.EndChild) -> None:
    key = d.state.children.get(command.child)
    if key is None:
        return
    activation = d.state.activations[key]
    if d.state.terminal:
        return
    asked = (activation.ask_children or {}).get(command.child)
    if command.begun and _undoes_child(d.state, activation, command.child):
        _end_rollback(d, activation, command)
        return
    command = _as_wanted(d.state, activation, command)
    if asked is not None:
        asks.end_child(d, activation, asked, command)
        return
    if command.child != activation.child:
        return
    if command.generation <= activation.child_generation:
        return
    fields: dict[str, Any] = {"child": command.child, "generation": command.generation, "state": command.state}
    fields |= heard_of(d.state, command)
    waits = activation.state is N.WAITING and activation.wait is not None and activation.wait.kind == "child"
    released = activation.state is N.PARKED and command.state == "completed" and not activation.accepted  # (V3)
    if not waits and not released:
        if activation.child_open and (activation.state in ENDED or activation.state is N.PARKED):
            begun = {} if command.begun else {"generation": activation.child_generation}  # that one is still the last
            d.emit_for(e.ChildEnded, activation, **fields | begun)  # it need not be stopped any more
        return
    if not command.begun and d.state.state not in (R.FAILING, R.CANCELLING):
        return  # it was stopped for an end that is over; what is wanted of it since has been asked for
    if not command.begun:  # no generation of it ended, and the next one that is wanted has the same number
        fail_for_good(d, activation, Error("child_cancelled", f"{command.child} was stopped before it began"))
        items_of(d, activation)
        return
    d.emit_for(e.ChildEnded, activation, **fields)
    if command.state == "completed":
        d.emit_for(e.NodeResumed, activation, reason="child completed")
        accept(d, activation, output=command.output, output_ref=command.output_ref, size=command.size)
    elif command.orphaned and command.state == "cancelled" and d.state.state in (R.RUNNING, R.PAUSED):
        # The child was stopped for an end that is over, and is wanted again. Rolled back
        # since, it has no later generation.
        workflow, inputs = activation.child_workflow, activation.child_inputs
        _start_generation(d, activation, activation.child, command.generation + 1, workflow, inputs)
    elif command.state == "failed":
        fail_attempt(d, activation, child_failure(command.child, command.error))
    else:
        fail_for_good(d, activation, Error("child_cancelled", f"{command.child} was {command.state}"))
    items_of(d, activation)


def _as_wanted(state: State, activation: Activation, command: c.EndChild) -> c.EndChild:
    """The end as that of the generation that is waited for, where no later one can come: a child is rolled back once and for ever,
    and may be so while its parent is retried."""
    heard = find_generation(state, command.child)
    if (
        command.state != "rolled_back"
        or heard is None
        or command.generation > heard
        or activation.state is not N.WAITING
    ):
        return command
    return msgspec.structs.replace(command, generation=heard + 1)


def _undoes_child(state: State, activation: Activation, child: str) -> bool:
    """Whether the activation is being compensated by the rollback of this child."""
    undo = activation.undo
    if state.state is not R.COMPENSATING or undo is None or undo.state not in ("queued", "running"):
        return False
    under_way = compensation.child_to_undo(state, activation) == child
    return under_way and bool(state.plan) and state.plan[-1] == activation.key


def _end_rollback(d: Decider, activation: Activation, command: c.EndChild) -> None:
    # A child is rolled back once and for ever, in whichever generation; its parent may have counted one more than it had.
    next_one = (find_generation(d.state, command.child) or 0) + 1
    if command.generation < next_one and command.state != "rolled_back":
        return
    generation = max(command.generation, next_one)
    said = heard_of(d.state, command)
    d.emit_for(e.ChildEnded, activation, child=command.child, generation=generation, state=command.state, **said)
    if command.state == "rolled_back":
        compensation.child_undone(d, activation, command.output)
    else:
        error = command.error or Error("child_not_rolled_back", f"the child is {command.state}")
        compensation.fail(d, activation, error, retryable=False, retry_after=None)


# -- map items ---------------------------------------------------------------------------------------------------------


def items_of(d: Decider, activation: Activation) -> None:
    """Let the map go on after something happened to one of its items."""
    if activation.item >= 0:
        advance_items(d, d.state.activations[key_of(activation.node, activation.scope)], activation)


def item_moved(d: Decider, command: c.NodeCommand) -> None:
    """Let the map of an item that began, paused or ended start the next ones, or be done."""
    if command.address.item is not None and not command.address.undo:
        activation = d.state.locate(command.address)
        if activation is not None:
            items_of(d, activation)


def ask_for(d: Decider, command: c.AskFor) -> None:
    """Let a handler ask, and give it at once the signals that have come already."""
    asks.ask_for(d, command)
    for name in sorted({ask.signal for ask in command.asks if ask.kind == "signal"}):
        deliver_signals(d, name)


def start_more(d: Decider, command: c.NextItems) -> None:
    advance_items(d, d.get(command))


def has_more_items(state: State, owner: Activation) -> bool:
    """Whether a map may start items now that it has not started."""
    wait = owner.wait
    if state.state is not R.RUNNING or owner.state is not N.WAITING or wait is None or wait.kind != "items":
        return False
    return owner.items_started < wait.count and _room(state, owner, wait) > 0


def _room(state: State, owner: Activation, wait: Wait) -> int:
    """How many items of a map one decision may start."""
    if not owner.items_open:
        return max(min(wait.limit or PORTION, PORTION, MOST_OPEN - state.open), 1)
    own = wait.limit - owner.items_open if wait.limit else PORTION
    return min(own, PORTION, MOST_OPEN - state.open)


def advance_items(d: Decider, owner: Activation, item: Activation | None = None) -> None:
    """Start the next items of a map, or end it. `item`: the one that something happened to."""
    state, wait = d.state, owner.wait
    if owner.state is not N.WAITING or wait is None or wait.kind != "items":
        return
    if state.state not in (R.RUNNING, R.PAUSED):
        return
    if owner.items_failed > wait.tolerated:
        message = f"{owner.items_failed} of {wait.count} items failed; {wait.tolerated} are tolerated"
        cause = None if item is None else item.error
        if item is not None and cause is not None:
            message += f"; #{item.item}: {cause.message or cause.code}"
        fail_for_good(
            d, owner, Error("items_failed", message[:MOST_SAID], details=None if cause is None else cause.details)
        )
        return
    room = _room(state, owner, wait)
    going: list[Activation] = []
    position = owner.items_started
    while position < wait.count and len(going) < room:
        item = state.activations.get(key_of(owner.node, owner.scope, position))
        if item is None:
            going.append(Activation(node=owner.node, scope=owner.scope, item=position, visit=owner.visit, ir=owner.ir))
        elif item.state is N.PENDING:
            going.append(item)
        position += 1
    if going and state.state is R.PAUSED:
        hold_back(d, going, "paused")
    elif going:
        send(d, going)
        if has_more_items(state, owner):
            d.effect(fx.StartMore(address=state.address(owner)))
    elif owner.items_completed + owner.items_failed >= wait.count and not owner.items_open:
        need, count = c.Need("collect", state.name(owner.node), owner.scope), wait.count
        verdict = d.ask(need, lambda: Evidence(items=items(state, owner, count)))
        if verdict.error is not None:
            fail_for_good(d, owner, verdict.error)
        else:
            accept(d, owner, output=verdict.value, output_ref=verdict.output_ref, size=verdict.size)


# -- timers ------------------------------------------------------------------------------------------------------------


def fire_timer(d: Decider, command: c.FireTimer) -> None:
    timer = d.state.timers.get(command.timer)
    if timer is None:
        return
    if d.at < timer.due_at:
        raise Refusal("too_early", f"timer {command.timer} is due at {timer.due_at}, it is {d.at} (W1)")
    d.emit(e.TimerFired, timer=command.timer)
    activation = None if timer.key is None else d.state.activations[timer.key]
    match timer.kind:
        case "deadline":
            _deadline(d)
        case "grace":
            finish(d)
        case "trigger":
            trigger_commands.fire_timer(d, command.timer)
        case _ if activation is not None:
            _fire_for(d, timer, activation)
            items_of(d, activation)


def _fire_for(d: Decider, timer: Timer, activation: Activation) -> None:
    ending = d.state.state not in (R.RUNNING, R.PAUSED, R.COMPENSATING)
    match timer.kind:
        case "ask" if activation.wait is not None and activation.wait.kind == "asks" and not ending:
            asks.timed_out(d, activation, timer.ask)
        case "retry" | "delay":
            if not ending:
                schedule(d, [activation])
        case "wait" if activation.wait is not None and not ending:
            name = activation.wait.name
            if activation.wait.kind == "signal":
                fail_for_good(d, activation, Error("signal_timeout", f"no signal {name} came in time"))
            elif activation.wait.kind == "event":
                fail_for_good(d, activation, Error("event_timeout", f"no event {name} came in time"))
            else:
                d.emit_for(e.NodeResumed, activation, reason="timer")
                accept(d, activation, output={})
        case "approval" if not ending:
            _approval_timed_out(d, activation, timer.ask)
        case "queue" if activation.state is N.QUEUED and not activation.begun and activation.attempt == timer.attempt:
            d.stop(activation)
            fail_for_good(d, activation, Error("queue_timeout", "no worker took it in time"))
        case "total" if activation.state in OPEN and activation.state is not N.PARKED:
            if activation.state in (N.QUEUED, N.RUNNING):
                d.stop(activation)
            fail_for_good(d, activation, Error("total_timeout", "it did not end in time, all attempts together"))
            d.leave_children(activation)
        case "undo":
            compensation.attempt(d, activation)
        case _:
            pass


def _deadline(d: Decider) -> None:
    if d.state.state not in (R.RUNNING, R.PAUSED):
        return
    d.fail_run(Error("deadline_exceeded", "the run did not end before its deadline"))
    running = [a for a in d.state.activations.values() if a.state is N.RUNNING]
    for activation in sorted(running, key=lambda a: (a.scheduled_seq, a.node, a.scope, a.item)):
        d.stop(activation)
    if (running or d.state.tally.get(N.QUEUED)) and "grace" not in d.state.timers:
        d.emit(e.TimerSet, timer="grace", due_at=d.at + GRACE_SECONDS)  # a queued one may be claimed: it is waited for
