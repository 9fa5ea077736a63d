"""Topics: what happened there is taken in by the triggers that listen to it, in order and each once (rule 53).

What is read behind the cursor of a mailbox comes in by the event that moves the cursor. Who reads need not be fenced otherwise: what
was read behind another cursor, or mapped by another revision, is refused, and is read again.
"""

from __future__ import annotations

from typing import Any

from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.decider import Decider, Refusal
from perdure.kernel.lifecycle import RunState
from perdure.kernel.state import State
from perdure.kernel.triggers.mailbox import Mailbox, has_room
from perdure.kernel.triggers.trigger_commands import add_items, box_of, check_revision, find_new


def find_refusal(state: State, box: Mailbox, after: str) -> Refusal | None:
    """Why nothing that was read behind a cursor is taken in now, whatever it is: then it need not be mapped either."""
    if after != box.cursor:
        return Refusal("stale_cursor", f"{box.name} is at {box.cursor}, and this was read behind {after}")
    if state.state is RunState.PAUSED:
        return Refusal("trigger_paused", f"{box.name} is paused; it goes on behind {box.cursor} when it is resumed")
    if not has_room(box):
        return Refusal("trigger_full", f"{len(box.waiting)} items of {box.name} wait; more is read when there is room")
    return None


def hear(d: Decider, command: c.Hear) -> None:
    box = box_of(d, command)
    if not box.topic:
        raise Refusal("not_listening", f"{box.name} is a {box.kind} and listens to nothing")
    check_revision(box, command.revision)
    if command.cursor == command.after == box.cursor:
        raise Refusal("stale_cursor", f"{box.name} is at {box.cursor} already")
    if (refusal := find_refusal(d.state, box, command.after)) is not None:
        raise refusal
    items, inputs, errors = find_new(d.at, box, ((given, 0) for given in command.items))
    if command.filtered:
        d.emit(e.TriggerSkipped, node=command.node, reason="filter", count=command.filtered)
    if len(items) < len(command.items):
        d.emit(e.TriggerSkipped, node=command.node, reason="duplicate", count=len(command.items) - len(items))
    moved: dict[str, Any] = {"node": command.node, "after": command.after, "cursor": command.cursor}
    if items:
        add_items(d, box, items, inputs, errors, moved)
    else:
        d.emit(e.TriggerAdvanced, **moved, reason="filtered" if command.filtered else "empty")
