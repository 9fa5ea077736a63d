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
RUN = """
import atexit, pathlib, re
from perdure.cli import main
def peak():  # of this program alone: what `wait4` tells counts the process that it was forked from
    told = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())
    pathlib.Path("peak").write_text(told[1])
atexit.register(peak)
main()
"""


@pytest.mark.slow
def test_a_log_is_read_in_constant_memory(tmp_path):
    folder = helpers.copy("streams", tmp_path)
    with (folder / "access.log").open("wb") as log:
        subprocess.run([sys.executable, "make_log.py", str(LINES)], cwd=folder, stdout=log, check=True)
    command = [sys.executable, "-c", RUN, "run", "traffic.yaml", "-i", "path=access.log", "--json"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)["outputs"]
    assert found["rejected"] == LINES // 1000
    wanted = None if LONG else sum(100 + number % 7 for number in range(LINES) if number % 1000 != 999)
    assert wanted in (None, sum(found["total"].values()))
    assert int((folder / "peak").read_text()) * 1024 < MOST
