"""What a context makes of the values that go through it: answers to what a handler asked, results of steps, checkpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from perdure.model import money
from perdure.spending import Spent, counted


async def read_later(answers: Awaitable[dict[str, Any]], name: str, read: Callable[[Any], Any]) -> Any:
    return read((await answers)[name])


def payload(answer: dict[str, Any]) -> Any:
    if answer.get("timed_out"):
        raise TimeoutError("the signal did not come in time")
    return answer.get("payload")


def unpack(value: Any) -> tuple[money.Usage | None, Any]:
    """What a step used, if it says so, and its value."""
    return (counted(value.usage), value.value) if isinstance(value, Spent) else (None, value)


def split(checkpoint: Any) -> tuple[Any, dict[str, Any]]:
    """Split what the journal keeps into checkpoint and steps, which share one place. What a worker in another language
    wrote is all checkpoint."""
    if checkpoint is None:
        return None, {}
    if isinstance(checkpoint, dict) and checkpoint.keys() == {"data", "steps"}:
        return msgspec.to_builtins(checkpoint["data"]), dict(checkpoint["steps"])
    return msgspec.to_builtins(checkpoint), {}
