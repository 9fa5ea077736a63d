"""Sources: killed between any two calls, each gives every item once and in order."""

import os
import sqlite3
import threading

import pytest

from perdure.clock import SystemClock
from perdure.model.trigger_sources import Folder, Table
from perdure.sources import Item, Polled, Source, SourceFailed, SourceRefused
from perdure.sources.local_folder import FolderSource
from perdure.sources.sqlite_table import SqliteTableSource
from perdure.testing.source_checks import SourceBroken, check_source
from tests.attack.marks import attack


class Time(SystemClock):
    """A clock that a test moves."""

    def __init__(self):
        super().__init__()
        self.at = 0.0

    def monotonic(self):
        return self.at

    def move(self, seconds=10.0):
        self.at += seconds


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "in"
    path.mkdir()
    return path


def put(folder, name, content="x"):
    (folder / name).write_text(content)


def open_folder(folder, time, **spec):
    return FolderSource(Folder(str(folder), from_=spec.pop("from_", "start"), **spec), [str(folder.parent)], time)


# -- folders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identity", ["path", "version", "content"])
@pytest.mark.parametrize("order", ["", "name"])
async def test_a_folder_loses_and_repeats_nothing(folder, time, identity, order):
    for number in range(7):
        put(folder, f"{number}.csv", f"content {number}")
    put(folder, "other.txt")
    items = await check_source(
        lambda: open_folder(folder, time, identity=identity, order=order, match="*.csv"), between=time.move
    )
    assert [item.data["path"] for item in items] == [str(folder / f"{number}.csv") for number in range(7)]
    assert items[0].data["size"] == 9
    assert items[0].data["url"].startswith("file:///")
    if identity == "path":
        assert items[3].id == "3.csv"


@pytest.mark.parametrize("order", ["", "name"])
async def test_many_files_come_in_several_polls(folder, time, order):
    for number in range(250):
        put(folder, f"{number:03}")
    source = open_folder(folder, time, settle=0, order=order)
    first = source.poll(None)
    assert (len(first.items), first.more) == (100, True)
    third = source.poll(source.poll(first.cursor).cursor)
    assert (len(third.items), third.more) == (50, False)


async def test_what_is_there_at_first_is_no_item_unless_it_is_asked_for(folder, time):
    put(folder, "old")
    for order in ("", "name"):
        source = open_folder(folder, time, from_="end", settle=0, order=order)
        polled = source.poll(None)
        assert polled.items == ()
        put(folder, f"zew{order}")
        assert [item.data["path"] for item in source.poll(polled.cursor).items] == [str(folder / f"zew{order}")]


def test_a_file_that_is_still_written_is_not_given(folder, time):
    source = open_folder(folder, time, settle=10)
    put(folder, "a", "half")
    cursor = source.poll(None).cursor
    time.move(9)
    put(folder, "a", "half and more")
    for _ in range(2):
        polled = source.poll(cursor)
        assert polled.items == ()
        time.move(9)
    assert [item.data["size"] for item in source.poll(cursor).items] == [13]


def test_in_order_of_names_one_that_is_written_holds_back_those_after_it(folder, time):
    source = open_folder(folder, time, settle=10, order="name")
    put(folder, "b")
    cursor = source.poll(None).cursor
    time.move(10)
    put(folder, "a")
    assert source.poll(cursor).items == ()
    time.move(10)
    assert [item.data["path"][-1] for item in source.poll(cursor).items] == ["a", "b"]


@pytest.mark.parametrize(("identity", "again"), [("path", 0), ("version", 1), ("content", 1)])
def test_what_a_change_of_a_file_means_is_for_its_identity_to_say(folder, time, identity, again):
    source = open_folder(folder, time, settle=0, identity=identity)
    put(folder, "a", "one")
    first = source.poll(None)
    put(folder, "a", "another")
    second = source.poll(first.cursor)
    assert len(second.items) == again
    os.utime(folder / "a", ns=(5, 5))
    third = source.poll(second.cursor)
    if identity == "content":
        assert [item.id for item in third.items] == [item.id for item in second.items]


