"""Histories by the hundred: no promise is broken, and the same seed is the same history."""

import os
import subprocess
import sys

import msgspec
import pytest

from tests.sim import regressions
from weft.simulation.many import run_seed
from weft.simulation.plan import Plan, make_plan
from weft.simulation.report import Outcome, Summary, simulate

CHUNK = 50
SEEDS = range(0, 2000, CHUNK)


def check(outcome: Outcome) -> None:
    assert not outcome.rule, f"{outcome.message}\n    again: make sim SEED={outcome.seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first", SEEDS)
def test_no_promise_is_broken(first):
    for seed in range(first, first + CHUNK):
        check(run_seed(seed))


def test_a_few_histories_keep_every_promise():
    summary = Summary()
    for seed in range(100_000, 100_040):
        outcome = run_seed(seed)
        check(outcome)
        summary.add(outcome)
    assert summary.runs > 40
    assert summary.transitions["running -> completed"] > 10
    assert len([name for name in summary.hit if not name.startswith("exit")]) > 20, "where are the faults?"


def plans() -> list[tuple[str, Plan]]:
    found: list[tuple[str, Plan]] = [(f"{seed}", make_plan(seed)) for seed in regressions.FOUND]
    for seed in regressions.SHARED:
        plan = make_plan(seed)
        found.append((f"{seed}-shared", msgspec.structs.replace(plan, shared=True, workers=plan.workers or 2)))
    found += [
        (f"{seed}-embedded", msgspec.structs.replace(make_plan(seed), shared=False, workers=0))
        for seed in regressions.EMBEDDED
    ]
    found += [(f"{seed}-calm", msgspec.structs.replace(make_plan(seed), rates={})) for seed in regressions.CALM]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in plans()])
def test_what_failed_once_is_kept(plan):
    check(simulate(plan))


def digests(seeds: int, start: int, hash_seed: str) -> list[str]:
    """In a process of its own, where strings hash otherwise."""
    command = [sys.executable, "-m", "weft.simulation", "--digests", "--jobs", "1"]
    done = subprocess.run(
        [*command, "--seeds", str(seeds), "--start", str(start)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 5000])
def test_the_same_seed_is_the_same_history(start):
    first = digests(100, start, "1")
    assert len(first) == 100
    assert first == digests(100, start, "2")


def test_the_same_seed_is_the_same_history_in_one_process():
    for seed in range(20):
        assert run_seed(seed).digest == run_seed(seed).digest
