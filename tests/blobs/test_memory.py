"""A large value goes through a run without being copied: measured on a real process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIZE = 100_000_000


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_100_mb_through_three_nodes_take_less_than_400_mb_of_memory_and_1_mb_of_journal(tmp_path, isolation):
    command = [sys.executable, "-m", "tests.blobs.passing", str(tmp_path), str(SIZE), isolation]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert min(found["sizes"].values()) > SIZE
    assert found["peak"] < 400, f"{found}: a copy too many"
    journal = sum(file.stat().st_size for file in tmp_path.glob("perdure.db*") if file.is_file())
    assert journal < 1_000_000, {file.name: file.stat().st_size for file in tmp_path.glob("perdure.db*")}
    blobs = sum(file.stat().st_size for file in (tmp_path / "perdure.db.blobs").rglob("*") if file.is_file())
    assert 3 * SIZE < blobs < 3.1 * SIZE
