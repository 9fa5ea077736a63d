"""`perdure doctor` names what is wrong with a database, and nothing else. Damage is planted in the file directly."""

import shutil
import sqlite3
from typing import Any, cast

import pytest

from perdure import doctor
from perdure.invariants import check
from perdure.invariants.runs import AUDIT
from perdure.journals.sqlite import SqliteJournal
from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.snapshot import SNAPSHOT_VERSION
from perdure.kernel.values import Wait
from perdure.runtime.coordinator.library import Library
from tests.cli.helpers import Shell, human, task, workflow
from tests.kernel.driver import Run


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Runs in every interesting state: completed, failed, waiting for a person, parked, with timers. Made once."""
    folder = tmp_path_factory.mktemp("template")
    shell = Shell(folder)

    def run(run_id, *nodes, code):
        file = workflow(folder, run_id, *nodes)
        shell.run("run", file, "--run-id", run_id, "--no-wait", "--db", folder / "perdure.db", code=code)

    run("good", task("a", "echo"), task("b", "echo", "a"), code=0)
    run("bad", task("a", "boom"), code=1)
    run("asks", human("review"), code=3)
    run("parks", task("a", "boom", on_failure="park"), code=3)
    run("timed", human("review", timeout_seconds=3600), code=3)
    run("asked", human("review"), code=3)
    shell.run("approvals", "approve", "asked", "--by", "ann", "--db", folder / "perdure.db")
    return folder / "perdure.db"


@pytest.fixture
def database(shell, tmp_path, template):
    (tmp_path / ".perdure").mkdir()
    return shutil.copy(template, tmp_path / ".perdure" / "perdure.db")


def damage(database, *statements):
    connection = sqlite3.connect(database)
    for statement in statements:
        assert connection.execute(statement).rowcount, statement
    connection.commit()
    connection.close()


KEY = "(SELECT run_key FROM runs WHERE run_id = '{}')"


@pytest.mark.slow
def test_a_sound_database_is_all_well(shell, database):
    report = shell.json("doctor")
    assert report == {
        "ok": True, "runs": 6, "events": report["events"], "findings": [], "quarantined": [], "skipped": [],
    }  # fmt: skip
    assert "all is well" in shell.run("doctor").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "run_id", "invariant", "message"),
    [
        ("UPDATE runs SET state = 'failed' WHERE run_id = 'good'", "good", "J5", "row says state 'failed'"),
        ("UPDATE runs SET counter = 7 WHERE run_id = 'asks'", "asks", "J5", "row says counter 7, its journal 1"),
        ("UPDATE runs SET generation = 2 WHERE run_id = 'bad'", "bad", "J5", "row says generation 2"),
        ("UPDATE runs SET ended_at = NULL WHERE run_id = 'good'", "good", "J5", "row says ended_at None"),
        ("UPDATE runs SET seq = seq + 1 WHERE run_id = 'good'", "good", "J2", "its journal ends with"),
        (f"DELETE FROM events WHERE seq = 3 AND run_key = {KEY.format('good')}", "good", "J2", "4 stands where 3"),
        (
            f"DELETE FROM events WHERE run_key = {KEY.format('good')} AND type = 'run.completed'",
            "good",
            "J2",
            "its row is at event",
        ),
        (
            f"UPDATE events SET body = 'x' WHERE seq = 2 AND run_key = {KEY.format('bad')}",
            "bad",
            "J6",
            "event 2 cannot",
        ),
        (f"UPDATE events SET type = 'x' WHERE seq = 2 AND run_key = {KEY.format('bad')}", "bad", "J5", "has type 'x'"),
        ("UPDATE approvals SET state = 'decided' WHERE run_id = 'asks'", "asks", "J5", "row says state 'decided'"),
        ("UPDATE approvals SET decided_at = NULL WHERE run_id = 'asked'", "asked", "J5", "says that nobody decided it"),
        ("DELETE FROM approvals WHERE run_id = 'asks'", "asks", "J5", "approval asks:review:1 has no row"),
        ("UPDATE dead_letters SET state = 'resolved' WHERE run_id = 'parks'", "parks", "J5", "has no pending row"),
        (f"DELETE FROM timers WHERE run_key = {KEY.format('timed')}", "timed", "J5", "has no row"),
        (f"UPDATE timers SET due_at = 1 WHERE run_key = {KEY.format('timed')}", "timed", "J5", "its row says 1.000"),
        (
            f"INSERT INTO timers SELECT {KEY.format('asks')}, 'ghost', 1e12, partition FROM runs WHERE run_id = 'asks'",
            "asks",
            "J5",
            "timer ghost has a row but is not set",
        ),
        (
            f"INSERT INTO snapshots SELECT {KEY.format('good')}, 2, {SNAPSHOT_VERSION}, X'00'",
            "good",
            "J5",
            "its snapshot of event 2 differs",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_planted_damage_is_found_and_named(shell, database, statement, run_id, invariant, message):
    damage(
        database, statement.replace("'x' WHERE seq = 2", "X'78' WHERE seq = 2") if "body" in statement else statement
    )
    report = shell.json("doctor", code=1)
    assert report["ok"] is False
    assert {finding["run_id"] for finding in report["findings"]} == {run_id}
    found = [finding for finding in report["findings"] if finding["invariant"] == invariant]
    assert any(message in finding["message"] for finding in found), report["findings"]
    text = shell.run("doctor", code=1).stdout
    assert f"run {run_id}\n" in text
    assert "1 run is not well" in text


def test_events_that_contradict_each_other_are_found_by_the_invariants(shell, database):
    """Outcomes of attempts that never began: each row is well formed, the story is not."""
    damage(
        database,
        "UPDATE events SET body = CAST(replace(CAST(body AS TEXT), '\"attempt\":1', '\"attempt\":9') AS BLOB) "
        f"WHERE type = 'node.completed' AND run_key = {KEY.format('good')}",
    )
    report = shell.json("doctor", code=1)
    assert {finding["run_id"] for finding in report["findings"]} == {"good"}


def test_what_may_follow_the_end_of_a_run_is_the_same_for_doctor_and_checker():
    """J4: audit facts, and what begins a new generation or a rollback."""
    allowed = {kind.__struct_config__.tag for kind in (*AUDIT, e.RunRetried, e.RunCompensating)}
    assert allowed == doctor._AFTER_THE_END


def test_the_end_of_a_child_after_the_end_of_its_parent_is_found():
    run = Run.of({"id": "call", "type": "workflow", "config": {"workflow": "w"}})
    run.suspend("call", Wait(kind="child"), workflow="w")
    name = run.get("call").child
    run.tell(c.EndChild, child=name, generation=1, state="completed", output={})
    assert run.status == "completed"
    late = e.ChildEnded(seq=run.state.seq + 1, at=run.now, node="call", child=name, generation=2, state="completed")
    said = f"event {late.seq} (child.ended) follows the end of the run"
    assert list(doctor._order(run.state, late)) == [said]
    assert "J4" in {violation.id for violation in check([*run.journal, late], run.state.library)}


def test_quarantined_runs_are_listed(shell, database):
    damage(database, "UPDATE runs SET quarantined = 'IntegrityError: impossible' WHERE run_id = 'asks'")
    report = shell.json("doctor", code=1)
    assert report["quarantined"] == [{"run_id": "asks", "reason": "IntegrityError: impossible"}]
    assert "run asks is quarantined: IntegrityError: impossible" in shell.run("doctor", code=1).stdout
    assert "quarantined" in shell.run("runs", "list").stdout


def test_a_file_that_is_no_database_is_named(shell, tmp_path):
    (tmp_path / "x.db").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    assert "x.db" in shell.error("doctor", "--db", "x.db")


@pytest.mark.slow
def test_it_may_run_while_runs_go_on(shell, tmp_path):
    gate = tmp_path / "gate"
    file = workflow(tmp_path, "long", task("a", "wait_until", args={"path": str(gate)}))
    process = shell.start("run", file, "--run-id", "r1").wait_for("queued")
    assert shell.json("doctor")["ok"]
    gate.touch()
    process.wait(0)


@pytest.mark.parametrize(
    ("statement", "run_id"),
    [
        ("UPDATE runs SET state = 'failed' WHERE run_id = 'good'", "good"),
        ("UPDATE runs SET counter = 7 WHERE run_id = 'asks'", "asks"),
        ("DELETE FROM timers", "timed"),
        ("DELETE FROM approvals WHERE run_id = 'asks'", "asks"),
        ("DELETE FROM dead_letters", "parks"),
        ("UPDATE runs SET quarantined = 'a bug of an earlier version' WHERE run_id = 'asks'", "asks"),
    ],
)
def test_what_was_derived_can_be_derived_anew(shell, database, statement, run_id):
    damage(database, statement)
    repaired = shell.json("doctor", "--repair")["repaired"]
    assert run_id in [*repaired["runs"], *repaired["released"]]
    assert repaired["left"] == {}
    assert shell.json("doctor")["ok"] is True


def test_the_timers_of_a_database_are_not_read_for_each_run_that_is_mended(shell, database, monkeypatch):
    from perdure.journals.sqlite.journal import SqliteJournal

    read, reads = SqliteJournal.list_due_timers, []

    async def counted(self, *arguments, **more):
        reads.append(arguments)
        return await read(self, *arguments, **more)

    monkeypatch.setattr(SqliteJournal, "list_due_timers", counted)
    damage(database, "UPDATE runs SET counter = 7")
    repaired = shell.json("doctor", "--repair")["repaired"]
    assert len(repaired["runs"]) > 3
    assert len(reads) <= 3  # looking, mending, looking again


def test_a_damaged_journal_is_never_touched(shell, database):
    damage(database, f"UPDATE events SET body = X'78' WHERE seq = 2 AND run_key = {KEY.format('good')}")
    report = shell.json("doctor", "--repair", code=1)
    assert "good" in report["repaired"]["left"]
    assert report["repaired"]["runs"] == []
    assert "run good was left as it is" in shell.run("doctor", "--repair", code=1).stdout


async def test_a_run_without_approvals_and_dead_letters_is_not_asked_for_them(database):
    """Most runs have none, and there may be a hundred thousand of them."""
    journal = await SqliteJournal.open(database)
    try:
        asked = []

        class Counted:
            def __getattr__(self, name):
                return getattr(journal, name)

            async def list_approvals(self, **where):
                asked.append(where.get("run_id"))
                return await journal.list_approvals(**where)

        report = await doctor.examine(cast(Any, Counted()), Library(journal, None))
        assert (report.runs, report.sound) == (6, True)
        assert asked[0] is None
        assert set(asked[1:]) == {"asks", "parks", "timed", "asked"}
    finally:
        await journal.close()
