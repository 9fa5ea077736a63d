"""Functions that take and give values too large for an event."""

from __future__ import annotations

from typing import Any

import perdure
from tests.engine import tasks


async def make(ctx: perdure.Context, size: int = 100_000, **more: Any) -> Any:
    tasks.record(ctx)
    return {"text": "x" * size, "size": size, **more}


def make_in_thread(ctx: perdure.Context, size: int = 100_000) -> Any:
    tasks.record(ctx)
    return {"text": "y" * size, "size": size}


async def measure(ctx: perdure.Context, value: Any) -> Any:
    """What arrived, in short."""
    tasks.record(ctx)
    return {"type": type(value).__name__, "length": len(value["text"]), "keys": sorted(value)}


async def measure_text(ctx: perdure.Context, text: Any) -> Any:
    tasks.record(ctx)
    return len(text)


async def measure_inputs(ctx: perdure.Context) -> Any:
    tasks.record(ctx)
    return {name: len(value["text"]) for name, value in ctx.inputs.items()}


def measure_inputs_in_thread(ctx: perdure.Context) -> Any:
    tasks.record(ctx)
    return {name: len(value["text"]) for name, value in ctx.inputs.items()}


async def change(ctx: perdure.Context, value: Any) -> Any:
    """Changes what it was given; nobody else may notice."""
    tasks.record(ctx)
    value["text"] = "changed"
    value["more"] = 1
    return len(value)


async def items(ctx: perdure.Context, count: int, size: int) -> Any:
    tasks.record(ctx)
    return [{"number": number, "text": "i" * size} for number in range(count)]


async def checkpoint(ctx: perdure.Context, size: int = 100_000) -> Any:
    """Fails after its checkpoint; the next attempt finds it."""
    tasks.record(ctx)
    if ctx.last_checkpoint is None:
        await ctx.checkpoint({"text": "c" * size})
        await ctx.checkpoint({"text": "d" * size, "small": False})
        await ctx.checkpoint({"text": "e" * size, "last": True})
        raise RuntimeError("after the checkpoint")
    return {"length": len(ctx.last_checkpoint["text"]), "last": ctx.last_checkpoint.get("last")}


async def steps(ctx: perdure.Context, size: int = 100_000) -> Any:
    tasks.record(ctx)
    first = await ctx.step("first", _step, "a", size)
    second = await ctx.step("second", _step, "b", 10)
    if ctx.attempt == 1:
        raise RuntimeError("after the steps")
    return {"first": len(first), "second": second, "called": list(_called)}


_called: list[str] = []


def forget() -> None:
    _called.clear()


async def _step(name: str, size: int) -> str:
    _called.append(name)
    return name * size


def keep_many(ctx: perdure.Context, count: int, size: int) -> dict[str, int]:
    """Its first attempt does all its steps and fails; the second must find each of them."""
    done = []

    def do(number: int) -> str:
        done.append(number)
        return f"{number}" + "x" * size

    kept = [ctx.step(f"step {number}", do, number) for number in range(count)]
    if ctx.attempt == 1:
        raise ConnectionError("after the last step")
    return {"again": len(done), "kept": sum(len(one) for one in kept)}
