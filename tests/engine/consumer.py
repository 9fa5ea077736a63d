"""A process whose run consumes a table of SQLite, for a test that kills it: `python -m tests.engine.consumer FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from perdure.engine import Engine
from perdure.settings import Settings
from tests.engine.helpers import start, transform, workflow


def consumer(folder: Path) -> dict[str, object]:
    """Takes row after row, for ever."""
    database = f"sqlite:///{folder / 'shop.db'}"
    table = {"database": database, "table": "orders", "cursor": ["id"], "every": "1s", "settle": "0s", "from": "start"}
    take = {"id": "take", "type": "trigger", "config": {"table": table}}
    loop = {"condition": "true", "loop_back_to": "take", "endless": True}
    return workflow(take, transform("work", {"n": "{{ take.id }}"}) | {"dependencies": ["take"], "loop": loop})


async def main(folder: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{folder / 'perdure.db'}", folder_roots=str(folder))
    engine = await Engine.open(settings)
    assert await engine.hold()
    await start(engine, consumer(folder))  # refused where it exists, and then it goes on
    await engine.until_broken()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
