"""No way out of the sandbox, and nothing that brings it down: an escape or a bomb costs its own condition, no more."""

import os
import socket
import textwrap
import time
from pathlib import Path

import pytest

from perdure.expressions.at_hand import Lost
from perdure.expressions.python_code import Job
from perdure.sandbox import Sandbox
from tests.sandbox.escapes import BOMBS, ESCAPES, NOT_BOOLS

TIMEOUT_MS = 200
LONGEST_SECONDS = 60.0
"""Of the clock, which goes on while a busy machine does other things; 2 if it has nothing else to do. What nobody stops takes
for ever."""
LASTING = {"all of a range", "lists in lists", "an endless iterator", "a square of squares", "JSON of lists in lists"}
"""They go on until they are stopped, or nearly as long."""
SOUND = Job("def evaluate(output, context):\n    return output == 1", b"[1, {}]")


@pytest.fixture(scope="module")
def sandbox():
    """One for all of them: what one attempt breaks, the next would notice."""
    sandbox = Sandbox()
    yield sandbox
    sandbox.shut()


@pytest.fixture(scope="module")
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def attempt(sandbox: Sandbox, body: str) -> tuple[bool | Lost, float]:
    code = "def evaluate(output, context):\n" + textwrap.indent(body, "    ")
    begin = time.monotonic()
    answer = sandbox.decide(Job(code, b"[null, {}]", TIMEOUT_MS))
    return answer, time.monotonic() - begin


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def test_there_are_enough_of_them():
    assert len(ESCAPES) + len(BOMBS) + len(NOT_BOOLS) >= 120
    assert len(ESCAPES) >= 60


@pytest.mark.parametrize("name", ESCAPES)
def test_an_escape_gets_nowhere(sandbox, listener, tmp_path, name):
    canary, port = tmp_path / "canary", listener.getsockname()[1]
    body = ESCAPES[name].replace("CANARY", str(canary)).replace("PORT", str(port))
    answer, seconds = attempt(sandbox, body)
    assert answer is not True
    assert not canary.exists()
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert seconds < LONGEST_SECONDS
    assert sandbox.decide(SOUND) is True


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LASTING else name for name in BOMBS]
)
def test_a_bomb_costs_its_own_condition_and_nothing_else(sandbox, name):
    before = resident_mb()
    answer, seconds = attempt(sandbox, BOMBS[name])
    assert type(answer) is bool or answer.message
    assert seconds < LONGEST_SECONDS
    assert resident_mb() - before < 50
    assert sandbox.decide(SOUND) is True


@pytest.mark.parametrize("name", NOT_BOOLS)
def test_what_is_no_bool_is_an_error_and_never_true_or_false(sandbox, name):
    answer, _ = attempt(sandbox, NOT_BOOLS[name])
    assert isinstance(answer, Lost)
    assert "not True or False" in answer.message


def test_what_the_kernel_would_refuse_if_the_interpreter_did_not(sandbox):
    """The second wall: no files, no processes, no large files, bounded memory and processor time."""
    pid = next(iter(sandbox.processes()))
    limits = {
        line[:25].strip(): line[26:46].strip() for line in Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    }
    assert limits["Max open files"] == "3"
    assert limits["Max processes"] == "0"
    assert limits["Max file size"] == "0"
    assert limits["Max core file size"] == "0"
    assert int(limits["Max address space"]) < 2**31
    assert int(limits["Max cpu time"]) < 60
    assert Path(f"/proc/{pid}/environ").read_bytes() == b""
