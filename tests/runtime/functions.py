"""Functions that tasks of these tests name; imported by workers and by isolated processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import perdure.outcomes
from perdure import functions
from perdure.runtime.worker.context import Context


def add(a: int, b: int = 1) -> int:
    return a + b


async def add_async(a: int, b: int = 1) -> int:
    await asyncio.sleep(0)
    return a + b


def where() -> dict[str, Any]:
    return {"pid": os.getpid(), "thread": threading.current_thread().name}


def about(ctx) -> list[Any]:
    return [ctx.run_id, ctx.attempt, ctx.key("x")]


def about_annotated(context: Context, extra: int = 0) -> list[Any]:
    return [context.run_id, extra]


class Object:
    async def __call__(self, x: int) -> int:
        return x * 2


callable_object = Object()
not_callable = 5


class Holder:
    @staticmethod
    def held(x: int) -> int:
        return x + 100


def list_environment() -> list[str]:
    return sorted(os.environ)


def fail(text: str) -> None:
    raise ValueError(text)


def abort() -> None:
    raise perdure.outcomes.Abort("never")


def leave(code: int) -> None:
    os._exit(code)


def exit_politely() -> None:
    sys.exit(4)


def stop_iterating() -> None:
    raise StopIteration


def segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(path: str) -> None:
    """Says that it began, with the process id of a child of its own."""
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    Path(path).write_text(f"{os.getpid()} {pid}")
    threading.Event().wait()


def bad_output() -> Any:
    return {"a": object()}


def print_something() -> str:
    print("hello from a function", flush=True)
    return "printed"


def step_by_step(ctx, fail_at: int = 0) -> list[int]:
    values = []
    for number in (1, 2, 3):
        if number == fail_at:
            raise RuntimeError(f"failed at {number}")
        values.append(ctx.step(f"step {number}", add, number, b=10))
    ctx.heartbeat()
    ctx.checkpoint({"values": values})
    return [*values, ctx.last_checkpoint["values"] == values]


async def step_by_step_async(ctx) -> list[int]:
    values = [await ctx.step("a", add, 1), await ctx.step("b", add_async, 2)]
    await ctx.checkpoint(values)
    ctx.heartbeat()
    return [*values, ctx.last_checkpoint]


def named(x: int) -> int:
    return -x


functions.register("tests.named", named)


def large(size: int) -> str:
    return "x" * size
