"""Journals that earlier versions recorded still evolve to what they evolved to then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import invariants
from perdure.kernel import events as e
from perdure.kernel.evolve import evolve
from perdure.kernel.state import State
from perdure.model import ir as irs
from tests.replay.record import JOURNALS, SCENARIOS, VERSION, expected

FILES = sorted(JOURNALS.glob("*/*.jsonl"))
NEVER_RECORDED: dict[str, str] = {}


class Line(msgspec.Struct):
    ir: msgspec.Raw = msgspec.Raw()
    event: msgspec.Raw = msgspec.Raw()
    expected: Any = None


def read(file: Path) -> tuple[State, list[e.AnyEvent], Any]:
    """The state before the first event, the events, and what they led to."""
    state, journal, result = State(), [], None
    for raw in file.read_bytes().splitlines():
        line = msgspec.json.decode(raw, type=Line)
        if bytes(line.ir):
            ir = irs.decode(bytes(line.ir))
            state.library[ir.hash] = ir
        elif bytes(line.event):
            journal.append(e.decode(bytes(line.event)))
        else:
            result = line.expected
    return state, journal, result


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_recorded_journal_evolves_to_the_recorded_state(file: Path) -> None:
    state, journal, result = read(file)
    for event in journal:
        evolve(state, event)
    found = expected(state)
    if "triggers" in result:  # later versions know more of a mailbox
        found["triggers"] = as_recorded(found["triggers"], result["triggers"])
    assert found == result


def as_recorded(found: Any, recorded: Any) -> Any:
    """The part of what was found that the record speaks of."""
    if not isinstance(recorded, dict) or not isinstance(found, dict):
        return found
    return {key: as_recorded(found[key], recorded[key]) for key in recorded if key in found}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_recorded_journal_keeps_the_invariants(file: Path) -> None:
    state, journal, _ = read(file)
    assert invariants.check(journal, state.library) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_events_are_written_as_they_were_read(file: Path) -> None:
    """A process of this version that copies an old journal changes no byte of it."""
    for raw in file.read_bytes().splitlines():
        line = msgspec.json.decode(raw, type=Line)
        if bytes(line.event):
            assert e.encode(e.decode(bytes(line.event))) == bytes(line.event)


def test_every_scenario_is_recorded() -> None:
    assert {file.stem for file in FILES if file.parent.name == VERSION} == set(SCENARIOS)


def test_every_event_type_is_recorded_but_those_nobody_can_produce() -> None:
    recorded = {event.type for file in FILES for event in read(file)[1]}
    assert set(e.TYPES) - recorded == set(NEVER_RECORDED)