def test_the_same_content_under_another_name_is_the_same_item(folder, time):
    source = open_folder(folder, time, settle=0, identity="content")
    put(folder, "a", "same")
    put(folder, "b", "same")
    first, second = source.poll(None).items
    assert first.id == second.id
    assert first.data["path"] != second.data["path"]


def test_files_that_are_gone_leave_the_cursor(folder, time):
    source = open_folder(folder, time, settle=0)
    put(folder, "a")
    cursor = source.poll(None).cursor
    (folder / "a").unlink()
    assert source.poll(cursor).cursor == '{"seen":{}}'


def test_links_lead_nowhere(folder, time, tmp_path):
    secret = tmp_path.parent / "secret-of-another"
    secret.mkdir(exist_ok=True)
    put(secret, "key")
    (folder / "link").symlink_to(secret / "key")
    (folder / "pipe-dir").mkdir()
    os.mkfifo(folder / "pipe")
    for identity in ("version", "content"):
        assert open_folder(folder, time, settle=0, identity=identity).poll(None).items == ()
    (folder / "away").symlink_to(secret)
    with pytest.raises(SourceRefused, match="folder_roots"):
        FolderSource(Folder(str(folder / "away")), [str(folder)], time)


@pytest.mark.parametrize("url", ["/etc", "..", "file:///etc/", "s3://in/", "file://host/in", "{root}/../.."])
def test_a_folder_outside_of_the_roots_is_refused(folder, time, url):
    with pytest.raises(SourceRefused):
        FolderSource(Folder(url.replace("{root}", str(folder))), [str(folder), ""], time)


def test_what_is_outside_of_the_roots_is_named_as_it_was_written(folder, time):
    said = r"' is under none of the folder_roots; add one of its parents to this setting \(PERDURE_FOLDER_ROOTS\)"
    with pytest.raises(SourceRefused, match=f"^'../away{said}"):
        FolderSource(Folder("../away"), [str(folder)], time)
    with pytest.raises(SourceRefused, match=f"^'/away/a%20b.db{said}"):
        SqliteTableSource(Table("", "orders", ("id",)), "sqlite:////away/a%20b.db", [str(folder)], time)


def test_without_roots_no_folder_is_read(folder, time):
    for roots in ([], [""]):
        with pytest.raises(SourceRefused):
            FolderSource(Folder(str(folder)), roots, time)


def test_a_folder_that_is_gone_fails_and_is_read_again(folder, time):
    source = open_folder(folder, time, settle=0)
    put(folder, "a")
    cursor = source.poll(None).cursor
    folder.rename(folder.parent / "elsewhere")
    with pytest.raises(SourceFailed):
        source.poll(cursor)
    (folder.parent / "elsewhere").rename(folder)
    assert source.poll(cursor).items == ()


@pytest.mark.parametrize("cursor", ["", "5", "{", '{"seen": [1]}', "[]"])
def test_a_cursor_of_something_else_is_refused(folder, time, cursor):
    with pytest.raises(SourceRefused):
        open_folder(folder, time).poll(cursor)


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path):
    connection = sqlite3.connect(tmp_path / "crm.db", isolation_level=None)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT NOT NULL, body BLOB)")
    yield connection
    connection.close()


@pytest.fixture
def table(tmp_path, time):
    made = []

    def make(**spec):
        spec = {"table": "orders", "cursor": ("at", "id"), "from_": "start", **spec}
        source = SqliteTableSource(Table("", **spec), f"sqlite:///{tmp_path}/crm.db", [str(tmp_path)], time)
        made.append(source)
        return source

    yield make
    for one in made:
        one.close()


def add(database, *rows):
    database.executemany("INSERT INTO orders (id, at) VALUES (?, ?)", rows)


async def test_a_table_loses_and_repeats_nothing(database, table, time):
    add(database, *((number, f"2026-01-0{number % 3 + 1}") for number in range(1, 10)))
    items = await check_source(table, between=time.move)
    assert [item.data["id"] for item in items] == [3, 6, 9, 1, 4, 7, 2, 5, 8]
    assert items[0] == Item('["2026-01-01",3]', {"id": 3, "at": "2026-01-01", "body": None})


