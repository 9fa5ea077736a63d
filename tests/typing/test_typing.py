"""The decorators keep the types: mypy, once, over code it must accept and code it must refuse line by line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("typing")]  # one process runs mypy, for both

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GOOD = HERE / "good.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """(file, line) -> messages."""
    bad = tmp_path_factory.mktemp("typing") / "bad.py"
    bad.write_text((HERE / "bad.txt").read_text())
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty", str(GOOD), str(bad)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    messages: dict[tuple[str, int], list[str]] = {}
    for name, line, message in re.findall(r"^(.*?):(\d+): error: (.*)$", done.stdout, re.MULTILINE):
        messages.setdefault((Path(name).name, int(line)), []).append(message)
    return messages


def test_what_is_right_is_accepted(found):
    assert {place: told for place, told in found.items() if place[0] != "bad.py"} == {}


def test_what_is_wrong_is_refused_where_it_stands(found):
    lines = (HERE / "bad.txt").read_text().splitlines()
    expected = {number: line.split("# E: ")[1] for number, line in enumerate(lines, 1) if "# E: " in line}
    told = {line: messages for (name, line), messages in found.items() if name == "bad.py"}
    assert told.keys() == expected.keys()
    assert {line: told[line] for line, words in expected.items() if not any(words in one for one in told[line])} == {}
    assert len(expected) >= 15
