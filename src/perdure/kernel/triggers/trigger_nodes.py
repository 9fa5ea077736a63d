"""Triggers inside a run: an activation of the node takes the next item, and has it for its outcome (rule 54).

The mailbox is that of the run. It is registered by the first activation, goes on receiving while others work, and is carried over when the
run continues as another. An item and the cursor behind it come in by one event, and it is handed over by one event together with the outcome: who dies in
between loses nothing and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.decider import Decider, Refusal
from perdure.kernel.dispatches import hold_back
from perdure.kernel.lifecycle import N, R
from perdure.kernel.outcomes import accept, fail_for_good
from perdure.kernel.segments import BlobRef
from perdure.kernel.state import Activation, State
from perdure.kernel.triggers.hand_out import ask, park
from perdure.kernel.triggers.mailbox import Item, Mailbox
from perdure.kernel.triggers.poll_stops import rest, stop_poll
from perdure.kernel.triggers.receivers import OUT, find_receiver
from perdure.kernel.triggers.trigger_commands import SCHEDULE, find_bad_schedule, look_again, register
from perdure.kernel.values import Error
from perdure.model.ir import IR, Node


def wait_for_item(d: Decider, command: c.Await) -> None:
    """Let an activation wait for the next item. The first one registers the node."""
    activation = d.get(command)
    current = (command.address.attempt, command.address.generation) == (activation.attempt, d.state.generation)
    if not current or activation.state not in OUT:
        return
    if d.state.state not in (R.RUNNING, R.PAUSED):
        hold_back(d, [activation], d.state.state.value)
        return
    node, wanted = command.address.node, command.registration
    if node not in d.state.triggers:
        if wanted is None:
            raise Refusal("not_registered", f"run {d.state.run_id} has no trigger {node}")
        error = _find_problem(d, wanted, activation)
        if error is not None:
            fail_for_good(d, activation, error)
            return
        register(d, wanted)
    elif d.state.triggers[node].kind == SCHEDULE:
        look_again(d, node)
    rest(d, activation)


def _find_problem(d: Decider, wanted: c.Register, activation: Activation) -> Error | None:
    """Why the node cannot be registered. Nothing is refused here: then the activation would wait for nothing."""
    if d.state.pinned(activation).type != "trigger" or activation.item >= 0:
        return Error("no_trigger", f"{d.state.name(activation.node)} is no trigger node")
    return find_bad_schedule(d, wanted) if wanted.kind == SCHEDULE else None


def serve(d: Decider) -> None:
    """Hand what waits to the activations that want it: the first item, and to each activation one."""
    if d.state.state is not R.RUNNING:
        return
    for node, box in d.state.triggers.items():
        if box.inner and (box.waiting or box.ended):
            _serve(d, node, box)


def _serve(d: Decider, node: str, box: Mailbox) -> None:
    receiver = find_receiver(d.state, node)
    if receiver is None:
        return
    if receiver.state in OUT:
        stop_poll(d, node)  # what came otherwise is what it has polled for
    if receiver.state is not N.WAITING:
        return
    while box.waiting and d.state.state is R.RUNNING:
        item = box.waiting[min(box.waiting)]
        output = _output(d, node, box, item)
        if isinstance(output, Error):
            park(d, node, item.number, output)
            continue
        d.emit(e.TriggerHanded, node=node, number=item.number, scope=receiver.scope)
        accept(d, receiver, **output)
        return
    if box.ended and not box.waiting:
        fail_for_good(d, receiver, Error("source_ended", f"the source of {node} says that nothing will come any more"))


def _output(d: Decider, node: str, box: Mailbox, item: Item) -> dict[str, Any] | Error:
    """What an activation is given: the item as it came; of a moment, its times, which only a calendar can say."""
    value = item.inputs
    if item.nominal is not None:
        verdict = ask(d, c.Need("target", node, (), item.number), c.TargetAsked(workflow="", spec=box.spec, item=item))
        if verdict.error is not None:
            return verdict.error
        value = verdict.value["inputs"]
    if type(value) is BlobRef:
        return {"output_ref": value.ref, "size": item.size}
    return {"output": value, "size": item.size}


def find_changed(state: State, ir: IR) -> Iterator[str]:
    """Why a patch is refused: it changes a trigger node that is registered, which reads on behind its cursor."""
    for name, box in sorted(state.triggers.items()):
        now = state.ir.nodes[state.index(name)]
        other = next((node for node in ir.nodes if node is not None and node.id == name), None)
        if box.inner and (other is None or _about(now) != _about(other)):
            yield f"{name!r} is a trigger that is registered, and it stays as it is; start another run to read something else"


def _about(node: Node | None) -> tuple[Any, ...]:
    return () if node is None else (node.type, node.config, node.config_ref)
