"""The server stops, its processes die, the network fails: each append is there exactly once or was refused (J1, J7)."""

import asyncio
import os
import signal

import asyncpg  # type: ignore[import-untyped]
import pytest

from perdure.journal import Accepted, JournalUnavailable, OutcomeUnknown
from perdure.journals.postgres import connections, open_postgres
from tests.conformance.journal.commits import append, commit
from tests.journals.postgres.helpers import CONNECTIONS, new_journal, until
from tests.journals.whole import check_whole, next_commit
from tests.proxy import Proxy
from tests.servers.postgres import installations

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


class Growers:
    """Runs that grow as fast as they can. What was refused or is unknown is appended again, the same commit."""

    def __init__(self, journal, count: int = 8) -> None:
        self.journal = journal
        self.answered = dict.fromkeys([f"run{number}" for number in range(count)], 0)
        self.answers = 0
        self.errors: list[type[Exception]] = []
        self.running = True

    async def grow(self, run_id: str) -> None:
        while self.running:
            seq = self.answered[run_id]
            answer = await self._append(run_id, seq)
            assert answer == Accepted(seq + 3)
            self.answered[run_id] = answer.seq
            self.answers += 1

    async def _append(self, run_id: str, seq: int) -> object:
        refused = unknown = False
        while True:
            try:
                if refused and not unknown:
                    # It was promised that nothing was written.
                    found = await self.journal.find_commit(run_id)
                    assert (found.seq if found else 0) == seq
                (answer,) = await self.journal.append([next_commit(run_id, seq, 0)])
                return answer
            except JournalUnavailable as error:
                self.errors.append(type(error))
                refused = True
                await asyncio.sleep(0.01)
            except OutcomeUnknown as error:
                self.errors.append(type(error))
                unknown = True

    async def until_answered(self, more: int) -> None:
        goal = self.answers + more

        async def reached() -> bool:
            return self.answers >= goal

        await until(reached, f"{more} more answers after {self.errors}")


async def disturb(journal, faults) -> Growers:
    """Run the growers, and let each fault happen after some more answers; then all must be whole."""
    growers = Growers(journal)
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        for run_id in growers.answered:
            group.create_task(growers.grow(run_id))
        for fault in faults:
            await growers.until_answered(30)
            await fault(growers)
        await growers.until_answered(30)
        growers.running = False
    assert await check_whole(journal) == growers.answered
    assert growers.errors != []
    return growers


@pytest.mark.slow
@pytest.mark.parametrize("installation", sorted(installations()))
async def test_a_server_that_is_stopped_at_once_loses_nothing_and_the_journal_goes_on_by_itself(
    postgres_servers, installation, open_journal
):
    durable = postgres_servers.get_stoppable(installation, durable=True)
    journal = await open_journal(await new_journal(durable), require_durable=True)

    async def stop_and_start(growers: Growers) -> None:
        heard = growers.errors.count(JournalUnavailable)
        durable.stop("immediate")
        with pytest.raises(JournalUnavailable):
            await journal.find_run("run0")

        async def is_refused() -> bool:
            return growers.errors.count(JournalUnavailable) > heard

        await until(is_refused, "an append to be refused")
        durable.start()

    growers = await disturb(journal, [stop_and_start] * 3)
    assert set(growers.errors) == {OutcomeUnknown, JournalUnavailable}
    assert await journal.incarnation() == 1
    await journal.close()


async def test_connections_that_are_terminated_are_made_again(url, open_journal):
    journal = await open_journal(url)
    admin = await asyncpg.connect(url)

    async def terminate(_: Growers) -> None:
        await admin.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")

    await disturb(journal, [terminate] * 12)
    assert await journal.incarnation() == 1
    await journal.close()
    await admin.close()


@pytest.mark.slow
async def test_a_process_of_the_server_that_is_killed_costs_time_only(stoppable, stoppable_url, open_journal):
    """The server then ends all its processes and recovers, as after a crash."""
    journal = await open_journal(stoppable_url)

    async def kill(_: Growers) -> None:
        admin = await asyncpg.connect(stoppable_url)
        before = await admin.fetchval(CHECKPOINTER)
        os.kill(await admin.fetchval("SELECT pg_backend_pid()"), signal.SIGKILL)
        await until(lambda: _is_closed(admin), "the connection to end")
        await until(lambda: has_recovered(stoppable_url, before), "the server to be up again with new processes")

    await disturb(journal, [kill] * 3)
    await journal.close()


CHECKPOINTER = "SELECT backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'"


