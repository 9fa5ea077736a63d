"""A table of PostgreSQL as a source, on a real server: rows that become visible late are not passed over."""

import asyncio

import asyncpg  # type: ignore[import-untyped]
import pytest

from perdure.clock import SystemClock
from perdure.model.trigger_sources import Table
from perdure.sources import Polled, SourceFailed, SourceRefused, postgres_table
from perdure.sources.postgres_table import PostgresTableSource
from perdure.testing.source_checks import check_source
from tests.attack.marks import attack
from tests.sources.test_sources import Time

FAILURES = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)
TABLE = "CREATE TABLE orders (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), body jsonb)"


@pytest.fixture
async def url(postgres_servers):
    server = postgres_servers.get()
    name = await server.create_database()
    return server.url(name)


@pytest.fixture
async def database(url):
    connection = await asyncpg.connect(url)
    await connection.execute(TABLE)
    yield connection
    await connection.close()


@pytest.fixture
async def make(url):
    made = []

    def make(clock=None, **spec):
        spec = {"table": "orders", "cursor": ("at", "id"), "from_": "start", **spec}
        source = PostgresTableSource(Table("", **spec), lambda: asyncpg.connect(url), clock or SystemClock(), FAILURES)
        made.append(source)
        return source

    yield make
    for one in made:
        await one.close()


async def add(database, *ids, at="2026-01-01"):
    for number in ids:
        await database.execute(
            "INSERT INTO orders (id, at, body) VALUES ($1, $2::text::timestamptz, $3)", number, at, f'{{"n": {number}}}'
        )


async def read_all(source, cursor=None, *, polls=400):
    """The ids that come until something has come; each poll waits a little, for the second that a mark waits."""
    found = []
    for _ in range(polls):
        polled = await source.poll(cursor)
        found += [item.data["id"] for item in polled.items]
        cursor = polled.cursor
        if found and not polled.more:
            break
        if not polled.items:
            await SystemClock().sleep(0.05)
    return found, cursor


async def test_a_table_loses_and_repeats_nothing(database, make):
    for number in range(1, 8):
        await add(database, number, at=f"2026-01-0{number % 3 + 1} 10:00:00.123456+02")
    time = Time()
    items = await check_source(lambda: make(time, settle=5), between=time.move)
    assert [item.data["id"] for item in items] == [3, 6, 1, 4, 7, 2, 5]
    assert items[0].data["body"] == {"n": 3}
    assert items[0].id == '["2026-01-01 08:00:00.123456+00","3"]'


async def test_rows_of_equal_times_are_all_given_over_the_edge_of_a_page(database, make):
    await add(database, *range(1, 231))
    source = make(settle=0)
    found: list = []
    cursor, more = None, True
    while more:
        polled = await source.poll(cursor)
        found += [item.data["id"] for item in polled.items]
        cursor, more = polled.cursor, polled.more
    assert found == list(range(1, 231))


async def test_a_row_of_a_transaction_that_ends_late_is_not_passed_over(url, database, make):
    """Its id is smaller than that of a row which is visible already: reading up to the highest would lose it."""
    late = await asyncpg.connect(url)
    transaction = late.transaction()
    await transaction.start()
    await add(late, 1)
    await add(database, 2)
    source = make()
    assert await read_all(source, polls=40) == ([], "")
    await transaction.commit()
    assert (await read_all(source))[0] == [1, 2]
    await late.close()


async def test_a_transaction_that_had_no_id_yet_is_waited_for(url, database, make):
    """G3: it had begun when the mark was seen, and writes only afterwards, with the time of its beginning."""
    late = await asyncpg.connect(url)
    transaction = late.transaction()
    await transaction.start()
    await late.fetchval("SELECT now()")
    await database.execute("INSERT INTO orders (id) VALUES (2)")
    source = make()
    assert await read_all(source, polls=40) == ([], "")
    await late.execute("INSERT INTO orders (id) VALUES (1)")
    assert await read_all(source, polls=10) == ([], "")
    await transaction.commit()
    assert (await read_all(source))[0] == [1, 2]
    await late.close()


async def test_a_table_that_asks_only_for_transactions_with_a_number_loses_a_row(url, database, make, monkeypatch):
    """The bug of G3, planted: the test above is about it, and nothing else closes the hole."""
    _by_numbers_alone(monkeypatch)
    late = await asyncpg.connect(url)
    transaction = late.transaction()
    await transaction.start()
    await late.fetchval("SELECT now()")
    await database.execute("INSERT INTO orders (id) VALUES (2)")
    source = make()
    given, cursor = await read_all(source)
    await late.execute("INSERT INTO orders (id) VALUES (1)")
    await transaction.commit()
    await late.close()
    assert given == [2]
    assert await read_all(source, cursor, polls=30) == ([], cursor)


def _by_numbers_alone(patch):
    said = postgres_table._OTHERS
    assert "min(xact_start)" in said
    patch.setattr(postgres_table, "_OTHERS", said.replace("min(xact_start)", "min(NULL::timestamptz)"))


