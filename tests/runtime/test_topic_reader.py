"""How topics are read: each occurrence is told once to those who have subscribed, and all of them again to runs that were taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perdure.journal import Occurrence, Subscription, Topic
from perdure.runtime.topic_reader import TopicReader
from tests.doubles.fake_clock import FakeClock

TOPIC = Topic("default", "event:paid", "", position=7, at=0.0)
PLACES = [
    Subscription(topic=TOPIC.topic, run_id=run_id, place=f"{run_id}/w/1", since_at=0.0) for run_id in ("run0", "run1")
]


class Topics:
    """A journal with one occurrence, and one place in each of two partitions."""

    def __init__(self) -> None:
        self.during: dict[str, Callable[[], None]] = {}
        """What happens once while it is asked for this, after it has looked."""

    async def list_topics(self, after: int, limit: int) -> list[Topic]:
        found = [TOPIC] if after < TOPIC.position else []
        self.during.pop("list_topics" if not found else "", lambda: None)()
        return found

    async def list_subscribers(self, topic: Topic, partitions: Any, **page: Any) -> list[Subscription]:
        self.during.pop("list_subscribers", lambda: None)()
        return [PLACES[number] for number in partitions]

    async def read_occurrences(self, tenant: str, topic: str, *, after: int = 0, **page: Any) -> list[Occurrence]:
        return [Occurrence(position=7, topic=topic, id="e7", at=0.0, body=b"{}")] if after < TOPIC.position else []


@pytest.mark.parametrize("asked", ["list_subscribers", "list_topics"])
async def test_runs_that_are_taken_over_during_a_look_are_read_for_too(asked: str):
    journal, share, told = Topics(), SimpleNamespace(partitions=[0]), []

    async def ask(run_id: str, make: Any) -> None:
        told.append(run_id)

    coordinator = SimpleNamespace(share=share, ask=ask)
    clock = FakeClock()
    reader = TopicReader(cast(Any, journal), cast(Any, coordinator), clock, cast(Any, None))
    read: list[bool] = []

    def take_over() -> None:
        share.partitions = [0, 1]
        reader.look_again()
        read.append(reader.is_read("run1"))

    journal.during[asked] = take_over
    looking = asyncio.create_task(reader.run())
    await clock.advance(0.0)
    assert told == ["run0", "run0", "run1"], "what had happened was told to the run that was taken over, at once"
    assert (read, reader.is_read("run1")) == ([False], True)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
