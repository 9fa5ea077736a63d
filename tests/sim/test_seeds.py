"""Histories by the hundred: no promise is broken, and the same seed is the same history."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from random import Random

import msgspec
import pytest

from perdure.simulation import graphs
from perdure.simulation.faults import ALL
from perdure.simulation.many import run_chunk, run_seed
from perdure.simulation.plan import DIVIDED_FROM, Plan, make_plan
from perdure.simulation.report import Outcome, Summary, simulate
from perdure.simulation.rules import EVIDENCE
from tests.sim import regressions

CHUNK = 100
SEEDS = range(0, 400, CHUNK)
"""Enough: every two things that plans can have come together in them (see below). `make sim` runs as many as one likes."""
DIVIDED = range(DIVIDED_FROM, DIVIDED_FROM + 200, CHUNK)
COMPARED = 50
"""So many of each chunk run again, in a process where strings hash otherwise."""


def check(outcome: Outcome) -> None:
    assert not outcome.rule, f"{outcome.message}\n    again: make sim SEED={outcome.seed}"


def digests(seeds: int, start: int, hash_seed: str) -> list[str]:
    """In a process of its own, where strings hash otherwise."""
    command = [sys.executable, "-m", "perdure.simulation", "--digests", "--jobs", "1"]
    done = subprocess.run(
        [*command, "--seeds", str(seeds), "--start", str(start)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("first", SEEDS)
def test_no_promise_is_broken_and_the_same_seed_is_the_same_history(first: int) -> None:
    outcomes = run_chunk(list(range(first, first + CHUNK)))
    for outcome in outcomes:
        check(outcome)
    again = digests(COMPARED, first, str(first + 1))
    assert [f"{outcome.seed} {outcome.digest}" for outcome in outcomes[:COMPARED]] == again


@pytest.mark.slow
@pytest.mark.parametrize("first", DIVIDED)
def test_no_promise_is_broken_where_several_coordinators_share_the_runs(first: int) -> None:
    outcomes = run_chunk(list(range(first, first + CHUNK)))
    for outcome in outcomes:
        check(outcome)
    if first == DIVIDED_FROM:
        again = digests(COMPARED, first, "7")
        assert [f"{outcome.seed} {outcome.digest}" for outcome in outcomes[:COMPARED]] == again


def facts(plan: Plan) -> list[str]:
    """What a history will be made of, as far as its plan says."""
    chosen = msgspec.structs.asdict(plan)
    found = {f"{name} {value}" for name, value in chosen.items() if isinstance(value, int | float) and name != "seed"}
    found.update(name for name, rate in plan.rates.items() if rate)
    for workflow in plan.workflows:
        for node in workflow["nodes"]:
            found.update((node["type"], *node))
    return sorted(found)


def pairs(seeds: range) -> set[tuple[str, str]]:
    return {pair for seed in seeds for pair in itertools.combinations(facts(make_plan(seed)), 2)}


@pytest.mark.slow
@pytest.mark.parametrize("run", [SEEDS, DIVIDED], ids=["one-decides", "divided"])
def test_every_two_things_that_histories_are_made_of_come_together_in_those_that_are_run(run: range) -> None:
    missing = pairs(range(run.start, run.start + 3 * (run.stop - run.start))) - pairs(range(run.start, run.stop))
    assert not missing, f"run more histories: {sorted(missing)[:5]} never meet"


@pytest.mark.slow
def test_the_same_seed_is_the_same_history_in_one_process() -> None:
    for seed in range(20):
        assert run_seed(seed).digest == run_seed(seed).digest


@pytest.mark.slow
def test_a_few_histories_keep_every_promise() -> None:
    summary = Summary()
    for seed in range(100_000, 100_040):
        outcome = run_seed(seed)
        check(outcome)
        summary.add(outcome)
    assert summary.runs > 40
    assert summary.transitions["running -> completed"] > 10
    assert len([name for name in summary.hit if not name.startswith("exit")]) > 20, "where are the faults?"


@pytest.mark.slow
def test_a_few_hundred_histories_hit_nearly_everything_and_name_what_they_missed() -> None:
    summary = Summary()
    for outcome in run_chunk(list(range(10_000, 10_300))):
        check(outcome)
        summary.add(outcome)
    missed = summary.missed()
    assert len(missed["rules"]) <= 3, missed["rules"]
    assert len(missed["faults and requests"]) <= 3, missed["faults and requests"]
    assert missed["run states"] == []
    later = {"stream.closed", "stream.opened", "trigger.advanced", "trigger.received", "trigger.registered"}
    assert len(set(missed["event types"]) - later) <= 3, missed["event types"]
    said = "\n".join(summary.lines())
    for names in missed.values():
        assert all(name in said for name in names)


def test_what_was_never_hit_is_named() -> None:
    said = "\n".join(Summary().lines())
    for rule, what in EVIDENCE.items():
        assert f"{rule} ({what})" in said
    assert all(name in said for name in ALL)


def test_every_rule_of_the_semantics_has_its_evidence() -> None:
    assert sorted(EVIDENCE) == list(range(1, 45))


def test_every_workflow_of_the_generator_compiles_and_so_do_most_changes_of_it() -> None:
    good = 0
    for seed in range(300):
        random = Random(seed)
        definition = graphs.generate(random, 9, name="flow", children=("child",))
        assert graphs.compiled(definition).ir is not None
        changed = graphs.change(random, definition, [definition])
        good += changed is not None and graphs.compiled(changed).ir is not None
    assert good > 200


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
def test_what_failed_once_is_kept(plan: Plan) -> None:
    check(simulate(plan))
