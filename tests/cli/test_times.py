"""Times as people see them: UTC in every command, said where it matters, and what JSON has beside them."""

import datetime
import re
import time

import pytest

from perdure.cli.terminal.output import hour, moment
from tests.cli.helpers import human, task, wait_until, workflow

NOON = 1_794_744_000.0  # 2026-11-15 12:00:00 UTC
FULL = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?(?: UTC)?")


@pytest.fixture
def elsewhere(monkeypatch):
    """A clock that shows something else than UTC, by half an hour too."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


def read(text):
    found = datetime.datetime.fromisoformat(text.removesuffix(" UTC"))
    return found.replace(tzinfo=datetime.UTC).timestamp()


def test_a_time_is_utc_wherever_the_clock_stands(elsewhere):
    assert moment(NOON) == "2026-11-15 12:00:00 UTC"
    assert hour(NOON) == "12:00:00"


@pytest.mark.slow
def test_lists_show_explain_logs_and_events_say_the_same_times(elsewhere, shell, tmp_path):
    nodes = (
        task("say", "say", args={"text": "hello"}),
        {"id": "later", "type": "wait", "dependencies": ["say"], "config": {"seconds": 3600}},
        human("ask"),
    )
    told = shell.start("run", workflow(tmp_path, "w", *nodes), "--run-id", "r1").wait_for("until ")
    assert re.match(r"Times are UTC; here it is \d\d:\d\d \(IST\)\.\n", told.text)
    wait_until(lambda: shell.json("runs", "logs", "r1")["items"], "what was said")
    view = shell.json("runs", "show", "r1")
    asked = ["runs list", "runs show r1", "runs show r1 --node say", "runs explain r1 later", "runs logs r1", "runs events r1", "runs path r1", "approvals list", "approvals show r1"]  # fmt: skip
    for command in asked:
        out = shell.run(*command.split()).stdout
        times = FULL.findall(out)
        assert times or command == "runs show r1 --node say", command
        for text in times:
            assert text.endswith(" UTC"), f"{command}: {text}"
            assert -2 < read(text) - view["created_at"] < 3700, f"{command}: {text}"
    assert isinstance(view["created_at"], float)


def test_whose_clock_shows_utc_is_told_nothing(shell, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        told = shell.run("run", workflow(tmp_path, "w", task("a", "echo"))).stderr
    time.tzset()
    assert "Times are UTC" not in told


def test_what_is_printed_can_be_asked_for(elsewhere, shell, tmp_path):
    shell.run("run", workflow(tmp_path, "w", task("a", "echo")), "--run-id", "r1")
    (created,) = FULL.findall(shell.run("runs", "list").stdout)
    assert [one["run_id"] for one in shell.json("runs", "list", "--since", created)["items"]] == ["r1"]
    assert shell.json("runs", "list", "--until", created)["items"] == []
