"""What handlers say is kept with their runs; what is past its time is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from perdure.archive.stored_lines import LogLine
from perdure.runtime.pruner import DAY, Pruner
from perdure.runtime.worker import logs
from perdure.runtime.worker.logs import LogKeeper
from tests.engine.helpers import finish, running, task, workflow


async def lines(engine, run_id="r1", count=1):
    async with asyncio.timeout(20):
        while len(found := await engine.archive.read_logs("default", run_id)) < count:
            await engine._logs.flush()
    return [(line.line.node, line.line.level, line.line.message) for line in found]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["says", "says_in_thread", "says_in_process"])
async def test_what_a_handler_says_is_kept_with_its_run(tmp_path, how):
    more = {"isolation": "process"} if how == "says_in_process" else {}
    function = "says_in_thread" if more else how
    async with running(tmp_path) as engine:
        await finish(engine, workflow(task("a", function, args={"what": "hello"}, **more)))
        assert await lines(engine, count=3) == [
            ("a", "info", "hello 1"),
            ("a", "warning", "hello 2"),
            ("a", "error", "it broke: ValueError: hello"),
        ]


async def test_a_secret_that_was_revealed_here_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PERDURE_SECRET_TOKEN", "tr0ub4dor-and-3")
    async with running(tmp_path) as engine:
        await finish(engine, workflow(task("a", "says", args={"what": "{{ secrets.TOKEN }}"})))
        kept = await lines(engine, count=3)
    assert "tr0ub4dor" not in str(kept)
    assert not any(b"tr0ub4dor" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


async def test_lines_that_come_faster_than_they_can_be_written_push_out_the_oldest(monkeypatch, caplog):
    monkeypatch.setattr(logs, "MOST_WAITING", 3)
    written = []

    class Archive:
        async def append_logs(self, some):
            written.extend(line.message for line in some)

    keeper = LogKeeper(Archive(), None)
    for number in range(5):
        keeper.add(LogLine(tenant="default", run_id="r1", node="a", at=1.0, message=str(number)))
    await keeper.flush()
    assert written == ["2", "3", "4"]
    assert "2 lines that functions logged were dropped" in caplog.text


async def test_runs_that_ended_before_the_retention_are_forgotten_and_others_are_not(tmp_path):
    async with running(tmp_path) as engine:
        await finish(engine, workflow(task("a")), "old")
        await finish(engine, workflow(task("a")), "new")
        ended = (await engine.journal.get_run("new")).row.ended_at

        class Later:
            now = staticmethod(lambda: ended + 30 * DAY - 1e-4)
            sleep = staticmethod(lambda seconds: asyncio.sleep(0))

        assert (await engine.journal.get_run("old")).row.ended_at < ended
        pruner = Pruner(engine.journal, engine.archive, Later, retention_days=30, event_days=7, session_days=90)
        assert await pruner.count() == 1
        assert await pruner.prune() == 1
        assert await engine.journal.find_run("old") is None
        assert await engine.journal.find_run("new") is not None
