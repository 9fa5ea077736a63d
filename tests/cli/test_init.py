"""`perdure init`: a project that runs at once, whose tests pass, and that overwrites nothing."""

import json
import os
import subprocess
import sys

import jsonschema_rs
import pytest
import yaml

from perdure.cli.init import FILES, read_starter
from perdure.cli.schema import FILE as SCHEMA
from tests import forking
from tests.cli.helpers import ROOT


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "PYTEST"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}


def perdure(folder, *args, code=0):
    done = forking.run(list(args), cwd=folder, env=environment())
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_every_file_is_written_and_the_next_steps_are_said(shell, tmp_path):
    result = shell.run("init", "hello")
    assert {path.name for path in (tmp_path / "hello").iterdir()} == set(FILES)
    assert "+ hello/order.yaml" in result.stdout
    assert "cd hello" in result.stderr
    assert "perdure run order.yaml -i item=lamp -i quantity=2" in result.stderr
    assert shell.json("init", "other") == {"directory": "other", "files": list(FILES)}


def test_without_a_folder_it_is_the_current_one(shell, tmp_path):
    assert "cd " not in shell.run("init").stderr
    assert (tmp_path / "order.yaml").exists()


@pytest.mark.parametrize("name", ["README.md", ".gitignore", "perdure.schema.json"])
def test_a_repository_keeps_its_own_readme(shell, tmp_path, name):
    (tmp_path / name).write_text("mine")
    result = shell.run("init")
    assert {path.name for path in tmp_path.iterdir()} == set(FILES)
    assert (tmp_path / name).read_text() == "mine"
    assert f"+ {name}" not in result.stdout


def test_where_pytest_is_missing_the_next_steps_install_it(shell, monkeypatch):
    assert "install pytest" not in shell.run("init", "one").stderr
    monkeypatch.setattr("perdure.cli.init.find_spec", lambda name: None)
    assert "python -m pip install pytest\n  python -m pytest" in shell.run("init", "two").stderr


@pytest.mark.parametrize("name", ["order.yaml", "tasks.py", "test_order.py"])
def test_nothing_is_written_where_one_of_the_files_is_there(shell, tmp_path, name):
    (tmp_path / name).write_text("mine")
    assert f". has {name} already" in shell.error("init")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_file_in_the_way_of_the_folder_is_a_usage_error(shell, tmp_path):
    (tmp_path / "taken").write_text("")
    assert "taken" in shell.error("init", "taken", code=2)


def test_the_starter_is_valid_without_warnings(shell):
    shell.run("init")
    assert shell.json("validate", "order.yaml") | {"hash": ""} == {"valid": True, "hash": "", "problems": []}


def test_the_workflow_names_the_schema_beside_it_and_fits_it(shell, tmp_path):
    shell.run("init")
    first = (tmp_path / "order.yaml").read_text().splitlines()[0]
    schema = (tmp_path / first.removeprefix("# yaml-language-server: $schema=")).read_text()
    jsonschema_rs.validate(json.loads(schema), yaml.safe_load((tmp_path / "order.yaml").read_text()))
    assert shell.run("schema").stdout == schema


def test_the_schema_is_written_to_a_file_and_the_line_for_it_is_said(shell, tmp_path):
    said = shell.run("schema", "-o", "mine.json").stderr
    assert "# yaml-language-server: $schema=mine.json" in said
    assert (tmp_path / "mine.json").read_text() == shell.run("schema").stdout


@pytest.mark.slow
def test_it_runs_at_once_and_its_tests_pass(tmp_path):
    perdure(tmp_path, "init", "hello")
    folder = tmp_path / "hello"
    cheap = perdure(folder, "run", "order.yaml", "-i", "item=lamp", "-i", "quantity=2")
    assert '"total": 80' in cheap.stdout
    assert "attempt 1 failed" in cheap.stderr
    dear = perdure(folder, "run", "order.yaml", "-i", "item=desk", "-i", "quantity=1", "--no-wait", code=3)
    assert "perdure approvals approve" in dear.stderr
    wrong = perdure(folder, "run", "order.yaml", "-i", "item=boat", "-i", "quantity=1", code=1)
    assert "we do not sell boat" in wrong.stderr
    tests = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "asyncio_default_fixture_loop_scope=function",
        ],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert tests.returncode == 0, tests.stdout
    assert "4 passed" in tests.stdout


@pytest.mark.slow
def test_the_commands_of_its_readme_are_commands_there_are(tmp_path):
    perdure(tmp_path, "init")
    shown = [
        line.split("#")[0].split() for line in read_starter("README.md").splitlines() if line.startswith("perdure ")
    ]
    assert len(shown) >= 6
    codes = {"item=boat": 1, "item=desk": 3}
    for words in shown:
        run = words[:2] == ["perdure", "run"]
        extra = ["--no-wait"] if run else ["--seeds", "2"] if words[1] == "simulate" else []
        code = next((code for word, code in codes.items() if word in words), 0) if run else 0
        done = perdure(tmp_path, *words[1:], *extra, code=code)
        if words[1] == "simulate":
            assert "failed" not in done.stdout


def test_the_starter_is_part_of_the_package():
    assert all(read_starter(name) for name in FILES)
    assert {path.name for path in (ROOT / "src/perdure/cli/starter").iterdir()} == {
        f"{name.removeprefix('.')}.txt" for name in FILES if name != SCHEMA
    }
