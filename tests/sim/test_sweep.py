"""Whichever single command fails, and however: the run ends as it should, and nothing is done that was not to be done."""

from __future__ import annotations

import pytest

from tests.sim.sweep import cases, faultless, sweep
from tests.sim.workflows import REFERENCES, Reference

by_name = pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name.replace(" ", "-"))


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
