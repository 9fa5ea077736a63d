"""The part of the journal that keeps what happened, by topic, and who has still to read it (rule 53).

Positions become visible in their order: a reader that has got to one has missed none below it, whichever process wrote it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from perdure.records import Occurrence, Subscription, Topic


class TopicLog(Protocol):
    async def put_occurrence(self, occurrence: Occurrence) -> tuple[int, bool]:
        """Keep something that happened, whether or not a run has subscribed to it. Its position, and whether it is new: with an id
        that its topic knows nothing happens, whatever the body."""
        ...

    async def read_occurrences(
        self,
        tenant: str,
        topic: str,
        *,
        key: str | None = None,
        after: int = 0,
        since: float | None = None,
        limit: int = 100,
    ) -> list[Occurrence]:
        """What happened on a topic behind a position, in order; with a key only what has it, and from a time on."""
        ...

    async def list_topics(self, after: int, limit: int = 10_000) -> list[Topic]:
        """The topics of the next `limit` occurrences behind a position."""
        ...

    async def last_occurrence(self) -> int: ...  # the highest position there is; 0 for none

    async def list_subscribers(
        self,
        topic: Topic,
        partitions: Collection[int] | None = None,
        *,
        after: str = "",
        limit: int = 1000,
    ) -> list[Subscription]:
        """Who has subscribed to a topic, under exactly its key, and has not read as far as its position; by place."""
        ...

    async def read_subscriptions(self, run_id: str) -> list[Subscription]: ...  # by place

    async def prune_occurrences(self, before: float) -> int:
        """Forget what happened before then and nobody has still to read, a bounded number at a time; returns how many."""
        ...

    async def count_occurrences(self, tenant: str, most: int) -> int: ...  # no further than `most`

    async def drop_occurrences(self, tenant: str, most: int) -> int:
        """Forget the oldest of a tenant that nobody has still to read, `most` of them; returns how many."""
        ...

    async def count_subscribers(self, tenant: str, topic: str, key: str | None = None, most: int = 1000) -> int:
        """How many have subscribed to a topic, under the key or under none, or whatever their key; no further than `most`."""
        ...