async def has_recovered(url, before) -> bool:
    """Whether the server has ended all its processes and begun them anew. Until it notices the death of one, the others answer."""
    try:
        connection = await asyncpg.connect(url)
        begun = await connection.fetchval(CHECKPOINTER)
        await connection.close()
    except (
        OSError,
        asyncpg.CannotConnectNowError,
        asyncpg.InterfaceError,
        asyncpg.PostgresConnectionError,
        asyncpg.AdminShutdownError,
        asyncpg.CrashShutdownError,
    ):
        return False
    return begun not in (None, before)


async def _is_closed(connection) -> bool:
    return connection.is_closed()


async def test_an_idle_journal_notices_nothing_of_a_restart(stoppable, stoppable_url, open_journal):
    journal = await open_journal(stoppable_url)
    await append(journal, commit("r1"))
    stoppable.stop("fast")
    stoppable.start()
    assert (await journal.get_run("r1")).seq == 1
    assert await append(journal, commit("r1", 1)) == Accepted(2)
    await journal.close()


async def test_a_server_that_is_down_is_unavailable_and_opening_leaves_nothing(stoppable, stoppable_url, open_journal):
    before = asyncio.all_tasks()
    stoppable.stop()
    with pytest.raises(JournalUnavailable, match="is the server running"):
        await open_journal(stoppable_url)
    assert asyncio.all_tasks() == before


async def test_closing_while_the_server_is_down_ends(stoppable, stoppable_url, open_journal):
    journal = await open_journal(stoppable_url)
    await append(journal, commit("r1"))
    stoppable.stop("immediate")
    await journal.close()


@pytest.fixture
async def proxied(server, url, open_journal):
    """(journal, proxy): a journal behind a network that can fail."""
    with Proxy(("127.0.0.1", server.port)) as proxy:
        through = server.url(url.partition("@/")[2].partition("?")[0], tcp=True)
        through = through.replace(f":{server.port}/", f":{proxy.port}/")
        journal = await open_journal(through, statement_seconds=1.0, writers=1)
        # The statement is prepared with its first use, so from now on an append is one request and one answer.
        await append(journal, commit("first", notices=(("parent", b"first"),)))
        yield journal, proxy
        proxy.heal()
        await journal.close()


async def test_an_answer_that_is_lost_is_an_unknown_outcome_and_the_commit_is_there(proxied):
    journal, proxy = proxied
    proxy.cut_after(0)
    with pytest.raises(OutcomeUnknown, match="read back the commit id"):
        await journal.append([commit("r1", notices=(("parent", b"once"),))])

    async def is_there() -> bool:  # the server goes on with what it was asked
        return await journal.find_commit("r1") is not None

    await until(is_there, "the commit")
    assert await append(journal, commit("r1", notices=(("parent", b"once"),))) == Accepted(1)
    assert [notice.body for notice in await journal.read_notices()] == [b"first", b"once"]


async def test_a_request_that_is_lost_is_an_unknown_outcome_and_can_be_appended_again(proxied):
    journal, proxy = proxied
    proxy.cut_at_request()
    with pytest.raises(OutcomeUnknown):
        await journal.append([commit("r1", notices=(("parent", b"once"),))])
    assert await journal.find_commit("r1") is None
    assert await append(journal, commit("r1")) == Accepted(1)


async def test_a_network_that_swallows_everything_does_not_hold_anybody_for_ever(proxied, monkeypatch):
    monkeypatch.setattr(connections, "_GRACE_SECONDS", 0.1)
    monkeypatch.setattr(connections, "_CLOSE_SECONDS", 0.1)
    journal, proxy = proxied
    impatient = await open_postgres(
        journal._options.url, require_durable=False, statement_seconds=0.1, connect_seconds=0.2, writers=1
    )
    await append(impatient, commit("r0"))
    proxy.go_silent()
    with pytest.raises(OutcomeUnknown):
        await impatient.append([commit("r1")])
    with pytest.raises(JournalUnavailable, match="did not answer in time"):
        await impatient.find_run("r0")
    await impatient.close()


async def test_the_number_of_connections_is_bounded(url, admin, open_journal):
    journal = await open_journal(url, readers=3, writers=2)
    await asyncio.gather(
        *(append(journal, commit(f"r{number}")) for number in range(50)),
        *(journal.find_run(f"r{number}") for number in range(50)),
    )
    assert 2 <= await admin.fetchval(CONNECTIONS) <= 5
    await journal.close()

    async def none() -> bool:
        return await admin.fetchval(CONNECTIONS) == 0

    await until(none, "the connections to end")
