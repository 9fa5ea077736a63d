"""What `perdure run` shows and says while its run goes on and when it does not, on a database as on a server."""

import re
import sqlite3

import pytest

from tests.cli.helpers import human, task, workflow


def test_the_commands_that_are_suggested_work_on_the_same_database(shell, tmp_path):
    file = workflow(tmp_path, "bad", task("a", "boom", retry={"max_attempts": 1}))
    told = shell.error("run", file, "--run-id", "r1", "--db", "other.db")
    assert "look:   perdure runs show r1 --db other.db\n" in told
    assert "retry:  perdure runs retry r1 --db other.db\n" in told
    assert re.search(r"mend:   perdure runs retry r1 --db other.db --definition \S*bad.json\n", told)
    assert re.search(r"then:   perdure run \S*bad.json --run-id r1 --db other.db\n", told)
    shell.run("runs", "show", "r1", "--db", "other.db")


def test_so_do_those_for_people(shell, tmp_path):
    file = workflow(tmp_path, "asks", human("ask"))
    told = shell.run("run", file, "--run-id", "r1", "--no-wait", "--db", "other.db", code=3).stderr
    (command,) = re.findall(r"perdure (approvals approve \S+.*? --db other.db)", told)
    shell.run(*command.split())


@pytest.mark.slow
def test_a_run_that_is_quarantined_meanwhile_ends_the_command_with_the_reason(shell, tmp_path):
    file = workflow(tmp_path, "asks", human("ask"))
    process = shell.start("run", file, "--run-id", "r1")
    process.wait_for("waiting")
    with sqlite3.connect(tmp_path / ".perdure" / "perdure.db") as connection:
        connection.execute("UPDATE runs SET quarantined = 'IntegrityError: impossible' WHERE run_id = 'r1'")
    connection.close()
    process.wait(code=1)
    assert "run r1 is quarantined, so it does not go on: IntegrityError: impossible" in process.text
