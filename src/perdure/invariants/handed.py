"""Triggers inside a run: each item is the outcome of one activation, in order (TG14)."""

from __future__ import annotations

from perdure.invariants import attempts
from perdure.invariants.mailboxes import find_box, set_fate
from perdure.invariants.model import Model
from perdure.kernel import events as e
from perdure.kernel.segments import BlobRef


def handed(model: Model, event: e.TriggerHanded) -> None:
    box = find_box(model, event)
    if box is None:
        return
    act = model.get(event.node, event.scope)
    if not box.inner:
        model.blame("TG14", f"item {event.number} of {event.node} is handed over, and should start a run")
    if model.state != "running":
        model.blame("TG9", f"item {event.number} is handed to {act.place} while the run is {model.state}")
    if act.state != "waiting" or act.wait != "trigger":
        model.blame("TG14", f"item {event.number} is handed to {act.place}, which is {act.state}")
    first = min((n for n in box.items if box.fates[n] == "waiting"), default=None)
    if event.number != first:
        model.blame("TG14", f"item {event.number} is handed to {act.place}, and {first} is the first that waits")
    set_fate(model, box, (event.number,), "handed")
    box.outcomes[event.scope] = box.contents.pop(event.number, None)


def completed(model: Model, event: e.NodeCompleted) -> None:
    """No activation of a trigger has another outcome than the item that it was handed."""
    box = model.boxes.get(event.node)
    if box is not None and box.inner and not event.adopted:
        if event.scope not in box.outcomes:
            model.blame("TG14", f"{event.node} {list(event.scope)} completes, and was handed no item")
        given = box.outcomes.pop(event.scope, None)
        made = event.output if event.output_ref is None else BlobRef(event.output_ref)
        if given is not None and made != given:
            model.blame("TG14", f"{event.node} {list(event.scope)} completes with something else than its item")
    attempts.completed(model, event)
