"""Who drives triggers, and what is said where nobody does: commands and `perdure run` leave them alone (G27)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.cli.frame.database import opened as opened_by_a_command
from perdure.clock import OffsetClock, system
from perdure.engine import Engine
from perdure.kernel import events as e
from perdure.runtime.triggers import trigger_id
from perdure.service import Service
from tests.engine.helpers import ask, compiled, events, opened, running, until_true
from tests.engine.test_triggers import PLAIN, WAITS

NIGHTLY: dict[str, Any] = {"name": "nightly", "workflow": "report", "schedule": {"every": "1h"}}
ID = trigger_id("default", "nightly")


async def apply(engine: Engine, definition: dict[str, Any] = PLAIN) -> Service:
    await engine.workflows.register(compiled(definition))
    service = Service.of_owner(engine)
    await service.triggers.apply(NIGHTLY)
    return service


@pytest.mark.slow
@pytest.mark.parametrize("drives", [True, False])
async def test_a_firing_says_whether_its_run_has_begun(tmp_path, drives):
    holder = await opened(tmp_path)
    holder.drives_triggers = drives
    await holder.hold()
    service = await apply(holder)
    other = await opened(tmp_path)  # as `perdure triggers fire` in another terminal
    try:
        for asked in (Service.of_owner(other), service):
            fired = await asked.triggers.fire("nightly", {"n": 1}, overlap="allow")
            assert (fired["state"], fired["begun"]) == ("started", drives)
            assert await holder.runs.exists(fired["run_id"]) is drives
    finally:
        await other.close()
        await holder.close(0.5)


async def test_a_command_executes_nothing_that_is_due(tmp_path):
    late = OffsetClock(system)
    late.set(system.now() - 86_400, system.monotonic())
    async with running(tmp_path, clock=late) as engine:
        await apply(engine)
    async with opened_by_a_command(f"sqlite:///{tmp_path / 'perdure.db'}") as engine:
        service = Service.of_owner(engine)
        assert (await service.triggers.get("nightly"))["next_at"] < system.now()
        assert not (await service.triggers.fire("nightly", {"n": 1}))["begun"]
        await engine.timekeeper._tell()
        await engine.listener.listen()
        assert engine.coordinator is not None
        await engine.coordinator.settled()
        assert not [one for one in await events(engine.journal, ID) if isinstance(one, e.TimerFired)]


async def test_a_run_that_has_ended_is_not_shown_as_open_while_nobody_drives_triggers(tmp_path):
    async with running(tmp_path) as engine:
        service = await apply(engine, WAITS)
        fired = await service.triggers.fire("nightly")
        assert fired["begun"]
        assert (await service.triggers.get("nightly"))["open"] == 1
        (item,) = (await service.triggers.items("nightly", state="open").first())["items"]
        assert (item["moment"], item["at"] is None) == (None, False)
    engine = await opened(tmp_path)
    engine.drives_triggers = False
    await engine.hold()
    try:
        service = Service.of_owner(engine)
        await ask(engine, "signal", fired["run_id"], name="go")

        async def over() -> bool:
            return (await engine.journal.get_run(fired["run_id"])).row.ended_at is not None

        await until_true(over, "the run has ended")
        assert (await service.triggers.get("nightly"))["open"] == 0
        assert [one["open"] for one in (await service.triggers.list().first())["items"]] == [0]
        assert (await service.triggers.items("nightly", state="open").first())["items"] == []
    finally:
        await engine.close(0.5)
