"""How far a handler says it is: the latest is seen while it runs, and kept nowhere (rule 74)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.clock import SystemClock
from perdure.kernel.readings.run_view import read_progress, run_view
from perdure.runtime.worker.handler_results import Leaving
from perdure.runtime.worker.sayings import progress_of
from perdure.secrets.vault import Vault
from tests.engine.helpers import ended, running, start, task, until_true, workflow
from tests.engine.test_running import seen_of


async def until_told(engine: Any, value: Any) -> None:
    async def look() -> bool:
        state, seen = await seen_of(engine)
        [listed] = await engine.work_reports.list_tasks("r1") or [{}]
        return run_view(state, seen=seen)["nodes"]["a"].get("progress") == value == listed.get("progress")

    await until_true(look, f"{value!r} is seen")


@pytest.mark.parametrize("isolation", ["thread", pytest.param("process", marks=pytest.mark.slow)])
async def test_the_latest_value_is_seen_while_the_handler_runs_and_is_in_no_event(tmp_path, isolation):
    first, last = tmp_path / "first", tmp_path / "last"
    node = task("a", "tells", args={"paths": [str(first), str(last)]}) | {"isolation": isolation}
    async with running(tmp_path) as engine:
        await start(engine, workflow(node))
        await until_told(engine, {"done": 1, "total": 2, "text": "reading"})
        first.touch()
        await until_told(engine, {"done": 2, "total": 2, "text": "reading"})
        last.touch()
        state = await ended(engine)
        assert "progress" not in run_view(state, seen=await engine.work_reports.of(state))["nodes"]["a"]
        bodies = [one.body for one in await engine.journal.read_events("r1", 0)]
        assert not any(b"reading" in body for body in bodies)


async def test_a_node_that_seals_its_output_shows_nothing(tmp_path):
    first, last = tmp_path / "first", tmp_path / "last"
    node = task("a", "tells", args={"paths": [str(first), str(last)]}) | {"sensitive": ["*"]}
    async with running(tmp_path) as engine:
        await start(engine, workflow(node))
        [listed] = await until_true(lambda: engine.work_reports.list_tasks("r1"), "it is listed")
        assert listed["progress"] is None
        first.touch()
        last.touch()
        await ended(engine)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (object(), "object"),
        ("x" * 2_000, "2,002 characters"),
        (list(range(20_000)), "more than 2,000 characters"),
        ([[]] * 200, "brackets"),
    ],
)
def test_what_cannot_be_shown_is_told_and_fails_nobody(value, why):
    with pytest.raises(ValueError, match=f"this progress is not shown.*{why}"):
        progress_of(value)


@pytest.mark.parametrize("said", ["", "{", "[" * 300 + "]" * 300, "\x00", "nan"])
def test_what_a_worker_writes_that_is_no_shallow_json_is_not_shown(said):
    assert read_progress(said) is None


def test_secrets_are_taken_out():
    vault = Vault()
    vault.scrubber.add('it"s secret')
    leaving = Leaving(None, SystemClock(), vault)
    cleaned = leaving.clean_json(progress_of({"text": 'with it"s secret'}))
    assert cleaned is not None
    assert "secret" not in cleaned
    assert read_progress(cleaned) is not None
