"""The incarnation of the database that this process takes part in: a restore begins another one (PROTOCOL 2)."""

from __future__ import annotations

from perdure.journal import Journal
from perdure.runtime.parts import EngineStopped


class LostIncarnation(Exception):
    """The database was restored or taken over: what this process has in memory may never have happened."""


class Incarnation:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.number: int | None = None
        """The incarnation this process knows; None until `learn`."""

    async def learn(self) -> None:
        """Learn the incarnation, once. Whatever is read of the journal to be gone on with is read after this by each
        part for itself: read before, it could be of a database that was restored meanwhile, and no check would tell."""
        if self.number is None:
            found = await self._journal.incarnation()
            if self.number is None:
                self.number = found

    async def check(self) -> None:
        """Raise if the database was restored: a coordinator that has nothing to write would never notice."""
        if self.number is not None:
            self.compare(await self._journal.incarnation())

    async def confirm(self) -> None:
        """Raise `EngineStopped` if an answer for which nothing was written rests on a database that was restored."""
        try:
            await self.check()
        except LostIncarnation as error:
            raise EngineStopped(f"the request was not decided: {error}") from error

    def compare(self, found: int) -> None:
        if found != self.number:
            raise self.lost(found)

    def lost(self, found: int) -> LostIncarnation:
        return LostIncarnation(f"incarnation {self.number} is over, it is {found} now")