def test_rows_of_equal_times_are_all_given_over_the_edge_of_a_page(database, table):
    add(database, *((number, "same") for number in range(1, 251)))
    source, cursor, found = table(), None, []
    more = True
    while more:
        polled = source.poll(cursor)
        found += [item.data["id"] for item in polled.items]
        cursor, more = polled.cursor, polled.more
    assert found == list(range(1, 251))


def test_rows_that_were_there_at_first_are_no_items(database, table):
    assert table(from_="end").poll(None).items == ()
    add(database, (1, "a"))
    cursor = table(from_="end").poll(None).cursor
    add(database, (2, "b"))
    assert [item.data["id"] for item in table(from_="end").poll(cursor).items] == [2]


def test_of_an_empty_table_the_first_row_is_an_item(database, table):
    cursor = table(from_="end").poll(None).cursor
    add(database, (1, "a"))
    assert [item.data["id"] for item in table(from_="end").poll(cursor).items] == [1]


def test_a_row_that_comes_late_is_given_when_it_comes_within_the_time_to_settle(database, table, time):
    source = table(settle=5)
    add(database, (2, "b"))
    cursor = source.poll(None).cursor
    time.move(4)
    add(database, (1, "a"))  # made before, written after
    assert source.poll(cursor).items == ()
    time.move(1)
    assert [item.data["id"] for item in source.poll(cursor).items] == [1, 2]


def test_rows_that_keep_coming_do_not_keep_the_first_from_settling(database, table, time):
    source, cursor = table(settle=5), None
    found = []
    for number in range(20):
        add(database, (number, f"{number:03}"))
        polled = source.poll(cursor)
        found += [item.data["id"] for item in polled.items]
        cursor = polled.cursor
        time.move(1)
    assert found == list(range(len(found)))
    assert len(found) > 10


def test_a_row_without_a_place_in_the_order_is_said_and_not_passed_over(database, table):
    database.execute("CREATE TABLE loose (id INTEGER, at TEXT)")
    database.execute("INSERT INTO loose VALUES (1, NULL), (2, 'a')")
    with pytest.raises(SourceFailed, match="NOT NULL"):
        table(table="loose").poll(None)


def test_bytes_survive_in_cursors_and_items(database, table):
    database.execute("CREATE TABLE keys (k BLOB PRIMARY KEY NOT NULL)")
    database.executemany("INSERT INTO keys VALUES (?)", [(b"\x00",), (b"\xff",)])
    source = table(table="keys", cursor=("k",))
    polled = source.poll(None)
    assert [item.data["k"] for item in polled.items] == [{"$bytes": "AA=="}, {"$bytes": "/w=="}]
    database.execute("INSERT INTO keys VALUES (?)", (b"\xff\x01",))
    assert len(source.poll(polled.cursor).items) == 1


def test_names_are_names_and_the_database_is_only_read(database, table):
    database.execute('CREATE TABLE "odd ""name" (id INTEGER NOT NULL)')
    database.execute('INSERT INTO "odd ""name" VALUES (1)')
    assert len(table(table='odd "name', cursor=("id",)).poll(None).items) == 1
    source = table()
    source.poll(None)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        source._connection.execute("DELETE FROM orders")


def test_a_table_that_cannot_be_read_fails_and_recovers(database, table):
    source = table(table="later", cursor=("id",))
    with pytest.raises(SourceFailed, match="no such table"):
        source.poll(None)
    database.execute("CREATE TABLE later (id INTEGER NOT NULL)")
    assert source.poll(None).items == ()


@pytest.mark.parametrize(
    "url", ["postgresql://x/y", "sqlite://", "sqlite:////etc/passwd", "/x.db", "sqlite:///../../x.db"]
)
def test_a_database_that_may_not_be_read_is_refused(tmp_path, time, url):
    with pytest.raises(SourceRefused):
        SqliteTableSource(Table("", "t", ("id",)), url, [str(tmp_path)], time)


def test_what_sqlite_does_not_have_is_refused(tmp_path, time):
    for more in ({"reread": 5}, {"notify": "x"}):
        with pytest.raises(SourceRefused, match="PostgreSQL"):
            SqliteTableSource(Table("", "t", ("id",), **more), f"sqlite:///{tmp_path}/x.db", [str(tmp_path)], time)


