"""What agents leave for later runs: a part of the port of the archive. Appends write the rest (`Commit.entries`).

It must not know what an entry says.
"""

from __future__ import annotations

from typing import Protocol

from perdure.records import AgentEntry, EntryName, Page

LAST_TEXT = "\U0010ffff"
"""A text that sorts behind every name."""


class AgentEntries(Protocol):
    async def save_entry(self, entry: AgentEntry) -> None:
        """Keep an entry; one that there was at its place is replaced."""
        ...

    async def list_entries(
        self, tenant: str, space: str, name: str, *, before: str = LAST_TEXT, limit: int = 100
    ) -> list[AgentEntry]:
        """The entries under one name with a place below `before`, the highest first."""
        ...

    async def list_entry_names(
        self, tenant: str, space: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[EntryName]:
        """The names that there are, in order."""
        ...

    async def list_all_entries(self, *, limit: int = 100, cursor: str | None = None) -> Page[AgentEntry]:
        """The entries of all tenants, for what looks after blobs."""
        ...

    async def delete_entries(self, tenant: str, space: str, name: str) -> int:
        """Delete what there is under one name; returns how many."""
        ...

    async def prune_entries(self, space: str, before: float) -> int:
        """Forget entries that are older than this, a bounded number at a time; 0 means there are no more."""
        ...
