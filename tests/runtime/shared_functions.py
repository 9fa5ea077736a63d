"""What the handlers of a process share, in tests: everything they open and close is said in a file or a list."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

said: list[str] = []
trouble: list[Exception] = []
"""What the next openings raise."""
gate = threading.Event()
gate.set()


def say(what: str) -> None:
    said.append(what)
    if path := os.environ.get("SHARED_LOG"):
        with Path(path).open("a") as file:
            file.write(f"{what}\n")


class OutOfMemoryError(RuntimeError):
    """Named as the errors of libraries for devices are."""


class Counter:
    def __init__(self) -> None:
        gate.wait(60)
        if trouble:
            raise trouble.pop()
        self.count = 0
        say("made")

    async def open(self) -> None:
        say("opened")

    def __call__(self, by: int, ctx: Any) -> list[Any]:
        if by == 0:
            raise OutOfMemoryError("2 GiB on the device")
        self.count += by
        return [self.count, os.getpid() != 0, ctx.device]

    def close(self) -> None:
        say("closed")


class AsyncCounter(Counter):
    async def __call__(self, by: int) -> int:  # type: ignore[override]
        self.count += by
        return self.count

    async def close(self) -> None:  # type: ignore[override]
        say("closed async")


class Plain:
    """Without `__call__`: a class that is called itself, as functions are."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __iter__(self) -> Any:
        return iter([("x", self.x)])


async def open_pool() -> dict[str, int]:
    if trouble:
        raise trouble.pop()
    say("pool opened")
    return {"used": 0}


async def close_pool(pool: dict[str, int]) -> None:
    say(f"pool closed after {pool['used']}")


async def use_pool(config: Any, ctx: Any) -> int:
    ctx.shared["used"] += 1
    return int(ctx.shared["used"])
