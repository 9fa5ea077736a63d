"""Functions that the workflows of these tests call. Every effect is a line in the file that `CHAOS_EFFECTS` names.

A line is appended in one write: whole or not there, also when the process is killed.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import perdure


def record(ctx: perdure.Context) -> None:
    line = f"{ctx.node} {ctx.idempotency_key} {ctx._task.attempt} {os.getpid()}\n".encode()
    descriptor = os.open(os.environ["CHAOS_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


async def slowly(ctx: perdure.Context, most: float = 0.02) -> Any:
    """Some work, of a length that nobody knows, with the effect in the middle."""
    await asyncio.sleep(random.random() * most)
    record(ctx)
    await asyncio.sleep(random.random() * most)
    return {"done": bool(ctx.scope) and ctx.scope[-1] >= 3}


async def fail_first(ctx: perdure.Context) -> Any:
    record(ctx)
    if ctx.attempt == 1:
        raise RuntimeError("the first attempt fails, as it should")
    return {}


async def long(ctx: perdure.Context) -> Any:
    """The first attempt is under way until the test says so, however slow the machine is; a later one ends at once."""
    record(ctx)
    gate = Path(f"{os.environ['CHAOS_EFFECTS']}.go")
    while ctx._task.attempt == 1 and not gate.exists():  # noqa: ASYNC110, ASYNC240  another process makes it
        await asyncio.sleep(0.02)
    return {}
