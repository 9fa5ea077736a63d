"""Which life of the database this process takes part in: a restore begins another one (PROTOCOL 2)."""

from __future__ import annotations

from perdure.journal import Journal


class LostIncarnation(Exception):
    """The database went back in time, or was taken over: what is in memory may never have happened."""


class Incarnation:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.number: int | None = None
        """None: not learned yet."""

    async def learn(self) -> None:
        self.number = await self._journal.incarnation()

    async def check(self) -> None:
        """A coordinator that has nothing to write would never hear that the database went back."""
        if self.number is not None:
            self.compare(await self._journal.incarnation())

    def compare(self, found: int) -> None:
        if found != self.number:
            raise self.lost(found)

    def lost(self, found: int) -> LostIncarnation:
        return LostIncarnation(f"incarnation {self.number} is over, it is {found} now")
