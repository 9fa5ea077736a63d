"""Noticing a coroutine that blocks the loop: each of its steps is timed, and one that takes too long is reported.

A step cannot be interrupted, so it is reported when it is over. This file must not know what the coroutine does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

TOO_LONG_SECONDS = 1.0


class Timed:
    """An awaitable that does what the one it is given does, and times each step."""

    __slots__ = ("_awaited", "_monotonic", "_tell")

    def __init__(self, awaited: Awaitable[Any], monotonic: Callable[[], float], tell: Callable[[float], None]) -> None:
        self._awaited = awaited
        self._monotonic = monotonic
        self._tell = tell

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._awaited.__await__()
        value: Any = None
        error: BaseException | None = None
        while True:
            begun = self._monotonic()
            try:
                if error is not None:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(value) if value is not None else next(steps)
            except StopIteration as end:
                return end.value
            finally:
                took = self._monotonic() - begun
                if took > TOO_LONG_SECONDS:
                    self._tell(took)
            try:
                value, error = (yield wanted), None
            except BaseException as thrown:  # noqa: BLE001  every error is for the coroutine, CancelledError too
                value, error = None, thrown
