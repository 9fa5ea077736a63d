"""What keeps the machine busy beside `make stress`: simulated histories, one after the other, from starts drawn at random.

    python -m tests.load one|several PARENT

It ends with PARENT, the process that started it, even if that is killed. What it says is for that one: `from START`
before each chunk, `done` after each history, `broken SEED MESSAGE` where one broke a promise.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys

from perdure.simulation.many import run_chunk
from perdure.simulation.plan import DIVIDED_FROM

FIRST = {"one": 0, "several": DIVIDED_FROM}
"""Where the seeds of a kind begin: histories of one process, or of several coordinators."""
CHUNK = 200


def main(kind: str, parent: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a terminal it comes to all; the parent ends this one
    while True:
        start = FIRST[kind] + secrets.randbelow(DIVIDED_FROM - CHUNK)
        _say(f"from {start}")
        for seed in range(start, start + CHUNK):
            (outcome,) = run_chunk([seed])
            if outcome.rule:
                _say(f"broken {seed} {outcome.message}")
            _say("done")
            if os.getppid() != parent:
                return 0


def _say(line: str) -> None:
    sys.stdout.write(line.replace("\n", " ") + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
