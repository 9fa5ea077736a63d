"""What one step of a run costs on the way: how often a process writes to Redis, and what goes in one write."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.transports.redis.connection import Connection
from perdure.transports.redis.scripts import all_scripts
from tests.distributed.helpers import Deployment
from tests.engine.helpers import ended, start, task, workflow

pytestmark = pytest.mark.slow
HOPS = 10


def note_writes(engine: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The scripts that the process calls, by write."""
    names = {script.hash.encode(): name for name, script in all_scripts().items()}
    connection = engine.transport._link._connection
    writes: list[list[str]] = []
    flush = Connection._flush

    def note(one: Connection) -> None:
        if one is connection:
            found = [name for command in one._out for text, name in names.items() if text in command]
            if found:
                writes.append(found)
        flush(one)

    monkeypatch.setattr(Connection, "_flush", note)
    return writes


async def test_a_result_is_acknowledged_in_the_write_that_sends_the_next_task(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
):
    coordinator = await deployment.coordinator()
    await deployment.worker()
    nodes = [task(f"n{n}", args={"value": n}, needs=[f"n{n - 1}"] if n else None) for n in range(HOPS)]
    writes = note_writes(coordinator, monkeypatch)
    await start(coordinator, workflow(*nodes), "r1")
    assert (await ended(coordinator, "r1")).state.value == "completed"
    sending = [write for write in writes if "publish" in write]
    assert len(sending) == HOPS
    assert [write.index("publish") < write.index("settle") for write in sending[1:]] == [True] * (HOPS - 1)
