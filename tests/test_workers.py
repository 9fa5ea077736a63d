"""Workers say less than xdist would have them say, and what they leave out is nothing that anybody must know."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import python_path

ROOT = Path(__file__).parent.parent

TESTS = """
import os, time
import pytest

@pytest.fixture
def bad_begin():
    raise ValueError("no begin")

@pytest.fixture
def bad_end():
    yield
    raise ValueError("no end")

@pytest.fixture
def long_begin():
    time.sleep(0.6)

@pytest.mark.parametrize("number", range(20))
def test_good(number): pass
def test_bad(): assert 1 == 2
def test_not_begun(bad_begin): pass
def test_not_ended(bad_end): pass
def test_long(long_begin): pass
def test_left_out(): pytest.skip("because")
@pytest.mark.xfail(reason="known", strict=True)
def test_known(): raise ValueError
@pytest.mark.xdist_group("two")
@pytest.mark.parametrize("number", range(2))
def test_together(number): assert "gw" in os.environ["PYTEST_XDIST_WORKER"]
"""


@pytest.mark.slow
@pytest.mark.parametrize("dist", ["loadgroup", "loadfile"])
def test_every_failure_of_any_part_of_a_test_is_told(tmp_path, dist):
    (tmp_path / "conftest.py").write_text("from tests.workers import *\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-n", "2", "--dist", dist, "-p", "no:cacheprovider"]
    command += ["--durations=3", "--durations-min=0.5", "--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT, env={"PYTHONPATH": python_path()}
    )
    found = sorted(re.findall(r"^(FAILED|ERROR|SKIPPED|XFAIL) .*?(?:::(\w+)|: (\w+)$)", done.stdout, re.MULTILINE))
    assert found == [
        ("ERROR", "test_not_begun", ""),
        ("ERROR", "test_not_ended", ""),
        ("FAILED", "test_bad", ""),
        ("SKIPPED", "", "because"),
        ("XFAIL", "test_known", ""),
    ], done.stdout + done.stderr
    assert "1 failed, 24 passed, 1 skipped, 1 xfailed, 2 errors" in done.stdout
    assert re.search(r"0\.\d\ds setup .*test_long", done.stdout)
