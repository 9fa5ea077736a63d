"""A process that polls a table of SQLite, for a test that kills it: `python -m tests.engine.poller FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from perdure.engine import Engine
from perdure.settings import Settings
from perdure.triggers.declarations import read_data
from tests.engine.helpers import compiled, transform, workflow

TARGET = workflow(transform("a", {"n": "{{ inputs.n }}"}), name="report")


async def main(folder: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{folder / 'perdure.db'}", folder_roots=str(folder))
    engine = await Engine.open(settings)
    assert await engine.hold()
    await engine.workflows.register(compiled(TARGET))
    table = {"database": f"sqlite:///{folder / 'shop.db'}", "table": "orders", "cursor": ["id"], "every": "1s"}
    data = {"name": "rows", "workflow": "report", "table": {**table, "settle": "0s", "from": "start"}}
    (trigger,) = read_data({**data, "inputs": {"n": "{{ item.what }}"}}, 0.0).get_triggers()
    reply = await engine.triggers.apply(trigger)
    assert not reply.refused, reply
    print("ready", flush=True)
    await engine.until_broken()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
