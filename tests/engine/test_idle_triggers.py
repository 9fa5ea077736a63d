"""Triggers that have nothing to do cost nothing: no event, and no question to the journal that would not be asked without them."""

from collections import Counter
from typing import Any

import pytest

from perdure.engine import Engine
from perdure.journal import RunFilter
from perdure.journals.sqlite.readers import Readers
from perdure.journals.sqlite.writer import Writer
from perdure.runtime.coordinator.ownership.listener import Listener
from perdure.service import Service
from perdure.sources import Polled, Source
from tests.engine.helpers import compiled, opened, transform, until_true, workflow

pytestmark = pytest.mark.slow

COUNT = 300
LOOKS = 15
IDLE: tuple[dict[str, Any], ...] = (
    {"schedule": {"cron": "0 0 1 1 *"}},
    {"webhook": {"verify": {"scheme": "bearer", "secret": "IDLE"}}},
    {"event": {"name": "never.sent"}},
    {"runs": {"workflow": "never"}},
    {"poll": {"type": "test_idle", "every": "1h"}},
)


class Nothing(Source, name="test_idle"):
    asked = 0

    def poll(self, cursor: str | None) -> Polled:
        Nothing.asked += 1
        return Polled((), "0")


class Counted:
    """What is asked of a journal and written to it, and how often its listener looked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        self.asked: Counter[str] = Counter()
        listen, read, write = Listener.listen, Readers.run, Writer._submit

        async def look(listener: Any) -> None:
            self.looks += 1
            await listen(listener)

        async def ask(readers: Any, work: Any) -> Any:
            self.asked["read"] += 1
            return await read(readers, work)

        def submit(writer: Any, *more: Any, **named: Any) -> Any:
            self.asked["written"] += 1
            return write(writer, *more, **named)

        monkeypatch.setattr(Listener, "listen", look)
        monkeypatch.setattr(Readers, "run", ask)
        monkeypatch.setattr(Writer, "_submit", submit)

    async def during(self, looks: int) -> Counter[str]:
        self.asked.clear()
        until = self.looks + looks
        await until_true(lambda: self.looks >= until, f"{looks} more looks")
        return self.asked.copy()


async def written(engine: Engine) -> dict[str, int]:
    page = await engine.journal.list_runs(RunFilter(), limit=1000)
    assert page.next_cursor is None
    return {row.run_id: row.seq for row in page.items}


async def test_idle_triggers_write_nothing_and_ask_nothing(tmp_path, monkeypatch):
    engine = await opened(tmp_path)
    try:
        await engine.hold()
        await engine.workflows.register(compiled(workflow(transform("a", {}), name="report")))
        triggers = Service.of_owner(engine).triggers
        for number in range(COUNT):
            await triggers.apply({"name": f"t{number}", "workflow": "report", **IDLE[number % len(IDLE)]})
        await until_true(lambda: Nothing.asked >= COUNT // len(IDLE), "each source was asked")
        counted = Counted(monkeypatch)
        await counted.during(LOOKS)  # what registering them left is over
        before = await written(engine)
        asked = await counted.during(LOOKS)
        assert len(before) >= COUNT
        assert await written(engine) == before
        # A look is some four questions, whatever there is; one for each trigger would be hundreds.
        assert asked.total() < COUNT // 2, asked
        assert Nothing.asked == COUNT // len(IDLE)
    finally:
        await engine.close(0.5)
