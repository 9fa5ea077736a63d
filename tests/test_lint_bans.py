"""The linter keeps clocks, chance, ids and the environment in the two files that own them."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

BANNED = {
    "time": ["import time", "from time import monotonic", "import time as t"],
    "sched": ["import sched"],
    "threading.Timer": ["from threading import Timer", "import threading\nthreading.Timer(1, print)"],
    "asyncio.sleep": ["from asyncio import sleep", "import asyncio\n\n\nasync def f():\n    await asyncio.sleep(1)"],
    "asyncio.create_task": ["import asyncio\n\nt = asyncio.create_task(f())", "from asyncio import create_task"],
    "asyncio.ensure_future": ["import asyncio\n\nt = asyncio.ensure_future(f())"],
    "datetime.datetime.now": [
        "import datetime\n\ndatetime.datetime.now(datetime.UTC)",
        "from datetime import UTC, datetime\n\ndatetime.now(UTC)",
        "import datetime as dt\n\ndt.datetime.now(dt.UTC)",
    ],
    "datetime.datetime.utcnow": ["from datetime import datetime\n\ndatetime.utcnow()"],
    "datetime.datetime.today": ["from datetime import datetime\n\ndatetime.today()"],
    "datetime.date.today": ["from datetime import date\n\ndate.today()"],
    "random": ["import random", "from random import choice"],
    "secrets": ["import secrets", "from secrets import token_hex"],
    "uuid": ["import uuid", "from uuid import uuid4"],
    "os.urandom": ["import os\n\nos.urandom(8)", "from os import urandom"],
    "os.getrandom": ["import os\n\nos.getrandom(8)"],
    "os.environ": ["import os\n\nos.environ['HOME']", "from os import environ", "import os\n\nos.environ.get('HOME')"],
    "os.environb": ["import os\n\nos.environb[b'HOME']"],
    "os.getenv": ["import os\n\nos.getenv('HOME')", "from os import getenv"],
    "os.getenvb": ["import os\n\nos.getenvb(b'HOME')"],
    "os.putenv": ["import os\n\nos.putenv('A', 'b')"],
    "os.unsetenv": ["import os\n\nos.unsetenv('A')"],
    "pickle": ["import pickle", "from pickle import loads"],
    "marshal": ["import marshal"],
    "shelve": ["import shelve"],
}


def banned_in(path: str, code: str) -> dict[int, str]:
    """What the ban says about this code, were it at this path: messages by line."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format=json", "--no-cache", "--select=TID251"]
    command += [f"--stdin-filename={path}", "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {found["location"]["row"]: found["message"] for found in json.loads(done.stdout)}


@pytest.mark.parametrize(
    "path", ["src/perdure/x.py", "src/perdure/kernel/x.py", "src/perdure/runtime/x.py", "src/perdure/cli/x.py"]
)
def test_each_banned_thing_is_caught_in_each_spelling(path):
    lines: list[str] = []
    ends: dict[int, tuple[str, str]] = {}  # the last line of each snippet is the guilty one
    for number, (name, code) in enumerate((name, code) for name, codes in BANNED.items() for code in codes):
        lines += [f"def snippet{number}():", *("    " + line for line in code.splitlines())]
        ends[len(lines)] = (name, code)
    found = banned_in(path, "\n".join(lines) + "\n")
    missed = [code for line, (name, code) in ends.items() if f"`{name}` is banned" not in found.get(line, "")]
    assert missed == []


def test_every_ban_in_the_configuration_is_tried_here():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]) == set(BANNED)


@pytest.mark.parametrize("path", ["src/perdure/clock.py", "src/perdure/settings.py"])
def test_the_owners_may(path):
    assert banned_in(path, "import os\nimport time\n\nos.environ\n") == {}
    assert banned_in(path.replace(".py", "s.py"), "import os\nimport time\n\nos.environ\n") != {}


def test_tests_may_read_the_clock_but_not_sleep():
    assert banned_in("tests/kernel/x.py", "import random\nimport time\n\ntime.monotonic()\n") == {}
    assert len(banned_in("tests/kernel/x.py", "import time\n\ntime.sleep(1)\n")) == 1
    assert len(banned_in("tests/x.py", "from time import sleep\n")) == 1


def test_nobody_in_src_silences_the_ban():
    silenced = [
        str(path) for path in (ROOT / "src").rglob("*.py") if "noqa: TID251" in path.read_text(encoding="utf-8")
    ]
    assert silenced == []


def test_children_of_tests_import_what_is_tested():
    """`PYTHONPATH` is `python_path(…)`, or what it was: without `src`, a child imports the Perdure that is installed."""
    given = re.compile(
        r"""["']PYTHONPATH["'](?:\] =|:)(?! python_path\(| os\.environ\.get\(| os\.pathsep\.join\(\[.*environment\["PYTHONPATH"\])"""
    )
    found = [str(path) for path in (ROOT / "tests").rglob("*.py") if given.search(path.read_text(encoding="utf-8"))]
    assert found == []
