"""Questions of one kind that are asked at the same time go to the database together.

A statement to a server, or a visit to the thread that reads a file, costs more than its rows do. A caller that asks alone loses one turn of the event loop; one that
comes while a statement is under way goes with the next, so that its answer is never older than its question.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.journal import JournalCorrupt

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class _Lead:
    """The message to the caller that must send the next statement."""


_LEAD = _Lead()


class _Failed:
    """The error of one question."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _is_outage(error: Exception) -> bool:
    """Whether no question can be answered now."""
    return isinstance(error, StoreUnavailable) and not isinstance(error, JournalCorrupt)


class Coalescer(Generic[Key, Answer]):
    def __init__(
        self,
        ask_all: Callable[[list[Key]], Awaitable[Mapping[Key, Answer]]],
        clock: Clock,
        *,
        most: int,
        at_once: int = 2,
    ) -> None:
        """`most` questions in a statement, `at_once` statements under way. Asking again must do no harm."""
        self._ask_all = ask_all
        self._clock = clock
        self._most = most
        self._free = at_once
        self._gathering = False
        """Whether a caller waits for others to come along; then no other needs to ask by itself."""
        self._waiting: deque[tuple[Key, asyncio.Future[Answer | _Lead | None]]] = deque()

    async def ask(self, key: Key) -> Answer | None:
        if self._free and not self._gathering:
            self._free -= 1
        else:
            found = await self._follow(key)
            if not isinstance(found, _Lead):
                return found
        return await self._lead(key)

    async def _follow(self, key: Key) -> Answer | _Lead | None:
        future: asyncio.Future[Answer | _Lead | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, future))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None and future.result() is _LEAD:
                self._pass_on()
            raise

    async def _lead(self, key: Key) -> Answer | None:
        taken: list[tuple[Key, asyncio.Future[Answer | _Lead | None]]] = []
        try:
            await self._gather()
            while self._waiting and len(taken) < self._most - 1:
                taken.append(self._waiting.popleft())
            if self._waiting and self._free:  # more than one statement holds
                self._free -= 1
                self._pass_on()
            answers = await self._ask_together(list(dict.fromkeys([key, *(other for other, _ in taken)])))
        except Exception as error:
            for _, future in taken:
                if not future.done():
                    future.set_exception(error)
            raise
        except BaseException:  # only this caller was cancelled; another one asks for the others
            self._waiting.extendleft(reversed(taken))
            raise
        else:
            for other, future in taken:
                answer = answers.get(other)
                if future.done():
                    continue
                if isinstance(answer, _Failed):
                    future.set_exception(answer.error)
                else:
                    future.set_result(answer)
            own = answers.get(key)
            if isinstance(own, _Failed):
                raise own.error
            return own
        finally:
            self._pass_on()

    async def _gather(self) -> None:
        self._gathering = True
        try:
            await self._clock.sleep(0)  # one turn of the loop, no time: callers that ask now come along
        finally:
            self._gathering = False

    async def _ask_together(self, keys: list[Key]) -> Mapping[Key, Answer | _Failed]:
        """The answers; where what one question asks for may be damaged, each question is asked by itself."""
        try:
            return await self._ask_all(keys)
        except Exception as error:
            if len(keys) == 1 or _is_outage(error):
                raise
        found: dict[Key, Answer | _Failed] = {}
        for key in keys:
            try:
                found |= await self._ask_all([key])
            except Exception as error:
                if _is_outage(error):
                    raise
                found[key] = _Failed(error)
        return found

    def _pass_on(self) -> None:
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(_LEAD)
                return
        self._free += 1
