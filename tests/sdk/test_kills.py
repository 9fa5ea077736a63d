"""`kill -9` in the middle of a script: run again, it goes on, and no step that had returned is done twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.cli.app import app
from tests import forking
from tests.processes import python_path
from tests.sdk import script
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

SCRIPT = Path(script.__file__)
ROOT = SCRIPT.parents[2]


def start(folder: Path, what: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": python_path()}
    return forking.run([str(SCRIPT), str(folder), what], cwd=folder, env=environment, python=True)


def effects(folder: Path) -> list[str]:
    file = folder / "effects"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("what", ["order", "order_async"])
@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("before charge", ["reserve", "charge", "ship"]),
        ("before ship", ["reserve", "charge", "ship"]),
        ("after charge book", ["reserve", "charge", "charge", "ship"]),
    ],
)
def test_a_step_that_returned_is_not_done_again_after_a_kill(tmp_path, what, moment, expected):
    (tmp_path / "die").write_text(moment)
    killed = start(tmp_path, what)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = start(tmp_path, what)
    assert again.stdout == "completed ['RESERVE BOOK', 'CHARGE BOOK', 'SHIP BOOK']\n", again.stderr
    assert effects(tmp_path) == [f"{name} book" for name in expected]


def test_a_script_that_is_interrupted_stops_soon_and_goes_on_when_run_again(tmp_path):
    command = [sys.executable, str(SCRIPT), str(tmp_path), "patient"]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: effects(tmp_path) or process.poll() is not None, "the task to begin")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in errors
    assert process.returncode == -signal.SIGINT
    (tmp_path / "go").touch()
    assert start(tmp_path, "patient").stdout == "completed book\n"
    assert effects(tmp_path) == ["begin"]


def test_a_script_with_a_graph_goes_on_and_isolated_processes_find_its_functions(tmp_path):
    (tmp_path / "die").write_text("before ship")
    assert start(tmp_path, "shop").returncode == -signal.SIGKILL
    again = start(tmp_path, "shop")
    assert again.stdout == "completed RESERVE BOOK CHARGE BOOK SHIP BOOK tests.sdk.script book\n", again.stderr
    assert effects(tmp_path) == ["reserve book", "charge book", "ship book"]
    assert start(tmp_path, "shop").stdout == again.stdout
    assert len(effects(tmp_path)) == 3


def test_what_a_script_began_the_command_line_goes_on_with(tmp_path, monkeypatch):
    from click.testing import CliRunner

    (tmp_path / "die").write_text("before ship")
    assert start(tmp_path, "shop").returncode == -signal.SIGKILL
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    arguments = ["run", f"{SCRIPT}:shop", "--run-id", "order-1", "--db", str(tmp_path / "perdure.db")]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "RESERVE BOOK CHARGE BOOK SHIP BOOK" in result.stdout
    assert effects(tmp_path) == ["reserve book", "charge book", "ship book"]
