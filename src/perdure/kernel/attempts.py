"""Commands about one attempt: begun, checkpointed, completed, failed, lapsed, withdrawn, held.

Every result passes the fence first: its generation and attempt decide whether it is accepted (V3, V4).
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import compensation, continuations
from perdure.kernel import events as e
from perdure.kernel.decider import Decider, Refusal, sorted_by_schedule
from perdure.kernel.dispatches import hold_back, send
from perdure.kernel.edges import in_closing_iteration
from perdure.kernel.lifecycle import ENDED, N, R
from perdure.kernel.outcomes import FREE_BYTES, accept, check_bytes, fail_attempt, fail_for_good, park
from perdure.kernel.state import Activation, State
from perdure.kernel.steps.mail import STEPS as MAIL
from perdure.kernel.steps.mail import has_mail, read_mail
from perdure.kernel.steps.money import find_short, give_back
from perdure.kernel.streams import flows
from perdure.kernel.triggers.poll_stops import has_slept, put_off
from perdure.kernel.triggers.receivers import is_poll
from perdure.kernel.values import Error, steps_of

MOST_KEPT = 16 * 1024 * 1024
"""What the results of all steps of an activation may take in the journal, blobs counting as references: the next
attempt is given all of them."""
FREE_CHECKPOINTS = 100
"""How many checkpoints of an attempt, each of which takes the place of the one before, count nothing unless they are
large (rule 31)."""


def fence(d: Decider, command: c.NodeCommand, *, success: bool = False) -> Activation | None:
    """The activation, if this attempt may still speak for it; otherwise the refusal is recorded once (PROTOCOL 20)."""
    activation = d.get(command)
    reason = _objection(d.state, activation, command, success)
    if reason is None:
        return activation
    if reason != "repeated" and command.address.attempt > activation.ignored:
        d.emit_for(
            e.ResultIgnored,
            activation,
            attempt=command.address.attempt,
            generation=command.address.generation,
            reason=reason,
        )
    return None


def _objection(state: State, activation: Activation, command: c.NodeCommand, success: bool) -> str | None:
    if activation.state in (N.COMPLETED, N.FAILED, N.COMPENSATED) and command.address.attempt == activation.attempt:
        return "repeated"
    if command.address.attempt <= activation.suspended:
        return "the attempt is over: it has asked for something, or its stream has begun anew"
    if command.address.generation != state.generation:
        return "the run is in another generation"
    if state.terminal or state.state is R.COMPENSATING:
        return "the run has ended"
    if activation.state in ENDED:
        return f"the activation is {activation.state}"
    current = command.address.attempt == activation.attempt
    if current and activation.state in (N.QUEUED, N.RUNNING):
        return None
    if success and activation.state in (N.QUEUED, N.HELD, N.RETRYING) and not activation.begun:
        if current:
            return None
        if 0 < command.address.attempt == activation.attempt - 1 and state.pinned(activation).effect != "at_most_once":
            return None  # the work is done, and no worker has begun to do it again (rule 2, PROTOCOL 16)
    if success and current and activation.state is N.RETRYING and state.pinned(activation).effect != "at_most_once":
        return None
    return "another attempt is current"


def begin(d: Decider, command: c.Begin) -> None:
    activation = d.get(command)
    if command.address.undo:
        if compensation.is_current(d.state, activation, command):
            if activation.undo is not None and activation.undo.state == "queued":
                d.emit_for(e.NodeStarted, activation, worker=command.worker, undo=True, attempt=command.address.attempt)
            return
        raise Refusal(
            "stale_attempt",
            f"attempt {command.address.attempt} of the compensation of {command.address.node} is not current",
        )
    stale = command.address.generation != d.state.generation or command.address.attempt != activation.attempt
    stale = stale or command.address.attempt <= activation.suspended
    if stale or activation.state not in (N.QUEUED, N.HELD):
        if not stale and activation.state is N.RUNNING:
            code = "already_begun"
        else:
            code = "stale_attempt"
        raise Refusal(
            code, f"attempt {command.address.attempt} of {command.address.node} may not begin: it is {activation.state}"
        )
    if activation.state is N.HELD and activation.wants is not None:  # its worker has given it back (rule 82)
        raise Refusal("stale_attempt", f"attempt {command.address.attempt} of {command.address.node} was given back")
    if activation.state is N.HELD and d.state.pinned(activation).effect == "at_most_once":
        raise Refusal("stale_attempt", f"attempt {command.address.attempt} of {command.address.node} was withdrawn")
    if d.state.state in (R.FAILING, R.CANCELLING) and d.state.pinned(activation).effect == "at_most_once":
        hold_back(
            d, [activation], d.state.state.value
        )  # no new effect from here on (R3): without `node.started` it must not run
        return
    d.emit_for(e.NodeStarted, activation, worker=command.worker, ask=command.ask)


def checkpoint(d: Decider, command: c.Checkpoint) -> None:
    """Keep a checkpoint once, however often and in whichever order it is delivered (T2). A step has one result (V9)."""
    activation = fence(d, command)
    if activation is None or 0 < command.number <= activation.checkpoints:
        return
    if command.step and command.step in steps_of(activation.checkpoint):
        return
    if command.kept and not _keep_pieces(d, activation, command):
        return
    if command.step in activation.asks or command.step.startswith(MAIL):
        message = f"{command.step} is the name of an ask, or of mail: only what comes from outside becomes that step"
        fail_attempt(d, activation, Error("bad_step", message), retryable=False)
        return
    number = command.number or activation.checkpoints + 1
    counts = command.step or number > FREE_CHECKPOINTS or command.size > FREE_BYTES
    size = command.size if counts else 0
    reserved = (activation.reserved or {}).get(command.step)
    usage = command.usage if command.usage is not None or reserved is None else reserved.usage
    spent: dict[str, Any] = {"usage": usage, "version": 3} if command.step and usage is not None else {}
    if command.cursors is not None and not command.step:
        spent = {"cursors": command.cursors, "version": 4}
    fields: dict[str, Any] = {"data": command.data, "step": command.step, "number": number, "size": size}
    d.emit_for(e.NodeCheckpointed, activation, **fields, **spent)
    if size and (error := check_bytes(d, activation) or too_much(d, activation)) is not None:
        fail_for_good(d, activation, error)  # whatever state the run is in: the attempt would go on keeping more


def _keep_pieces(d: Decider, activation: Activation, command: c.Checkpoint) -> bool:
    """Note the pieces of its own stream that a checkpoint covers, in the same append (rule 63). False where it covers none."""
    flow, spec = flows.find_open(d.state, activation, command.address.attempt), d.state.pinned(activation).stream
    if flow is None or spec is None or spec.restart != "checkpoint" or command.step:
        return False
    for after, part in command.kept:
        d.emit_for(e.StreamKept, activation, edition=flow.edition, part=part, after=after, version=2)
    return True


def begin_step(d: Decider, command: c.BeginStep) -> None:
    """Let a step begin that may happen at most once (rule 81), or that there is room for in the budget (rule 82): once, for
    one wish. The worker is told whether it was this wish."""
    activation = fence(d, command)
    if activation is None:
        return
    begun, reserved = activation.begun_steps or {}, activation.reserved or {}
    if command.not_done:
        held = reserved.get(command.step)
        if command.wish in (begun.get(command.step), None if held is None else held.wish):
            d.emit_for(e.StepReleased, activation, step=command.step)
        return
    known = command.step in begun or command.step in reserved or command.step in activation.asks
    known = known or command.step in steps_of(activation.checkpoint)
    if known or d.state.state in (R.FAILING, R.CANCELLING) or in_closing_iteration(d.state, activation):
        return  # no new effect from here on (R3)
    fields: dict[str, Any] = {"step": command.step, "wish": command.wish, "worker": command.worker}
    if command.reserve is not None:
        if has_mail(d.state, activation):
            return  # it is read first: its worker gives the work back
        if find_short(d.state, activation, command.reserve, command.limit, rooms=command.rooms) is not None:
            return  # its worker gives the work back, with what it wants
        about = {"effect": command.effect, "reserve": command.reserve, "model": command.model, "limit": command.limit}
        fields |= {**about, "version": 2}
    d.emit_for(e.StepStarted, activation, **fields)


def too_much(d: Decider, activation: Activation) -> Error | None:
    if activation.kept <= MOST_KEPT:
        return None
    message = (
        f"the results of all steps of {d.state.name(activation.node)} take {activation.kept} bytes in the journal, and "
        f"{MOST_KEPT} are allowed: do part of the steps in another node, or return less"
    )
    return Error("limit_exceeded", message)


def complete(d: Decider, command: c.Complete) -> None:
    if command.address.undo:
        activation = d.get(command)
        if compensation.is_current(d.state, activation, command):
            compensation.complete(d, activation, command.output)
        return
    named = d.get(command)
    problem = _not_allowed(d, named, command, command.choice) if command.choice else None
    if command.renews:
        problem = continuations.find_problem(d.state, named)
    if d.state.streaming and flows.is_of_another(d, named, command):
        return
    if problem is None and d.state.streaming:
        problem = flows.find_problem(d, named, command)
    found = fence(d, command, success=problem is None)
    if found is None:
        return
    if problem is not None and flows.has_diverged(d, found, problem):
        _begin_anew(d, found, command, problem)
        return
    if problem is not None:
        fail_attempt(d, found, problem, retryable=not command.renews)
        return
    if command.ended:
        flows.end(d, found, command)
    accept(
        d,
        found,
        output=command.output,
        output_ref=command.output_ref,
        size=command.size,
        started_at=command.started_at,
        worker=command.worker,
        attempt=command.address.attempt,
        choice=command.choice,
        reasoning=command.reasoning,
        renews=command.renews,
    )


def _not_allowed(d: Decider, activation: Activation, command: c.Complete, choice: tuple[str, ...]) -> Error | None:
    """The error of an agent that chose a node its definition does not list (S3), or None."""
    branch = d.node(activation).branch if activation.item < 0 else None
    if branch is None or branch.kind != "agent_driven":
        return None
    allowed = {d.state.name(target) for target in branch.available}
    outside = [name for name in choice if name not in allowed]
    if not outside:
        return None
    message = f"{command.address.node} chose {', '.join(outside)}; it may choose from {', '.join(sorted(allowed))}"
    return Error("route_not_allowed", message)


def fail(d: Decider, command: c.Fail) -> None:
    if command.address.undo:
        activation = d.get(command)
        if compensation.is_current(d.state, activation, command):
            after = command.retry_after
            compensation.fail(d, activation, command.error, retryable=command.retryable, retry_after=after)
        return
    found = fence(d, command)
    if found is not None and is_poll(d.state, found):
        put_off(d, found, command.error)
    elif found is not None and found.begun_steps and not command.not_done:
        park(d, found, command.error)  # what became of a step is unknown, and it is not done again by itself (rule 81)
    elif found is not None and d.state.streaming and flows.has_diverged(d, found, command.error):
        _begin_anew(d, found, command, command.error)
    elif found is not None:
        fail_attempt(
            d,
            found,
            command.error,
            retryable=command.retryable,
            retry_after=command.retry_after,
            certain=not found.begun or (command.not_done and _has_begun(found, command)),
        )


def _begin_anew(d: Decider, activation: Activation, command: c.NodeCommand, error: Error) -> None:
    """End an attempt that did not repeat what was yielded before it: the next one begins an edition of its own (rule 63)."""
    flows.begin_anew(d, activation, error)
    lapse(d, c.Lapse(at=command.at, address=command.address, reason="handed_back"))


def _has_begun(activation: Activation, command: c.Fail) -> bool:
    """Whether this worker was the one to begin the attempt: of a start that another was granted it knows nothing."""
    return command.ask == activation.ask if command.ask else command.worker == activation.worker


def lapse(d: Decider, command: c.Lapse) -> None:
    """End an attempt whose worker is gone. What the worker did is unknown; a new attempt may start."""
    if command.address.undo:
        activation = d.get(command)
        if compensation.is_current(d.state, activation, command):
            compensation.attempt(d, activation)
        return
    activation = d.get(command)
    current = command.address.attempt == activation.attempt and command.address.generation == d.state.generation
    if not current or activation.state not in (N.QUEUED, N.RUNNING) or d.state.terminal:
        return
    if command.reason == "crashed" and is_poll(d.state, activation) and has_slept(activation, d.at):
        command = msgspec.structs.replace(command, reason="handed_back")
    if command.wants is not None and _is_done_elsewhere(activation, command.step):
        return  # another worker has this attempt too, and was let begin
    goes_on = d.state.state in (R.RUNNING, R.PAUSED) and not in_closing_iteration(d.state, activation)
    if command.wants is not None and goes_on:
        read_mail(d, activation, command.step)
    if command.wants is not None and goes_on and give_back(d, activation, command, command.wants):
        return
    node = d.state.pinned(activation)
    unbegun = command.ask if command.reason == "handed_back" and command.ask == activation.ask else ""
    if node.effect == "at_most_once" and activation.begun and not unbegun:
        park(d, activation, Error("worker_lost", "the worker is gone and whether the effect happened is unknown"))
    elif command.reason == "crashed" and activation.crashes + 1 >= node.max_crashes:
        message = f"{activation.crashes + 1} workers died while they ran this; it is not tried again by itself"
        park(d, activation, Error("poison", message))
    elif d.state.state is R.RUNNING and not in_closing_iteration(d.state, activation):
        d.emit_for(e.NodeScheduled, activation, attempt=activation.attempt + 1, after=command.reason, unbegun=unbegun)
        d.dispatch(activation)
    else:
        d.emit_for(e.NodeHeld, activation, reason=d.state.state.value, after=command.reason, unbegun=unbegun)


def _is_done_elsewhere(activation: Activation, step: str) -> bool:
    return step in (activation.reserved or {}) or step in steps_of(activation.checkpoint)


def withdraw(d: Decider, command: c.Withdraw) -> None:
    activation = d.get(command)
    if activation.state is N.RUNNING:  # it had begun after all, and the transport has lost it: no worker will answer
        lapse(d, c.Lapse(at=command.at, address=command.address, reason="handed_back"))
        return
    if command.address.undo or command.address.attempt != activation.attempt or activation.state is not N.QUEUED:
        return
    if d.state.state is R.RUNNING:  # the run was resumed in the meantime
        send(d, [activation])
    else:
        hold_back(d, [activation], d.state.state.value)


def hold_back_one(d: Decider, command: c.HoldBack) -> None:
    activation = d.get(command)
    if command.address.attempt == activation.attempt and activation.state is N.QUEUED and not activation.begun:
        hold_back(d, [activation], command.reason, command.detail)


def release(d: Decider, command: c.Release) -> None:
    if d.state.state is not R.RUNNING:
        return
    wanted = set(command.nodes)  # by name: an iteration under way may hold nodes that a patch has removed
    waiting = [a for a in sorted_by_schedule(d.state, N.HELD) if a.reason == "no_worker"]
    held = [a for a in waiting if d.state.name(a.node) in wanted]
    send(d, held)
