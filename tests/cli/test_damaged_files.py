"""Database files that were damaged anywhere: what looks at them says so and ends, without a traceback and without hanging."""

import asyncio
import os
import random
import shutil
import sqlite3

import pytest
from click.testing import CliRunner

from perdure.cli.app import app
from perdure.cli.frame.host import host
from perdure.errors import SettingsInvalid
from perdure.settings import Settings
from tests.attack.__main__ import GENERATED
from tests.attack.marks import attack
from tests.cli.helpers import Shell, human, task, workflow

PAGE = 4096
CASES = 86 if GENERATED in os.environ else 12
WRONG = ("Traceback", "This is a bug", "What was durable is intact")
KNOWN = (0, 1, 2, 3)
"""What `perdure` ends with when it knows what it says."""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    shell = Shell(folder)
    for run_id, nodes, code in (
        ("good", [task("a", "echo"), task("b", "echo", "a")], 0),
        ("bad", [task("a", "boom")], 1),
        ("asks", [human("review", timeout_seconds=3600)], 3),
        ("parks", [task("a", "boom", on_failure="park")], 3),
    ):
        file = workflow(folder, run_id, *nodes)
        shell.run("run", file, "--run-id", run_id, "--no-wait", "--db", folder / "perdure.db", code=code)
    return folder / "perdure.db"


def flip(chance, body):
    for _ in range(chance.randint(1, 40)):
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)


def empty_pages(chance, body):
    for page in chance.sample(range(len(body) // PAGE), 2):
        body[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)


def cut(chance, body):
    del body[chance.randrange(len(body)) :]


def swap_pages(chance, body):
    first, second = (slice(page * PAGE, (page + 1) * PAGE) for page in chance.sample(range(1, len(body) // PAGE), 2))
    body[first], body[second] = body[second], body[first]


def overwrite(chance, body):
    start = chance.randrange(len(body) - 200)
    body[start : start + 200] = chance.randbytes(200)


WAYS = (flip, empty_pages, cut, swap_pages, overwrite)


def damage_rows(chance, database):
    """One value of one row of some table is something else."""
    connection = sqlite3.connect(database)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    filled = [table for table in tables if connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]]
    table = chance.choice(filled)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    value = chance.choice([None, -1, 2**62, 1.5, "x", b"\xff\x00", "{", ""])
    try:
        connection.execute(f"UPDATE {table} SET {chance.choice(columns)} = ?", (value,))
        connection.commit()
    except (sqlite3.IntegrityError, sqlite3.OperationalError):
        pass  # the database itself refuses that one
    finally:
        connection.close()


@pytest.mark.slow
@attack("S27", "files of databases that were damaged anywhere, under doctor, its repair and lists")
def test_whatever_is_damaged_is_said_without_a_traceback(shell, tmp_path, template, record_property):
    database = tmp_path / "perdure.db"
    for number in range(CASES):
        chance = random.Random(number)
        for beside in tmp_path.glob("perdure.db*"):
            beside.unlink()
        shutil.copy(template, database)
        if number % 2:
            damage_rows(chance, database)
        else:
            body = bytearray(template.read_bytes())
            chance.choice(WAYS)(chance, body)
            database.write_bytes(body)
        for words in (["doctor"], ["doctor", "--repair"], ["runs", "list"], ["runs", "show", "good"]):
            code, said = look(words, database)
            assert code in KNOWN, (number, words, said)
            assert not any(wrong in said for wrong in WRONG), (number, words, said)
    record_property("attacks", CASES * 4)


def look(words, database):
    result = CliRunner().invoke(app, [*words, "--db", str(database)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"{words}: {result.exception!r}") from result.exception
    return result.exit_code, result.stdout + result.stderr


async def never(engine, stop):
    raise AssertionError("the file is read before anything begins")


@pytest.mark.slow
def test_a_broken_agents_file_is_told_to_those_who_need_a_model_and_to_no_one_else(shell, monkeypatch):
    file = shell.folder / "agents.toml"
    file.write_text("[models.fast]\nprovider = ")
    monkeypatch.setenv("PERDURE_AGENTS_FILE", str(file))
    monkeypatch.setattr("perdure.llms._models", None)
    shell.run("run", workflow(shell.folder, "plain", task("a", "echo")))
    assert len(shell.json("runs", "list")["items"]) == 1
    asks = workflow(shell.folder, "asks", {"id": "a", "type": "llm", "config": {"model": "fast", "prompt": "hi"}})
    assert "agents.toml is not valid TOML" in shell.run("validate", asks, code=2).stderr
    with pytest.raises(SettingsInvalid, match="not valid TOML"):  # what serves is told at once
        asyncio.run(host(Settings.load(), never))
