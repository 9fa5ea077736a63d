"""A real `kill -9` in the middle of an agent of a library, then an approval, and its program run again after each."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("dying.py")


def run_until_it_ends(folder: Path, library: str, environment: dict[str, str]) -> tuple[str, list[str]]:
    """What the program said in the end, and what was done in all its processes."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)

    killed = call(str(PROGRAM), library)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    waits = call(str(PROGRAM), library)
    assert (waits.returncode, waits.stdout) == (0, "running None\n"), waits.stderr
    approved = call("-m", "perdure", "approvals", "approve", "r1", "--by", "ann")
    assert approved.returncode == 0, approved.stderr
    ended = call(str(PROGRAM), library)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip(), (folder / "notes").read_text().splitlines()