async def test_a_transaction_of_another_database_holds_nothing_back(postgres_servers, database, make):
    server = postgres_servers.get()
    elsewhere = await asyncpg.connect(server.url(await server.create_database()))
    transaction = elsewhere.transaction()
    await transaction.start()
    await elsewhere.fetchval("SELECT now()")
    await add(database, 1)
    assert (await read_all(make()))[0] == [1]
    await transaction.rollback()
    await elsewhere.close()


async def test_rows_that_were_there_at_first_are_no_items(database, make):
    empty = (await make(from_="end").poll(None)).cursor
    await add(database, 1)
    assert (await read_all(make(from_="end", settle=0), empty))[0] == [1]
    there = (await make(from_="end").poll(None)).cursor
    await add(database, 2)
    assert (await read_all(make(from_="end", settle=0), there))[0] == [2]


async def test_who_may_not_see_others_is_told_what_to_do(url, database):
    await database.execute(
        "CREATE ROLE narrow LOGIN; GRANT SELECT ON orders TO narrow; INSERT INTO orders DEFAULT VALUES"
    )

    async def connect():
        connection = await asyncpg.connect(url)
        await connection.execute("SET SESSION AUTHORIZATION narrow")
        return connection

    try:
        spec: dict = {"table": "orders", "cursor": ("at", "id"), "from_": "start"}
        with pytest.raises(SourceRefused, match="pg_read_all_stats"):
            await PostgresTableSource(Table("", **spec), connect, SystemClock(), FAILURES).poll(None)
        source = PostgresTableSource(Table("", **spec, settle=0), connect, SystemClock(), FAILURES)
        assert len((await source.poll(None)).items) == 1
        await source.close()
    finally:
        await database.execute("DROP OWNED BY narrow; DROP ROLE narrow")


async def test_what_cannot_be_read_fails_and_what_cannot_be_ordered_is_said(database, make):
    with pytest.raises(SourceFailed, match="no table"):
        await make(table="nothing").poll(None)
    with pytest.raises(SourceFailed, match="column nope"):
        await make(cursor=("nope",)).poll(None)
    await database.execute("CREATE TABLE loose (id int); INSERT INTO loose VALUES (NULL)")
    with pytest.raises(SourceFailed, match="NOT NULL"):
        await make(table="loose", cursor=("id",)).poll(None)


async def test_a_source_only_reads_and_comes_back_after_its_connection_is_lost(database, make):
    await add(database, 1)
    source = make(settle=0)
    cursor = (await source.poll(None)).cursor
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await source._connection.execute("DELETE FROM orders")
    source._connection.terminate()
    await add(database, 2)
    with pytest.raises(SourceFailed):
        await source.poll(cursor)
    assert [item.data["id"] for item in (await source.poll(cursor)).items] == [2]


@pytest.mark.parametrize("cursor", ["5", "{", '["1"]', "[1, 2]"])
async def test_a_cursor_of_another_table_is_refused(database, make, cursor):
    with pytest.raises(SourceRefused):
        await make().poll(cursor)


async def test_a_row_that_comes_later_than_settle_is_found_behind_the_cursor(url, database, make):
    late = await asyncpg.connect(url)
    transaction = late.transaction()
    await transaction.start()
    await late.execute("INSERT INTO orders (id) VALUES (1)")
    await database.execute("INSERT INTO orders (id) VALUES (2)")
    source = make(settle=0, reread=3600)
    given, cursor = await read_all(source)
    assert given == [2]
    await transaction.commit()
    await late.close()
    lost = await source.poll(cursor)
    assert [item.data["id"] for item in lost.items] == [1]
    again = await source.poll(cursor)  # the answer was lost: what it gave counts for nothing, and ids are the same
    assert {item.id for item in again.items} >= {item.id for item in lost.items}
    assert await read_all(source, again.cursor, polls=5) == ([], again.cursor)
    await add(database, 3, at="2126-01-01")
    assert (await read_all(source, again.cursor))[0] == [3]


async def test_another_process_looks_back_as_far_and_the_ids_are_the_same(database, make):
    await database.execute("INSERT INTO orders (id) VALUES (1), (2)")
    first = make(settle=0, reread=3600)
    polled = await first.poll("")
    second = make(settle=0, reread=3600)
    repeated = await second.poll(polled.cursor)
    assert [item.id for item in repeated.items] == [item.id for item in polled.items]
    assert repeated.cursor != polled.cursor
    assert await second.poll(repeated.cursor) == Polled((), repeated.cursor)


