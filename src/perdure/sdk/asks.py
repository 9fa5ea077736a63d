"""What a run, its children included, waits for that only a person can give: decisions, signals, events, repairs, a resume."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from perdure.kernel.lifecycle import OPEN, N, R
from perdure.kernel.state import Activation, State
from perdure.kernel.values import Asked
from perdure.runtime.coordinator.projections import letter_id
from perdure.runtime.coordinator.triggers.subscriptions import key_of_source
from perdure.runtime.forms import example_of

if TYPE_CHECKING:
    from perdure.service import Service

_DEEPEST = 20


class Ask(msgspec.Struct, frozen=True):
    """One thing a person can do, and the command that does it."""

    kind: str  # approval | signal | event | parked | paused
    name: str
    run_id: str
    node: str
    command: str
    approvers: tuple[str, ...] = ()
    shown: Any = None
    reject: str = ""
    """The nodes that a rejection leads to, where the workflow names them."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of `on_approval`, where True or False does not say enough."""

    decision: Literal["approve", "reject"]
    by: str = ""
    """The approver who decides; if left out, the first who has not decided yet."""
    comments: str = ""
    data: Any = None


class Waiting(msgspec.Struct):
    asks: list[Ask] = []
    busy: bool = False
    """Something of the run continues without a person: work, a retry, a timer."""

    @property
    def only_people(self) -> bool:
        return bool(self.asks) and not self.busy


async def look(service: Service, state: State, depth: int = 0) -> Waiting:
    found = Waiting()
    if state.terminal:
        return found
    if state.state in (R.FAILING, R.CANCELLING):
        found.busy = True
        return found
    if state.state is R.COMPENSATING:
        _look_at_undo(state, found)
        return found
    if state.state is R.PAUSED:
        more = " --usd DOLLARS" if "budget" in state.pauses else ""
        if more and state.money.budget is not None and state.money.budget.usd is None:
            more = " --calls N" if state.money.budget.tokens is None else " --tokens N"
        found.asks.append(Ask("paused", "", state.run_id, "", f"perdure runs resume {state.run_id}{more}"))
    # The run may go on while its children are looked at, so its own state is read completely before the first await.
    children: list[str] = []
    for activation in state.activations.values():
        if activation.state in OPEN:
            _look_at(state, activation, found, children)
    if any(ask.kind == "event" for ask in found.asks):
        found.busy = found.busy or _may_have_come(service, state)
    for child in children:
        await _look_at_child(service, child, found, depth)
    return found


def _may_have_come(service: Service, state: State) -> bool:
    """Whether an event that the run waits for may be among those that have happened: then no person is needed."""
    engine = service.tenancy.engine
    return engine.holds and not engine.topic_reader.is_read(state.run_id)


def _look_at(state: State, activation: Activation, found: Waiting, children: list[str]) -> None:
    node = state.name(activation.node)
    match activation.state:
        case N.HELD:
            found.busy = found.busy or state.state is not R.PAUSED
        case N.PARKED:
            found.asks.append(_parked(state, activation))
        case N.WAITING if activation.wait is not None:
            wait = activation.wait
            if wait.kind == "approval" and (approval := state.approvals.get(wait.name)) is not None:
                asked = state.pinned(activation)
                form = asked.config.get("form") if isinstance(asked.config, dict) else None
                free = tuple(name for name in approval.approvers if name not in approval.votes)
                command = approve_command(wait.name, free, form)
                reject = ", ".join(state.name(number) for number in asked.rejection_path or ())
                about = (state.run_id, node, command, approval.approvers, approval.shown, reject)
                found.asks.append(Ask("approval", wait.name, *about))
            elif wait.kind == "signal":
                command = f"perdure runs signal {state.run_id} {wait.name}"
                found.asks.append(Ask("signal", wait.name, state.run_id, node, command))
            elif wait.kind == "event":
                found.asks.append(_event(state, node, wait.name, wait.key))
            elif wait.kind == "trigger" and (box := state.triggers.get(node)) is not None and box.kind == "event":
                found.asks.append(_event(state, node, box.spec["source"]["name"], key_of_source(box.spec)))
            elif wait.kind == "child":
                children.append(wait.name)
            elif wait.kind == "asks":
                for ask in activation.asks.values():
                    if ask.open:
                        _look_at_ask(state, node, ask, found, children)
            elif wait.kind not in ("items", "approval"):  # items are activations of their own
                found.busy = True
        case _:
            found.busy = True


def _event(state: State, node: str, name: str, key: str) -> Ask:
    command = f"perdure events send {name}" + (f" --key {quote(key)}" if key else "")
    return Ask("event", name, state.run_id, node, command)


def _look_at_ask(state: State, node: str, ask: Asked, found: Waiting, children: list[str]) -> None:
    """Look at one of the things that a handler asked for."""
    approval = state.approvals.get(ask.approval)
    if approval is not None:
        free = tuple(name for name in approval.approvers if name not in approval.votes)
        command = approve_command(ask.approval, free)
        found.asks.append(
            Ask("approval", ask.approval, state.run_id, node, command, approval.approvers, approval.shown)
        )
    elif ask.signal:
        command = f"perdure runs signal {state.run_id} {ask.signal}"
        found.asks.append(Ask("signal", ask.signal, state.run_id, node, command))
    elif ask.child:
        children.append(ask.child)
    else:
        found.busy = True


async def _look_at_child(service: Service, child: str, found: Waiting, depth: int) -> None:
    record = await service.tenancy.find_run(child)
    if record is None or record.row.ended_at is not None or depth > _DEEPEST:
        found.busy = True  # the child is about to start, its end is about to be reported, or it is too deep
        return
    below = await look(service, await service.tenancy.engine.runs.state_of(record), depth + 1)
    found.asks.extend(below.asks)
    found.busy = found.busy or below.busy or not below.asks


def approve_command(approval: str, approvers: tuple[str, ...], form: Any = None) -> str:
    """The command that approves. It names the first approver with `--by`, because the name of an approver is seldom
    that of a user, and has an example of the data that the form needs."""
    example = example_of(form)
    data = f" --data {quote(msgspec.json.encode(example).decode())}" if example else ""
    return f"perdure approvals approve {approval}{f' --by {quote(approvers[0])}' if approvers else ''}{data}"


def _look_at_undo(state: State, found: Waiting) -> None:
    activation = state.activations[state.plan[-1]] if state.plan else None
    if activation is not None and activation.undo is not None and activation.undo.state == "parked":
        found.asks.append(_parked(state, activation))
    else:
        found.busy = True


def _parked(state: State, activation: Activation) -> Ask:
    node = state.name(activation.node)
    return Ask("parked", node, state.run_id, node, f"perdure dlq requeue {letter_id(state, activation)}")