@pytest.mark.parametrize("cursor", ["5", "{", "[1]", '[{"x": 1}, 2]', "null"])
def test_a_cursor_of_another_table_is_refused(database, table, cursor):
    add(database, (1, "a"))
    with pytest.raises(SourceRefused):
        table().poll(cursor)


# -- the check itself --------------------------------------------------------------------------------------------------


class Numbers(Source):
    """A source that is right, unless it is told to be wrong."""

    def __init__(self, wrong=""):
        self.wrong = wrong
        self.given = 0

    async def poll(self, cursor):
        at = int(cursor or 0)
        if self.wrong == "remembers":
            at = self.given = max(at, self.given)
        items = tuple(Item(str(number), {"n": number}) for number in range(at, min(at + 3, 10)))
        if self.wrong == "remembers":
            self.given = at + len(items)
        if self.wrong == "random ids":
            items = tuple(Item(f"{id(self)}-{item.id}", item.data) for item in items)
        if self.wrong == "forgets" and not hasattr(self, "asked") and at:
            items = items[1:]
            self.asked = True
            return Polled(items, str(at + 3))
        if self.wrong == "skips one":
            return Polled(items[:-1], str(at + len(items)), end=at > 10)
        if self.wrong == "stands still":
            return Polled(items, "0")
        if self.wrong == "not json":
            items = tuple(Item(item.id, object()) for item in items)
        if self.wrong == "no text":
            return Polled(items, at + len(items))  # type: ignore[arg-type]
        if self.wrong == "twice":
            items += items[-1:]
        return Polled(items, str(at + len(items)))


async def test_a_source_that_is_right_passes():
    assert [item.id for item in await check_source(Numbers)] == [str(number) for number in range(10)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("forgets", "lost"),
        ("random ids", "lost|again"),
        ("stands still", "for ever"),
        ("not json", "not JSON"),
        ("no text", "text"),
        ("twice", "twice"),
    ],
)
async def test_a_source_that_is_wrong_is_found(wrong, said):
    with pytest.raises(SourceBroken, match=said):
        await check_source(lambda: Numbers(wrong))


async def test_a_source_that_trusts_its_memory_over_the_cursor_is_found():
    """The answer got lost, and the same process asks again from the same cursor."""
    with pytest.raises(SourceBroken, match="lost"):
        await check_source(lambda: Numbers("remembers"))


async def test_a_source_without_end_is_given_up():
    class Endless(Source):
        def poll(self, cursor):
            at = int(cursor or 0)
            return Polled((Item(str(at), at),), str(at + 1))

    with pytest.raises(SourceBroken, match="no end"):
        await check_source(Endless, most=50)


# -- what one poll may bring -------------------------------------------------------------------------------------------


def make_table(tmp_path, *values, columns="id INTEGER PRIMARY KEY, v"):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE orders ({columns})")
        for value in values:
            connection.execute(f"INSERT INTO orders (v) VALUES ({value})")
    connection.close()
    return path


def open_rows(path, clock, cursor=("id",), **spec):
    table = Table("", "orders", cursor, from_="start", settle=0, **spec)
    return SqliteTableSource(table, f"sqlite:///{path}", [str(path.parent)], clock)


def read_to_the_end(source):
    found, cursor, more = [], None, True
    while more:
        polled = source.poll(cursor)
        assert polled.items
        found.append(polled.items)
        cursor, more = polled.cursor, polled.more
    return found


@pytest.mark.slow
@attack("S13", "rows that are more than fit into memory")
def test_a_page_of_rows_has_few_bytes_and_a_row_that_is_too_large_is_an_item_without_content(tmp_path, time):
    path = make_table(
        tmp_path, *["zeroblob(900000)"] * 5, "zeroblob(5000000)", "'fine'", "zeroblob(17000000)", "'last'"
    )
    pages = read_to_the_end(open_rows(path, time))
    assert [len(page) for page in pages] == [3, 4, 1, 1]
    items = [item for page in pages for item in page]
    assert [item.id for item in items] == [f"[{number}]" for number in range(1, 10)]
    assert [bool(item.error) for item in items] == [False] * 5 + [True, False, True, False]
    assert "bytes" in items[5].error


