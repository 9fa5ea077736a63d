"""The example of assets: a file of any size takes no more memory than a small one."""

import json
import os
import subprocess
import sys

import pytest

from tests.examples import helpers
from tests.examples.test_streams import RUN

LONG = os.environ.get("PERDURE_TEST_LONG") == "1"
ROWS = 11_000_000 if LONG else 700_000
"""A gigabyte, or sixty megabytes."""
LARGEST = 90 * (1 << 20)
"""A process that had held the shorter file once would have more than this above what a short run takes."""


def peak_of(folder, rows):
    command = [sys.executable, "-c", RUN, "run", "report.py", "-i", f"rows={rows}", "--json", "--db", f"{rows}.db"]
    done = subprocess.run(command, cwd=folder, env=helpers.environment(), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["outputs"], int((folder / "peak").read_text()) * 1024


@pytest.mark.slow
def test_a_file_goes_through_functions_in_constant_memory(tmp_path):
    folder = helpers.copy("assets", tmp_path)
    _, small = peak_of(folder, 10)
    outputs, large = peak_of(folder, ROWS)
    size = outputs["orders"]["$asset"]["size"]
    assert size > 85 * ROWS
    assert outputs["summary"]["$asset"]["media_type"] == "text/plain"
    assert large - small < min(size // 2, LARGEST), f"{(large - small) >> 20} MB more for a file of {size >> 20} MB"
