"""Asks: a handler stops, asks for durable things, and is entered again with the answers kept as steps (rules 77 to 80).

All that is asked for at once is waited for at once. What an answer is depends on the kind; none of them is a failure of
the activation that asked: its handler reads the answer and decides.
"""

from __future__ import annotations

from typing import Any

from perdure.kernel import commands as c
from perdure.kernel import compensation
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.attempts import fence, too_much
from perdure.kernel.decider import MAX_DEPTH, Decider
from perdure.kernel.dispatches import hold_back
from perdure.kernel.edges import in_closing_iteration
from perdure.kernel.lifecycle import N, R
from perdure.kernel.outcomes import check_bytes, fail_attempt, fail_for_good
from perdure.kernel.segments import BlobRef
from perdure.kernel.settle import schedule
from perdure.kernel.state import Activation, Approval
from perdure.kernel.steps.money import child_budget, heard_of
from perdure.kernel.values import MOST_ASKS, Ask, AskedChild, Asking, Error, Wait, steps_of


def ask_for(d: Decider, command: c.AskFor) -> None:
    """End the attempt and let the activation wait for everything that its handler asks for."""
    activation = d.get(command)
    if command.address.undo:
        if compensation.is_current(d.state, activation, command):
            error = Error("cannot_suspend", "a compensator asks for nothing: it undoes, or fails")
            compensation.fail(d, activation, error, retryable=False, retry_after=None)
        return
    if command.address.attempt <= activation.suspended:
        return  # the same message once more
    found = fence(d, command)
    if found is None:
        return
    problem = _find_problem(d, activation, command.asks)
    if problem is not None:
        fail_attempt(d, activation, problem, retryable=False)
    elif d.state.state in (R.FAILING, R.CANCELLING):
        hold_back(d, [activation], d.state.state.value)
    elif in_closing_iteration(d.state, activation):
        hold_back(d, [activation], "closing")
    else:
        _begin(d, activation, command)


def _find_problem(d: Decider, activation: Activation, asks: tuple[Ask, ...]) -> Error | None:
    node = d.state.pinned(activation)
    if node.effect == "at_most_once":
        message = f"{node.id} is at_most_once, and would be entered again after an answer; ask in a node before it"
        return Error("cannot_suspend", message)
    names = {ask.name for ask in asks}
    if not asks or len(asks) > MOST_ASKS or len(names) < len(asks):
        return Error(
            "bad_ask", f"{node.id} asks for {len(asks)} things under {len(names)} names; 1 to {MOST_ASKS} differ"
        )
    taken = sorted(names & steps_of(activation.checkpoint).keys())
    if taken:
        return Error("bad_ask", f"{node.id} asks for {', '.join(taken)} and has a step of that name")
    for ask in asks:
        given = {"child": ask.workflow, "sleep": ask.seconds is not None, "signal": ask.signal, "patch": ask.operations}
        missing = not given.get(ask.kind, True)
        if missing:
            return Error("bad_ask", f"the {ask.kind} {ask.name} of {node.id} does not say which, or how long")
    return None


def _begin(d: Decider, activation: Activation, command: c.AskFor) -> None:
    asks = command.asks
    until = {ask.name: None if ask.seconds is None else d.at + ask.seconds for ask in asks}
    asking = tuple(_asking(ask, until[ask.name]) for ask in asks)
    version = 4 if any(ask.kind == "patch" for ask in asks) else 2
    d.emit_for(e.NodeWaiting, activation, wait=Wait(kind="asks", count=len(asks)), asks=asking, version=version)
    for ask in asks:
        if ask.kind == "approval":
            d.emit_for(
                e.ApprovalRequested,
                activation,
                approval=command.address.ask_approval_id(ask.name),
                approvers=ask.approvers,
                quorum=ask.quorum,
                expires_at=until[ask.name],
                on_timeout=ask.on_timeout,
                escalate_to=ask.escalate_to,
                shown=ask.shown,
                form=ask.form,
                ask=ask.name,
                version=2,
            )
    for ask in asks:
        if ask.kind == "child" and activation.state is N.WAITING:
            _start_child(d, activation, ask, command)
        elif ask.kind == "patch":
            d.effect(fx.ApplyPatch(address=d.state.address(activation), ask=ask.name))


