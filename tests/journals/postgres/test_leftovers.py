"""Every connection and task is gone after `close`, and after an opening that failed."""

import asyncio

import pytest

from perdure.errors import PerdureError
from perdure.journals.postgres import open_postgres
from tests.conformance.journal.commits import append, commit
from tests.journals.postgres.helpers import CONNECTIONS, locked, until, until_waiting


async def none_left(admin) -> None:
    async def none() -> bool:
        return await admin.fetchval(CONNECTIONS) == 0

    await until(none, "the connections to end")


async def test_close_leaves_nothing(url, admin):
    before = asyncio.all_tasks()
    journal = await open_postgres(url, require_durable=False, readers=3)
    await journal.hold()
    await asyncio.gather(*(append(journal, commit(f"r{number}")) for number in range(20)))
    await asyncio.gather(*(journal.get_run(f"r{number}") for number in range(20)))
    assert await admin.fetchval(CONNECTIONS) >= 3
    await journal.close()
    assert asyncio.all_tasks() == before
    await none_left(admin)


async def test_a_failed_opening_leaves_nothing(url, admin):
    before = asyncio.all_tasks()
    with pytest.raises(PerdureError):
        await open_postgres(url, require_durable=True)
    assert asyncio.all_tasks() == before
    await none_left(admin)


async def test_a_cancelled_read_gives_its_place_back_and_ends_in_the_server(url, admin, open_journal):
    journal = await open_journal(url, readers=1)
    await append(journal, commit("r1", 0, 5))
    for _ in range(5):
        async with locked(url) as gate:
            reading = asyncio.gather(journal.find_run("r1"))
            await until_waiting(gate, 1)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

            async def is_free() -> bool:
                return await gate.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == 0

            await until(is_free, "the server to hear of it")
    assert len(await journal.read_events("r1")) == 5
    assert await admin.fetchval(CONNECTIONS) <= 2
    await journal.close()
    await none_left(admin)


async def test_a_cancelled_opening_leaves_nothing(url, admin):
    before = asyncio.all_tasks()
    for turns in range(0, 60, 3):
        opening = asyncio.ensure_future(open_postgres(url, require_durable=False))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        try:
            await (await opening).close()
        except asyncio.CancelledError:
            pass
    assert asyncio.all_tasks() == before
    await none_left(admin)
