"""Random appends, alike on PostgreSQL and on the model in memory: the same answers and the same journals after every step."""

import asyncio

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.journal import Commit
from perdure.journals.postgres import open_postgres
from tests.conformance.journal.adapters import PARTITIONS
from tests.doubles.memory_journal import MemoryJournal, Store
from tests.journals.model import appends, commits, do, everything, raises


def keep_apart(step: list[Commit]) -> list[Commit]:
    """Nobody consumes a notice that is written in the same append: they could not have read it."""
    if not any(commit.notices for commit in step):
        return step
    return [msgspec.structs.replace(commit, notices_consumed=()) for commit in step]


apart = st.lists(commits(), min_size=1, max_size=3, unique_by=lambda commit: commit.run_id).map(keep_apart)
"""Commits that do not meet: then notices have the same numbers too."""


def forget_numbers(step: list[Commit] | str) -> list[Commit] | str:
    """Where commits meet, notices are numbered in another order."""
    if isinstance(step, str):
        return step
    return [msgspec.structs.replace(commit, notices_consumed=()) for commit in step]


def without_numbers(seen: dict[str, object]) -> dict[str, object]:
    notices = seen["notices"]
    assert isinstance(notices, list)
    return seen | {"notices": sorted((notice.run_id, notice.from_run_id, notice.body) for notice in notices)}


async def compare(server, steps, look) -> None:
    async with server.database(PARTITIONS) as name:
        real = await open_postgres(server.url(name), require_durable=False)
        model = MemoryJournal(Store(PARTITIONS))
        try:
            for step in steps:
                assert await do(real, step) == await do(model, step)
                assert look(await everything(real)) == look(await everything(model))
        finally:
            await real.close()


@pytest.fixture
def wheel(postgres_servers):
    return postgres_servers.get()


shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def kind_of(steps, forget, look):
    return st.lists(steps | raises, min_size=1, max_size=12).map(lambda some: ([forget(step) for step in some], look))


@pytest.mark.slow
@shared
@given(kind_of(apart, lambda step: step, lambda seen: seen) | kind_of(appends, forget_numbers, without_numbers))
def test_postgres_and_the_model_agree_also_when_commits_of_one_append_meet(wheel, kind):
    steps, look = kind
    asyncio.run(compare(wheel, steps, look))
