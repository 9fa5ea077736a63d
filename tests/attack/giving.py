"""Functions that give large things, for tests of who waits meanwhile."""

from __future__ import annotations

from typing import Any

from perdure import Context
from perdure.outcomes import Failure

MANY = 280_000
"""Lists that are just not too many to be read again."""


def many() -> list[Any]:
    return [[] for _ in range(MANY)]


def plain() -> Any:
    return many()


async def on_the_loop() -> Any:
    return many()


async def in_a_step(ctx: Context) -> int:
    async def give() -> Any:
        return many()

    return len(await ctx.step("give", give))


async def in_a_checkpoint(ctx: Context) -> int:
    await ctx.checkpoint(many())
    return len(ctx.last_checkpoint)


async def in_details() -> None:
    raise Failure("refused", "no", retryable=False, details={"all": many()})
