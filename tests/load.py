"""What keeps the machine busy beside `make stress`: simulated histories of every kind, from starts drawn at random.

    python -m tests.load NUMBER OF PARENT

It is load NUMBER of OF loads, which take the kinds by turns. It ends with PARENT, the process that started it, even if that is
killed. What it says is for that one: `from START` before each chunk, `done` after each history, `broken SEED MESSAGE` where one
broke a promise.
"""

from __future__ import annotations

import itertools
import os
import secrets
import signal
import sys
from collections.abc import Iterator

from perdure.simulation import plan
from perdure.simulation.many import run_chunk

KINDS = {
    "of one process": range(plan.DIVIDED_FROM),
    "of several coordinators": range(plan.DIVIDED_FROM, plan.TRIGGERS_FROM),
    "with a trigger that is pushed to": range(plan.TRIGGERS_FROM, plan.POLLS_FROM),
    "with a trigger that polls": range(plan.POLLS_FROM, plan.ASKS_FROM),
    "with handlers that ask": range(plan.ASKS_FROM, plan.SCHEDULES_FROM),
    "with a schedule or windows": range(plan.SCHEDULES_FROM, plan.MONEY_FROM),
    "with calls under a budget": range(plan.MONEY_FROM, plan.TOPICS_FROM),
    "with a trigger that listens": range(plan.TOPICS_FROM, plan.WAITS_FROM),
    "with runs that wait for events": range(plan.WAITS_FROM, plan.WAITS_FROM + plan.DIVIDED_FROM),
    "with a trigger inside a run": range(plan.INNER_FROM, plan.INNER_FROM + plan.TRIGGERS_FROM),
    "with a run that streams": range(plan.STREAMS_FROM, plan.STREAMS_FROM + plan.TRIGGERS_FROM),
}
"""The seeds of each kind of history."""
CHUNK = 50


def kind_of(seed: int) -> str:
    return next(kind for kind, seeds in KINDS.items() if seed in seeds)


def draw_chunks(number: int, loads: int) -> Iterator[range]:
    """The seeds that a load simulates, without an end: fresh ones of one kind after the other."""
    seeds = list(KINDS.values())
    for turn in itertools.count(number, loads):
        kind = seeds[turn % len(seeds)]
        start = kind.start + secrets.randbelow(len(kind) - CHUNK)
        yield range(start, start + CHUNK)


def main(number: int, loads: int, parent: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a terminal it comes to all; the parent ends this one
    for chunk in draw_chunks(number, loads):
        _say(f"from {chunk.start}")
        for seed in chunk:
            (outcome,) = run_chunk([seed])
            if outcome.rule:
                _say(f"broken {seed} {outcome.message}")
            _say("done")
            if os.getppid() != parent:
                return 0
    return 1


def _say(line: str) -> None:
    sys.stdout.write(line.replace("\n", " ") + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
