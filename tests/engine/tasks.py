"""Functions that the workflows of these tests call. Effects are lines in the file `PERDURE_TEST_EFFECTS` names."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import perdure

seen: list[tuple[str, int]] = []
"""(idempotency key, attempt) of every call in this process, in order."""
gates: dict[str, asyncio.Event] = {}
"""What `gate` waits for, by name."""
cancelled: list[str] = []
thread_gates: dict[str, threading.Event] = {}


def gate_of(name: str) -> asyncio.Event:
    return gates.setdefault(name, asyncio.Event())


def record(ctx: perdure.Context, what: str = "run") -> None:
    """One line, appended in one write: whole or not there, also when the process is killed."""
    seen.append((ctx.idempotency_key, ctx.attempt))
    path = os.environ.get("PERDURE_TEST_EFFECTS")
    if path:
        line = f"{what} {ctx.idempotency_key} {ctx.attempt} {time.time()} {os.getpid()}\n".encode()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def correlated(ctx: perdure.Context) -> str:
    return ctx.correlation_id


async def echo(ctx: perdure.Context, value: Any = None) -> Any:
    record(ctx)
    return {"value": value, "node": ctx.node, "attempt": ctx.attempt}


def echo_in_thread(ctx: perdure.Context, value: Any = None) -> Any:
    record(ctx)
    return {"value": value}


async def slowly(ctx: perdure.Context, most: float = 0.01) -> Any:
    """Some work, of a length that nobody knows."""
    await asyncio.sleep(random.random() * most)
    record(ctx)
    await asyncio.sleep(random.random() * most)
    return {"done": bool(ctx.scope) and ctx.scope[-1] >= 3}


async def add(ctx: perdure.Context, a: Any = 0, b: Any = 0) -> Any:
    record(ctx)
    return {"sum": a + b}


async def count(ctx: perdure.Context, upto: int) -> Any:
    """For loops: done in the iteration `upto`."""
    record(ctx)
    return {"done": ctx.scope[-1] >= upto, "at": ctx.scope[-1]}


async def pay(ctx: perdure.Context, answers: list[Any]) -> Any:
    """For loops: what a payment service answers to each call, the last one for ever."""
    record(ctx)
    return answers[min(ctx.scope[-1], len(answers)) - 1]


async def fail(ctx: perdure.Context, times: int = 1_000_000) -> Any:
    record(ctx)
    if ctx.attempt <= times:
        raise RuntimeError(f"attempt {ctx.attempt} fails, as it should")
    return {"attempt": ctx.attempt}


async def fail_while(ctx: perdure.Context, path: str) -> Any:
    """Fails as long as the file is there."""
    record(ctx)
    if Path(path).exists():  # noqa: ASYNC240
        raise perdure.Abort("the file is there")
    return {"attempt": ctx.attempt}


async def gate(ctx: perdure.Context, name: str) -> Any:
    """Runs until the test opens the gate."""
    record(ctx)
    try:
        await gate_of(name).wait()
    except asyncio.CancelledError:
        cancelled.append(ctx.node)
        raise
    return {"passed": name}


async def wait_for_file(ctx: perdure.Context, path: str) -> Any:
    record(ctx, "begin")
    while not Path(path).exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.005)
    record(ctx, "end")
    return {"passed": path}


async def tells(ctx: perdure.Context, paths: list[str]) -> Any:
    """Say how far it is, and wait for a file, once for each."""
    for done, path in enumerate(paths, 1):
        ctx.progress({"done": done, "total": len(paths), "text": "reading"})
        await wait_for_file(ctx, path)


async def undo(ctx: perdure.Context, what: Any = None) -> Any:
    record(ctx)
    return {"undone": what}


async def die(ctx: perdure.Context, times: int = 1_000_000) -> Any:
    record(ctx)
    if ctx.attempt <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"survived": ctx.attempt}


async def size(ctx: perdure.Context, value: list[Any]) -> Any:
    record(ctx)
    return {"size": len(value)}


async def crowd(ctx: perdure.Context, item: int) -> Any:
    """How many of these run at the same time."""
    record(ctx)
    crowds["now"] += 1
    crowds["most"] = max(crowds["most"], crowds["now"])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    crowds["now"] -= 1
    return item * 2


crowds = {"now": 0, "most": 0}


def reset() -> None:
    seen.clear()
    gates.clear()
    cancelled.clear()
    thread_gates.clear()
    crowds.update(now=0, most=0)


def _say(ctx: perdure.Context, what: str) -> None:
    ctx.log.debug("nobody keeps this")
    ctx.log.info("%s %d", what, 1)
    ctx.log.warning("%s %d", what, 2)
    try:
        raise ValueError(what)
    except ValueError:
        ctx.log.exception("it broke")


async def says(ctx: perdure.Context, what: str) -> None:
    _say(ctx, what)


def says_in_thread(ctx: perdure.Context, what: str) -> None:
    _say(ctx, what)


def _all(nap: float) -> dict[str, Any]:
    return {
        "ok": perdure.Approval(show={"sum": 7}, approvers=["ann"]),
        "paid": perdure.Signal("payment"),
        "nap": perdure.Sleep(nap),
        "sub": perdure.Child("child", {"n": 41}),
    }


async def asks_for_all(ctx: perdure.Context, nap: float) -> Any:
    record(ctx)
    return {"attempt": ctx.attempt, **await ctx.ask(_all(nap))}


def asks_for_all_in_a_thread(ctx: perdure.Context, nap: float) -> Any:
    record(ctx)
    return {"attempt": ctx.attempt, **ctx.ask(_all(nap))}


async def asks_for_child(ctx: perdure.Context, name: str, counts: bool = False) -> Any:
    answer = await ctx.ask({"sub": perdure.Child(name)})
    return {"size": len(answer["sub"]["output"]["text"])} if counts else answer


async def asks_for_signal(ctx: perdure.Context) -> Any:
    record(ctx)
    return {"paid": await ctx.signal("payment"), "attempt": ctx.attempt}


async def large(ctx: perdure.Context, size: int) -> Any:
    return {"text": "x" * size}


async def pays_once(ctx: perdure.Context) -> Any:
    def pay() -> str:
        record(ctx)
        if len(seen) == 1:
            raise RuntimeError("nobody knows whether it was paid")
        return "paid"

    return await ctx.step("pay", pay, effect="at_most_once")


async def calls(ctx: perdure.Context, count: int = 1, used: int = 1, estimate: int = 1, at_once: bool = False) -> Any:
    """Make calls that may use `estimate` each and use `used`."""

    async def call(number: int) -> perdure.Spent:
        record(ctx)
        await asyncio.sleep(0.001)
        return perdure.Spent(number, perdure.Usage(calls=used, input=10 * used, usd=0.001 * used))

    def one(number: int) -> Any:
        reserve = perdure.Usage(calls=estimate, usd=0.001 * estimate)
        return ctx.step(f"call{number}", call, number, reserve=reserve, model="small")

    if at_once:
        return await asyncio.gather(*map(one, range(count)))
    return [await one(number) for number in range(count)]


def calls_in_a_thread(ctx: perdure.Context) -> Any:
    def call() -> perdure.Spent:
        record(ctx)
        return perdure.Spent("done", perdure.Usage(output=7))

    return ctx.step("call", call, reserve=perdure.Usage(output=50))


async def calls_nobody(ctx: perdure.Context) -> Any:
    async def call() -> None:
        record(ctx)
        raise perdure.NotDone("no connection")

    try:
        await ctx.step("call", call, reserve=perdure.Usage(calls=3))
    except perdure.NotDone:
        return await ctx.step("again", lambda: "done", reserve=perdure.Usage(calls=3))
