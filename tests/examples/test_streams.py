"""The example of streams: a log of any size takes no more memory than a small one."""

import json
import os
import subprocess
import sys

import pytest

from tests.examples import helpers

LONG = os.environ.get("PERDURE_TEST_LONG") == "1"
LINES = 90_000_000 if LONG else 200_000
"""A gigabyte, or two megabytes."""
MOST = 400 * 1024 * 1024


@pytest.mark.slow
def test_a_log_is_read_in_constant_memory(tmp_path):
    folder = helpers.copy("streams", tmp_path)
    with (folder / "access.log").open("wb") as log:
        subprocess.run([sys.executable, "make_log.py", str(LINES)], cwd=folder, stdout=log, check=True)
    command = [sys.executable, "-m", "perdure", "run", "traffic.yaml", "-i", "path=access.log", "--json"]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    found = json.loads((folder / "said").read_bytes())["outputs"]
    assert found["rejected"] == LINES // 1000
    wanted = None if LONG else sum(100 + number % 7 for number in range(LINES) if number % 1000 != 999)
    assert wanted in (None, sum(found["total"].values()))
    assert used.ru_maxrss * 1024 < MOST
