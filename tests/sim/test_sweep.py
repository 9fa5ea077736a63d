"""Whichever single command fails, and however: the run ends as it should, and nothing is done that was not to be done."""

from __future__ import annotations

import pytest

from tests.sim.sweep import cases, faultless, sweep
from tests.sim.sweep_triggers import TRIGGERED, SweptTrigger, Triggered
from tests.sim.workflows import REFERENCES, Reference

by_name = pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name.replace(" ", "-"))


by_trigger = pytest.mark.parametrize("triggered", TRIGGERED, ids=lambda one: one.name.replace(" ", "-"))


@by_name
def test_without_a_fault_it_ends_as_it_should(reference: Reference) -> None:
    world = faultless(reference)
    assert not world.failures
    assert world.result()["state"] == reference.ends
    assert {group for group, _ in world.chaos.commands} == {"journal_read", "journal_write", "transport"}


@pytest.mark.slow
@by_name
def test_every_command_may_fail_once_in_every_way(reference: Reference) -> None:
    right = faultless(reference)
    problems = [problem for at, way in cases(right) if (problem := sweep(reference, right, at, way))]
    assert not problems, "\n".join(problems[:5])


@pytest.mark.slow
@by_name
def test_every_command_of_the_blob_store_may_fail_once_in_every_way(reference: Reference) -> None:
    right = faultless(reference, large=True)
    assert not right.failures
    assert right.result()["state"] == reference.ends
    faults = cases(right)
    assert {right.chaos.commands[at][1] for at, _ in faults} >= {"put"}
    problems = [problem for at, way in faults if (problem := sweep(reference, right, at, way))]
    assert not problems, "\n".join(problems[:5])


@by_trigger
def test_without_a_fault_a_trigger_starts_what_it_should(triggered: Triggered) -> None:
    world = faultless(triggered, kind=SweptTrigger)
    assert not world.failures
    found = world.result()
    assert (found["state"], found["position"]) == ("completed", triggered.count)
    assert len(found["runs"]) == triggered.count + world.runs
    assert (found["waiting"], found["open"], found["parked"]) == (0, 0, 0)
    assert isinstance(world, SweptTrigger)
    assert (len(world.chain()) > 1) is (triggered.long < 200_000)


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
@by_trigger
def test_every_command_may_fail_once_where_a_trigger_starts_runs(triggered: Triggered, large: bool) -> None:
    right = faultless(triggered, large=large, kind=SweptTrigger)
    assert not right.failures
    problems = [problem for at, way in cases(right) if (problem := sweep(triggered, right, at, way))]
    assert not problems, "\n".join(problems[:5])
