"""The guide to testing is true: its files are written, its tests run, its commands work."""

import re
import shlex
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from perdure.cli.app import app

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parent.parent.parent / "docs" / "guides" / "testing-workflows.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def python():
    names: dict = {"__name__": "guide"}
    for kind, text in BLOCKS:
        if kind == "python":
            exec(compile(textwrap.dedent(text), str(GUIDE), "exec"), names)
    return {name: value for name, value in names.items() if name.startswith("test_")}


TESTS = python()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind, text in BLOCKS:
        if kind == "yaml":
            name = re.match(r"# (\S+)\n", text)
            assert name is not None, f"a file needs its name in the first line: {text[:40]}"
            Path(name[1]).write_text(text)
    return tmp_path


def test_there_are_tests_in_every_python_block():
    blocks = [text for kind, text in BLOCKS if kind == "python"]
    assert len(blocks) >= 6
    assert [text for text in blocks if "def test_" not in text] == []


@pytest.mark.parametrize("name", TESTS)
def test_the_tests_of_the_guide_pass(folder, name):
    TESTS[name]()


def test_the_commands_of_the_guide_work(folder):
    commands = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
    assert commands
    for line in commands:
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, result.output
