"""Readiness: whether this process can keep what it is asked. A database that can be read and not written to (a full
disk, a standby) answers every question and keeps nothing, so readiness is found out by writing.

Owns the last answer: one write in `KEPT_SECONDS`, however often it is asked, since a caller needs no credential.
"""

from __future__ import annotations

import asyncio

from perdure.engine import Engine
from perdure.errors import PerdureError
from perdure.journal import JournalBusy
from perdure.service import Service

KEPT_SECONDS = 5.0
FAILED_SECONDS = 1.0
"""How long a bad answer is kept: a process that recovers should be used again soon."""
LONGEST_SECONDS = 5.0


class Readiness:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reason = ""
        self._until = 0.0
        self._asking = asyncio.Lock()

    async def explain_trouble(self) -> str:
        """Why this process cannot work now; empty: it can."""
        async with self._asking:
            clock = self._engine.clock
            if clock.monotonic() >= self._until:
                self._reason = await self._ask()
                self._until = clock.monotonic() + (FAILED_SECONDS if self._reason else KEPT_SECONDS)
            return self._reason

    async def _ask(self) -> str:
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                await Service.of_owner(self._engine).upkeep.check()
        except JournalBusy:  # others write, so it can be written to
            return ""
        except PerdureError as error:
            return error.code
        except TimeoutError:
            return "the database does not answer"
        return ""