async def test_what_was_there_when_reading_began_is_no_item_however_late_it_is_looked_for(database, make):
    await database.execute("INSERT INTO orders (id) VALUES (1), (2)")
    source = make(settle=0, reread=3600, from_="end")
    begun = (await source.poll(None)).cursor
    assert await read_all(source, begun, polls=5) == ([], begun)
    await database.execute("INSERT INTO orders (id, at) SELECT 3, max(at) + interval '1 s' FROM orders")
    given, cursor = await read_all(source, begun)
    assert given == [3]
    assert await read_all(make(settle=0, reread=3600), cursor, polls=5) == ([3], await _moved(make, cursor))


async def _moved(make, cursor):
    return (await make(settle=0, reread=3600).poll(cursor)).cursor


async def test_many_rows_are_looked_for_by_pages_and_too_many_are_refused(database, make, monkeypatch):
    await database.execute("INSERT INTO orders (id) SELECT n FROM generate_series(1, 250) n")
    source = make(settle=0, reread=3600)
    given, cursor = await read_all(source, "")
    assert given == list(range(1, 251))
    assert await source.poll(cursor) == Polled((), cursor)
    other = make(settle=0, reread=3600)
    repeated, there = await read_all(other, cursor)
    assert repeated == given
    monkeypatch.setattr(postgres_table, "MOST_REREAD", 100)
    with pytest.raises(SourceRefused, match="shorten"):
        await other.poll(there)


async def test_looking_back_in_time_needs_a_column_of_times(database, make):
    await add(database, 1)
    source = make(cursor=("id",), settle=0, reread=60)
    polled = await source.poll("")
    with pytest.raises(SourceRefused, match="bigint"):
        await source.poll(polled.cursor)


async def test_a_notification_wakes_who_waits_and_what_it_saw_is_asked_for_soon(database, make):
    source = make(notify="orders_changed")
    begun = await source.poll("")
    waiting = asyncio.create_task(source.wait(3600))
    await add(database, 1)
    await database.execute("NOTIFY orders_changed")
    await asyncio.wait_for(waiting, 30)
    assert await source.poll(begun.cursor) == begun  # it is a mark first
    await asyncio.wait_for(source.wait(3600), 30)
    assert [item.data["id"] for item in (await source.poll(begun.cursor)).items] == [1]


QUIET = {"xmin": "100", "xmax": "100", "now": 11.5, "oldest": None, "prepared": None}


class Scripted:
    """A connection to a server that says what a test wants: prepared transactions need a server that allows them."""

    def __init__(self, others):
        self.others = others
        self.looks = 0

    async def fetch(self, query, *arguments):
        if "pg_attribute" in query:
            return [{"name": "id", "type": "bigint", "filled": True}]
        return [('{"id": 5}', "5")]

    async def fetchrow(self, query, *arguments):
        if "pg_stat_activity" not in query:
            return ("5",)
        self.looks += 1
        return {**QUIET, "now": 10.0} if self.looks == 1 else self.others

    async def fetchval(self, query, *arguments):
        return True

    async def execute(self, query, *arguments):
        return ""

    def terminate(self):
        pass


@pytest.mark.parametrize(
    ("others", "given"),
    [
        ({}, True),
        (
            {"xmin": "99"},
            False,
        ),  # a transaction that had an id when the mark was seen: prepared, it is in no other list
        ({"now": 10.9}, False),
        ({"oldest": 9.0}, False),
        ({"oldest": 11.0}, False),
        ({"oldest": 11.1}, True),
        ({"prepared": 10.5}, False),
        ({"prepared": 9.5}, True),
    ],
)
async def test_a_mark_is_passed_when_nothing_can_come_before_it(others, given):
    connection = Scripted({**QUIET, **others})

    async def connect():
        return connection

    source = PostgresTableSource(Table("", "orders", ("id",), from_="start"), connect, SystemClock(), FAILURES)
    assert bool((await source.poll(None)).items) is given


@attack("S13", "rows of a table that are more than fit into memory, and one that nobody can read")
async def test_a_page_of_rows_has_few_bytes_and_what_cannot_be_kept_is_an_item_with_its_reason(database, make):
    insert = "INSERT INTO orders (id, at, body) VALUES ($1, '2026-01-01', to_jsonb(repeat('x', $2::int)))"
    for number in range(1, 12):
        await database.execute(insert, number, 1_000_000)
    await database.execute(insert, 12, 5_000_000)
    deep = "INSERT INTO orders (id, at, body) VALUES ($1, '2026-01-01', (repeat('[', $2::int) || repeat(']', $2::int))::jsonb)"
    await database.execute(deep, 13, 300)
    await database.execute(deep, 14, 1500)
    await database.execute(insert, 15, 5)
    source, cursor, pages, more = make(settle=0.0), None, [], True
    while more:
        polled = await source.poll(cursor)
        pages.append(polled.items)
        cursor, more = polled.cursor, polled.more
    assert [len(page) for page in pages] == [4, 4, 7]
    items = [item for page in pages for item in page]
    assert len({item.id for item in items}) == 15
    assert [number for number, item in enumerate(items, 1) if item.error] == [12, 13, 14]
    assert items[14].data["id"] == 15