BAD = ["'a'||char(0)||'b'", "9e999", "'[1,2'"]


@attack("S27", "one row that cannot be kept")
def test_a_bad_row_is_an_item_with_its_reason_and_stops_no_source(tmp_path, time):
    path = make_table(tmp_path, "'good'", *BAD, "CAST(x'ff41' AS TEXT)", "'good'")
    ((*items,),) = read_to_the_end(open_rows(path, time))
    assert [item.error.partition(",")[0] for item in items] == [
        "",
        "it has a text with a NUL character",
        "it has a number that is infinite or none",
        "",
        "",
        "",
    ]
    assert items[4].data["v"] == {"$bytes": "/0E="}


@attack("S27", "values of the cursor that JSON cannot hold")
def test_any_value_of_the_cursor_is_found_again(tmp_path, time):
    columns = "v, id INTEGER PRIMARY KEY"
    path = make_table(
        tmp_path, "1", "9e999", "-9e999", "'a'||char(0)", "CAST(x'ff41' AS TEXT)", "x'ff'", columns=columns
    )
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO orders (v) SELECT printf('%.*c', 600, 'x')")
    connection.close()
    source = open_rows(path, time, cursor=("v", "id"))
    whole = source.poll(None)
    assert len({item.id for item in whole.items}) == 7
    assert max(len(item.id) for item in whole.items) <= 500
    cursors = []
    for number in range(7):  # each of them as the last that was read
        with sqlite3.connect(path) as connection:
            rows = connection.execute("SELECT id FROM orders ORDER BY v, id").fetchall()
            connection.execute("CREATE TABLE kept AS SELECT * FROM orders")
            connection.executemany("DELETE FROM orders WHERE id = ?", rows[number + 1 :])
        polled = open_rows(path, time, cursor=("v", "id")).poll(None)
        cursors.append(polled.cursor)
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM orders")
            connection.execute("INSERT INTO orders SELECT * FROM kept")
            connection.execute("DROP TABLE kept")
        connection.close()
    for number, cursor in enumerate(cursors):
        assert len(source.poll(cursor).items) == 6 - number


@attack("S16", "a view that computes without end")
def test_a_table_that_takes_for_ever_is_given_up_and_ends_when_it_is_closed(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        endless = "WITH RECURSIVE c(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM c) SELECT id FROM c"
        connection.execute(f"CREATE VIEW orders AS {endless}")
    connection.close()

    class Fast(Time):
        def monotonic(self):
            self.at += 1.0
            return self.at

    with pytest.raises(SourceFailed, match="longer than 20 s"):
        open_rows(path, Fast()).poll(None)
    source, ended = open_rows(path, Time()), threading.Event()

    def read():
        with pytest.raises(SourceFailed):
            source.poll(None)
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    while not source._reading.locked() and reader.is_alive():
        pass
    source.close()
    reader.join(30)
    assert ended.is_set()


@attack("X33", "a folder that is replaced by a link after it was opened")
def test_what_is_replaced_by_a_link_later_is_not_followed(folder, tmp_path, time):
    outside = tmp_path / "outside"
    outside.mkdir()
    put(outside, "payroll")
    put(folder, "a")
    source = FolderSource(Folder(str(folder), from_="start", settle=0), [str(folder)], time)
    assert len(source.poll(None).items) == 1
    folder.rename(tmp_path / "old")
    folder.symlink_to(outside)
    with pytest.raises(SourceRefused, match="link"):
        source.poll(None)
    inside = tmp_path / "old" / "in"
    inside.mkdir()
    path = make_table(inside, "1")
    table = SqliteTableSource(
        Table("", "orders", ("id",), from_="start", settle=0), f"sqlite:///{path}", [str(tmp_path / "old")], time
    )
    assert len(table.poll(None).items) == 1
    table.close()
    inside.rename(tmp_path / "moved")
    inside.symlink_to(tmp_path / "moved")
    with pytest.raises(SourceRefused, match=r"link|none of the folder_roots"):
        table.poll(None)
