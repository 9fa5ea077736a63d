"""Histories that were chosen by what they cover: no promise is broken, and the same seed is the same history."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

import msgspec
import pytest

from perdure.simulation import graphs
from perdure.simulation.faults import ALL
from perdure.simulation.many import run_chunk, run_seed
from perdure.simulation.plan import Plan, make_plan
from perdure.simulation.report import Outcome, Summary, simulate
from perdure.simulation.rules import EVIDENCE
from tests.processes import python_path
from tests.sim import regressions
from tests.sim.chosen import CHOSEN, FROM, pairs, wanted


def check(outcome: Outcome) -> None:
    assert not outcome.rule, f"{outcome.message}\n    again: make sim SEED={outcome.seed}"


AGAIN = """
from perdure.simulation.many import run_chunk
from tests.sim.chosen import CHOSEN
for outcome in run_chunk(CHOSEN[{name!r}][::6]):
    print(outcome.seed, outcome.digest)
"""


def digests(name: str) -> list[str]:
    """Of every sixth, in a process of its own, where strings hash otherwise: what depends on that would differ in most."""
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": python_path()}
    command = [sys.executable, "-c", AGAIN.format(name=name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def check_that_nearly_everything_was_hit(summary: Summary) -> None:
    missed = summary.missed()
    assert len(missed["rules"]) <= 3, missed["rules"]
    assert len(missed["faults and requests"]) <= 3, missed["faults and requests"]
    assert missed["run states"] == []
    # Nobody writes streams yet, and triggers are in histories of their own (`test_triggers.py`).
    here = [name for name in missed["event types"] if not name.startswith(("stream.", "trigger.", "step."))]
    assert len(here) <= 3, missed["event types"]
    said = "\n".join(summary.lines())
    for names in missed.values():
        assert all(name in said for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_no_promise_is_broken_nearly_everything_is_hit_and_the_same_seed_is_the_same_history(name: str) -> None:
    outcomes = run_chunk(CHOSEN[name])
    summary = Summary()
    for outcome in outcomes:
        check(outcome)
        summary.add(outcome)
    if name == "one decides":  # faults of the blob store are rarer where several decide
        check_that_nearly_everything_was_hit(summary)
    assert [f"{outcome.seed} {outcome.digest}" for outcome in outcomes[::6]] == digests(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_every_two_things_that_histories_are_made_of_come_together_in_those_that_are_run(name: str) -> None:
    found = pairs(FROM[name])
    missing = wanted(found) - Counter(itertools.chain(*(found[seed] for seed in CHOSEN[name])))
    assert not missing, f"{sorted(missing)[:5]} meet too seldom: python -m tests.sim.chosen chooses anew"


@pytest.mark.slow
def test_the_same_seed_is_the_same_history_in_one_process() -> None:
    for seed in range(5):
        assert run_seed(seed).digest == run_seed(seed).digest


def test_what_was_never_hit_is_named() -> None:
    said = "\n".join(Summary().lines())
    for rule, what in EVIDENCE.items():
        assert f"{rule} ({what})" in said
    assert all(name in said for name in ALL)


def test_every_rule_of_the_semantics_has_its_evidence() -> None:
    assert sorted(EVIDENCE) == list(range(1, 45))


@pytest.mark.slow
def test_every_workflow_of_the_generator_compiles_and_so_do_most_changes_of_it() -> None:
    good = 0
    for seed in range(300):
        random = Random(seed)
        definition = graphs.generate(random, 9, name="flow", children=("child",))
        assert graphs.compiled(definition).ir is not None
        changed = graphs.change(random, definition, [definition])
        good += changed is not None and graphs.compiled(changed).ir is not None
    assert good > 200


KEPT: dict[str, tuple[Iterable[int], Callable[[Plan], Plan]]] = {
    "": (regressions.FOUND, lambda plan: plan),
    "-shared": (
        regressions.SHARED,
        lambda plan: msgspec.structs.replace(plan, shared=True, workers=plan.workers or 2),
    ),
    "-embedded": (regressions.EMBEDDED, lambda plan: msgspec.structs.replace(plan, shared=False, workers=0)),
    "-calm": (regressions.CALM, lambda plan: msgspec.structs.replace(plan, rates={})),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "kind"),
    [pytest.param(seed, kind, id=f"{seed}{kind}") for kind, (seeds, _) in KEPT.items() for seed in seeds],
)
def test_what_failed_once_is_kept(seed: int, kind: str) -> None:
    _, changed = KEPT[kind]
    check(simulate(changed(make_plan(seed))))
