"""A database that went back in time has another incarnation, so that whoever remembers what is gone is refused."""

import asyncio
import os

import asyncpg  # type: ignore[import-untyped]
import pytest

from perdure.journal import Accepted, Fenced, JournalReadOnly
from tests.conformance.journal.commits import append, commit
from tests.journals.postgres.helpers import until
from tests.servers.postgres import FAST, PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture
def server(stoppable):
    return stoppable


@pytest.fixture
def url(stoppable_url):
    return stoppable_url


async def grow(journal, run_id: str = "r1", times: int = 3) -> int:
    """How far it is then."""
    found = await journal.find_commit(run_id)
    seq = found.seq if found else 0
    for _ in range(times):
        assert await append(journal, commit(run_id, seq, incarnation=await journal.incarnation())) == Accepted(seq + 1)
        seq += 1
    return seq


async def check_noticed(journal, before: int, seq: int) -> None:
    """The process goes on with the same journal: its next words are refused, and it can hear why."""
    assert await append(journal, commit("r1", seq, commit_id="late", incarnation=before)) == Fenced(0, before + 1)
    assert await journal.incarnation() == before + 1
    assert await append(journal, commit("new", incarnation=before + 1)) == Accepted(1)


async def restart(server, between=lambda: None, *, stop: str = "fast") -> None:
    server.stop(stop)
    between()
    server.start()
    for _ in range(5):  # the loop stood still; now it hears of the connections that ended
        await asyncio.sleep(0)


async def back_up(server) -> None:
    await restart(server, lambda: server.copy_data("backup"))


async def put_back(server) -> None:
    await restart(server, lambda: server.put_back("backup"))


async def test_files_put_back_are_noticed_by_who_wrote_since(server, url, open_journal):
    journal = await open_journal(url)
    await grow(journal)
    await back_up(server)
    seq = await grow(journal)
    await put_back(server)
    await check_noticed(journal, 1, seq)


async def test_files_put_back_are_noticed_by_who_only_read_since(server, url, open_journal):
    writing, reading = await open_journal(url), await open_journal(url)
    await grow(writing)
    await back_up(server)
    await grow(writing)
    assert await reading.incarnation() == 1
    await writing.close()
    await put_back(server)
    assert await reading.incarnation() == 2


async def test_files_put_back_are_noticed_although_others_have_written_more_since(server, url, open_journal):
    journal = await open_journal(url)
    await back_up(server)
    await grow(journal, times=1)
    await put_back(server)
    newcomer = await open_journal(url)
    await grow(newcomer, "other", times=30)
    assert await journal.incarnation() == 2


async def test_several_that_notice_raise_it_once_above_what_any_of_them_knew(server, url, open_journal):
    journals = [await open_journal(url) for _ in range(4)]
    await back_up(server)
    assert await journals[0].raise_incarnation() == 2
    for number, journal in enumerate(journals):
        await grow(journal, f"r{number}")
    await put_back(server)
    assert await asyncio.gather(*(journal.incarnation() for journal in journals)) == [3] * 4


async def test_a_restart_is_no_restore(server, url, open_journal):
    journals = [await open_journal(url) for _ in range(2)]
    for stop in ("fast", "immediate", "immediate"):
        for number, journal in enumerate(journals):
            await grow(journal, f"r{number}", times=20)
        await restart(server, stop=stop)
        assert await asyncio.gather(*(journal.incarnation() for journal in journals)) == [1, 1]


async def test_a_dump_that_is_restored_is_noticed_also_by_a_process_that_has_just_started(server, url, open_journal):
    journal = await open_journal(url)
    await grow(journal)
    dump = str(server.folder / "dump")
    server.run("pg_dump", "-d", url, "-Fc", "-f", dump)
    seq = await grow(journal)
    # Into the database that is in use.
    connection = await asyncpg.connect(url)
    await connection.execute("DROP SCHEMA perdure CASCADE")
    await connection.close()
    server.run("pg_restore", "-d", url, dump)
    fresh = await open_journal(url)
    assert await fresh.incarnation() == 2
    assert (await fresh.get_run("r1")).seq == 3
    await check_noticed(journal, 1, seq)
    # And into another one.
    another = server.url(await server.create_database())
    server.run("pg_restore", "-d", another, dump)
    for _ in range(2):
        assert await (await open_journal(another)).incarnation() == 2


async def test_a_standby_that_lagged_behind_and_was_promoted_is_noticed(server, url, open_journal):
    behind = PostgresServer(server.installation, **FAST)
    try:
        os.rename(behind.data, behind.folder / "unused")
        journal = await open_journal(url)
        await grow(journal)
        server.run("pg_basebackup", "-d", url, "-D", str(behind.data), "-c", "fast")
        mark = behind.data / "standby.signal"
        mark.touch()
        os.chown(mark, behind.user.pw_uid, behind.user.pw_gid)
        behind.start()
        name = url.partition("@/")[2].partition("?")[0]
        hosts = f"127.0.0.1:{server.port},127.0.0.1:{behind.port}"
        with pytest.raises(JournalReadOnly, match="standby"):
            await open_journal(behind.url(name))
        follower = await open_journal(f"postgresql://perdure@{hosts}/{name}?target_session_attrs=read-write")
        seq = await grow(follower)
        server.stop()
        await behind.execute("SELECT pg_promote()")
        await until(lambda: _is_primary(behind), "the standby to be the primary")
        await check_noticed(follower, 1, seq)
    finally:
        behind.remove()


async def _is_primary(server) -> bool:
    connection = await asyncpg.connect(server.url())
    try:
        return not await connection.fetchval("SELECT pg_is_in_recovery()")
    finally:
        await connection.close()