def _asking(ask: Ask, until: float | None) -> Asking:
    """The ask as it is recorded."""
    if ask.kind == "patch":
        return Asking(ask.name, ask.kind, ask.content, operations=ask.operations, reason=ask.reason)
    return Asking(ask.name, ask.kind, ask.content, ask.signal if ask.kind == "signal" else "", until)


def _start_child(d: Decider, activation: Activation, ask: Ask, command: c.AskFor) -> None:
    if d.state.depth >= MAX_DEPTH:
        message = f"{ask.workflow} would be nested {MAX_DEPTH + 1} deep, and {MAX_DEPTH} is the most"
        answer(d, activation, ask.name, _ended("failed", error=Error("depth_exceeded", message)))
        return
    child = command.address.ask_child_id(ask.name, activation.asks[ask.name].times)
    about: dict[str, Any] = {"child": child, "workflow": ask.workflow, "inputs": ask.inputs}
    if (budget := child_budget(d.state, ask.budget)) is not None:
        about |= {"budget": budget}
    d.emit_for(e.ChildStarted, activation, **about, ask=ask.name, version=2 if budget is None else 3)
    d.effect(fx.StartChild(**about, address=d.state.address(activation)))


# -- answers -----------------------------------------------------------------------------------------------------------


def answer(d: Decider, activation: Activation, name: str, data: Any, *, size: int = 0, signal: str = "") -> None:
    """Keep the answer to an ask as a step. The last one sends the handler again, unless the run is ending."""
    d.emit_for(e.NodeCheckpointed, activation, step=name, data=data, size=size, signal=signal, version=2)
    if size and (error := check_bytes(d, activation) or too_much(d, activation)) is not None:
        fail_for_good(d, activation, error)
        d.leave_children(activation)
    elif d.state.state in (R.RUNNING, R.PAUSED) and not any(ask.open for ask in activation.asks.values()):
        d.emit_for(e.NodeResumed, activation, reason="answered")
        schedule(d, [activation])


def decided(d: Decider, approval: Approval, activation: Activation, decision: str, by: str) -> None:
    """Answer an ask by the decision of people, or by none in time."""
    data = {"decision": decision, "decided_by": by, "comments": approval.comments, "data": approval.data}
    answer(d, activation, approval.ask, data)


def signalled(d: Decider, activation: Activation, name: str, signal: str, payload: Any) -> None:
    answer(d, activation, name, {"payload": payload, "timed_out": False}, signal=signal)


def timed_out(d: Decider, activation: Activation, name: str) -> None:
    """Answer an ask whose time has come: the sleep is over, or no signal has come."""
    ask = activation.asks[name]
    answer(d, activation, name, {} if ask.kind == "sleep" else {"payload": None, "timed_out": True})


def _ended(state: str, output: Any = None, error: Error | None = None) -> dict[str, Any]:
    said = None if error is None else {"code": error.code, "message": error.message}
    return {"state": state, "output": output, "error": said}


def end_child(d: Decider, activation: Activation, child: AskedChild, command: c.EndChild) -> None:
    """Record the end of a generation of an ask's child, which is the answer if it is waited for."""
    if command.generation <= child.generation:
        return
    ask = activation.asks[child.ask]
    waited_for = activation.state is N.WAITING and ask.open and ask.child == command.child
    ending = d.state.state not in (R.RUNNING, R.PAUSED)
    if not command.begun and waited_for and not ending:
        return  # it was stopped for an end that is over; what is wanted of it since has been asked for
    if not command.begun and not child.open:
        return
    generation = command.generation if command.begun else child.generation  # that one is still the last
    said = heard_of(d.state, command)
    d.emit_for(e.ChildEnded, activation, child=command.child, generation=generation, state=command.state, **said)
    if not waited_for or (ending and command.state != "completed"):
        return  # an end that the run's own end has caused answers nothing (rule 80)
    output = command.output if command.output_ref is None else BlobRef(command.output_ref)
    answer(d, activation, child.ask, _ended(command.state, output, command.error), size=command.size)
