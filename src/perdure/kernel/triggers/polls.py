"""Polls: who may say what a source has, and when it is asked (rule 51).

What a poll brings counts only if it is the current attempt, was mapped by the current revision and began at the cursor of the
mailbox. Items and cursor come in by one event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.attempts import fence
from perdure.kernel.decider import Decider, Refusal
from perdure.kernel.lifecycle import N, R
from perdure.kernel.state import Activation
from perdure.kernel.triggers.mailbox import Mailbox, has_room
from perdure.kernel.triggers.poll_stops import put_off, rest, stop_poll
from perdure.kernel.triggers.receivers import find_receiver, is_answered
from perdure.kernel.triggers.trigger_commands import add_items, box_of, check_revision, find_new
from perdure.kernel.values import Error


def receive(d: Decider, command: c.Receive) -> None:
    activation = fence(d, command)
    if activation is None:
        return
    node = command.address.node
    box = d.state.triggers.get(node)
    if box is None or not box.source:
        raise Refusal("not_a_source", f"{node} of run {d.state.run_id} polls nothing")
    check_revision(box, command.revision)
    if command.after != box.cursor:  # only a worker that says otherwise than its task
        put_off(d, activation, Error("stale_cursor", "the poll began at another cursor than it was given"))
        return
    if command.items and command.cursor == command.after:
        message = "the source gave items and the cursor it was asked with: they would come for ever"
        put_off(d, activation, Error("source_failed", message))
        return
    _accept(d, node, box, activation, command)


def _accept(d: Decider, node: str, box: Mailbox, activation: Activation, command: c.Receive) -> None:
    items, inputs, errors = find_new(d.at, box, _in_rounds(box, command.items))
    if command.filtered:
        d.emit(e.TriggerSkipped, node=node, reason="filter", count=command.filtered)
    if len(items) < len(command.items):
        d.emit(e.TriggerSkipped, node=node, reason="duplicate", count=len(command.items) - len(items))
    moved: dict[str, Any] = {"node": node, "after": command.after, "cursor": command.cursor}
    moved |= {"poll": activation.attempt, "scope": activation.scope, "more": command.more, "end": command.end}
    if items:
        add_items(d, box, items, inputs, errors, moved)
    else:
        d.emit(e.TriggerAdvanced, **moved, reason="filtered" if command.filtered else "empty")


def _in_rounds(box: Mailbox, delivered: tuple[c.Delivered, ...]) -> Iterator[tuple[c.Delivered, int]]:
    """Each item with its round: a rewind runs those up to one that it names again, and none after it."""
    again = box.again
    for given in delivered:
        yield given, box.round if again else 0
        if given.id == again:
            again = ""


def poll(d: Decider) -> None:
    """Ask the sources that are not being asked, as far as the mailboxes have room."""
    if d.state.state in (R.RUNNING, R.PAUSED):
        for node, box in d.state.triggers.items():
            if box.source:
                _poll(d, node, box)


def _poll(d: Decider, node: str, box: Mailbox) -> None:
    activation = find_receiver(d.state, node)
    if activation is None:
        return
    answered = is_answered(box, activation)
    wanted = d.state.state is R.RUNNING and not box.ended and has_room(box)
    wanted = wanted and not (box.inner and box.waiting)  # the next activation has something already
    if wanted and (answered or activation.state is N.WAITING):
        d.emit_for(e.NodeScheduled, activation, attempt=activation.attempt + 1)
        d.dispatch(activation)
    elif answered:
        rest(d, activation)


def rewind(d: Decider, command: c.Rewind) -> None:
    """Move the cursor to where a person wants it. Nothing that has had a run gets another one, unless that is asked for: then all
    items up to the last one that came in run in a new round."""
    box = box_of(d, command)
    if not box.source:
        raise Refusal("not_a_source", f"{box.name} is a {box.kind} and has no cursor to rewind")
    if not command.reason.strip():
        raise Refusal("reason_needed", f"say why {box.name} is rewound")
    stop_poll(d, command.node)
    again = command.again and box.last != "" and command.cursor != box.cursor
    d.emit(
        e.TriggerAdvanced,
        node=command.node,
        after=box.cursor,
        cursor=command.cursor,
        reason="rewound",
        round=box.round + 1 if again else box.round,
        upto=box.last if again else "",
        begins="start" if command.cursor is None else "",
        note=command.reason,
        by=command.by,
    )
