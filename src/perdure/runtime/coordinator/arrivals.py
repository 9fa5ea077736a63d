"""What became of items in the append that brought them: the answer to who pushed them, or fired a trigger by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.state import State
from perdure.kernel.triggers.mailbox import Mailbox, run_of_item
from perdure.runtime.coordinator.requests import ItemFate, Received

Fate = Literal["started", "waiting", "parked", "skipped", "known"]


class Arrival:
    """A command that is about to be decided. Commands that bring no items are answered with the state of their run."""

    def __init__(self, state: State, command: c.Command, events: Sequence[Any]) -> None:
        self._command = command if isinstance(command, (c.Deliver, c.Fire)) else None
        self._before = len(events)
        box = None if self._command is None else state.triggers.get(self._command.node)
        self._last = 0 if box is None else box.position

    def answer(self, state: State, events: Sequence[Any]) -> str | Received:
        said = state.state.value
        box = None if self._command is None else state.triggers.get(self._command.node)
        if self._command is None or box is None:
            return said
        started = {
            number: start.run_id
            for event in events[self._before :]
            if isinstance(event, e.TriggerStarted)
            for start in event.starts
            for number in start.numbers
        }
        taken = []
        for run_id in _runs_of(box, self._command):
            number = box.seen.get(run_id, 0)
            fate = self._fate(box, number, started)
            if box.policy.window is not None and isinstance(self._command, c.Deliver):
                run_id = started.get(number, "")  # the run of a window is known when that closes
            taken.append(ItemFate(number, run_id, fate))
        return Received(said, tuple(taken))

    def _fate(self, box: Mailbox, number: int, started: Mapping[int, str]) -> Fate:
        if number <= self._last:
            return "known"
        if number in box.waiting:
            return "waiting"
        if number in box.parked:
            return "parked"
        return "started" if number in started else "skipped"


def _runs_of(box: Mailbox, command: c.Deliver | c.Fire) -> list[str]:
    if isinstance(command, c.Fire):
        return [run_of_item(box.trigger, command.firing, by_hand=True)]
    return [run_of_item(box.trigger, given.id) for given in command.items]
