"""Lines: first come, first served, however long they are.

Signals that were not consumed and activations that wait for a signal stand in lines, one for each name. Joining and
leaving cost the same at any length, and a decision can be rolled back: what has left stays in the list until half of it
is of no use. The first of a line is always one that stays, and a name without a line has nothing waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.kernel.state import Activation, Line, State
from perdure.kernel.values import Asked

_FEW = 16


def join(state: State, lines: dict[str, Line], name: str, entry: tuple[Any, Any]) -> None:
    line = lines.get(name)
    if line is None:
        line = Line()
        state.add(lines, name, line)
    state.push(line.entries, entry)


def take_signal(state: State, name: str) -> None:
    """Consume the oldest signal of this name."""
    line = state.edit(state.unconsumed[name])
    line.head += 1
    state.unconsumed_count -= 1
    _tidy(state, state.unconsumed, name, line, lambda entry: True)


def leave(state: State, name: str) -> None:
    """Let an activation out of the line for this signal, after its `wait` was cleared."""
    line = state.edit(state.signal_waits[name])
    line.gone += 1
    _tidy(state, state.signal_waits, name, line, lambda entry: waits(state, entry))


def waits(state: State, entry: tuple[Any, Any]) -> bool:
    """Whether an entry of a line of waits still stays. An activation may have left and come back: then it has another
    wait, further behind."""
    if type(entry[1]) is Asked:
        return entry[1].open
    activation: Activation = state.activations[entry[0]]
    return activation.wait is entry[1]


def _tidy(
    state: State, lines: dict[str, Line], name: str, line: Line, stays: Callable[[tuple[Any, Any]], bool]
) -> None:
    entries = line.entries
    while line.head < len(entries) and not stays(entries[line.head]):
        line.head += 1
        line.gone -= 1
    if line.head == len(entries):
        state.drop(lines, name)
    elif 2 * (line.head + line.gone) > len(entries) + _FEW:
        line.entries = [entry for entry in entries[line.head :] if stays(entry)]
        line.head = line.gone = 0
