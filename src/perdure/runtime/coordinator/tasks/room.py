"""The room of a run: how many lists and objects its values may have in memory, all together.

A value of 32 KiB stays in its event, and may be ten thousand empty lists. The collector of garbage looks at all that there is in
one go, and a run lets go of all that it has in one go: of millions, both take longer than a turn of the loop may. So from
`MOST_PARTS` on, values with more than a few parts are stored as blobs, however short they are. What is decided is written in events;
nothing of it is derived again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.kernel import segments
from perdure.kernel.state import Activation, State
from perdure.weight import count_parts

MOST_PARTS = 200_000
"""The most lists and objects of all values of a run that are kept whole: of the worst, 24 ms for the collector."""
FEW_PARTS = 3
"""A value of so many stays where it is: a reference to it would be no smaller."""
_OF_AN_EVENT = 4
"""How many lists and objects an event has besides its values, about."""
_FEW_BYTES = 64 * 1024
"""A run whose outputs together are this short is not looked through when it is loaded."""


class Room:
    __slots__ = ("_decided", "_written")

    def __init__(self, written: int = 0) -> None:
        self._written = written
        self._decided = 0
        """How many bytes of values are decided on and not yet written: one turn may have hundreds of values."""

    @property
    def parts(self) -> int:
        return self._written + self._decided

    def admits(self, data: bytes) -> bool:
        """Whether this value, as JSON, may stay whole; if so, it counts from now on."""
        parts = count_parts(data)
        if parts <= FEW_PARTS:
            return True
        if self.parts + parts > MOST_PARTS:
            return False
        self._decided += parts
        return True

    def write(self, bodies: Iterable[bytes]) -> int:
        """Count what is written now, also values that nobody was asked about: what people sent. Returns its bytes."""
        self._decided = size = 0
        for body in bodies:
            size += len(body)
            # Most have no more than an event has anyway, what stands in their texts included.
            if len(body) > _FEW_BYTES or body.count(b"{") + body.count(b"[") > _OF_AN_EVENT:
                self._written += max(0, count_parts(body) - _OF_AN_EVENT)
        return size


def needs_a_look(state: State) -> bool:
    return state.bytes + state.kept > _FEW_BYTES


def look(state: State) -> Room:
    """The room of a run that is loaded. It takes a while where there is much."""
    if not needs_a_look(state):
        return Room()
    held = [value for approval in list(state.approvals.values()) for value in (approval.shown, approval.data)]
    held += [payload for _, _, payload in state.signals]
    return Room(sum(map(_count, list(state.activations.values()))) + sum(map(_parts, held)))


def _count(one: Activation) -> int:
    error = None if one.error is None else one.error.details
    return sum(_parts(value) for value in (one.output, one.checkpoint, one.config, one.child_inputs, error))


def _parts(value: Any) -> int:
    if type(value) is not dict and type(value) is not list:
        return 0
    try:
        return max(0, count_parts(segments.encode(value)[0]) - FEW_PARTS)
    except (TypeError, ValueError, OverflowError, RecursionError):  # it holds what is no JSON: nobody measures it
        return 0
