"""What the nodes of the order do. Plain functions, sync or async; those that want to know more take a context."""

from __future__ import annotations

import asyncio
from pathlib import Path

import perdure

BANK = Path("bank.txt")
"""The bank's book: a line for each charge, with the key it came under."""


async def check_stock(item: str, quantity: int) -> dict[str, object]:
    await asyncio.sleep(0.4)
    return {"item": item, "available": quantity * 2}


async def check_credit(ctx: perdure.Context) -> dict[str, object]:
    await asyncio.sleep(0.2)
    if ctx.attempt < 3:
        raise ConnectionError("the credit bureau does not answer")
    return {"rating": "A"}


async def quote_freight(quantity: int) -> dict[str, int]:
    await asyncio.sleep(0.7)
    return {"cost": 5 * quantity}


async def make_offer(freight: int, turn: int) -> dict[str, object]:
    await asyncio.sleep(0.3)
    price = 120 + freight - 8 * turn
    return {"price": price, "agreed": price <= 115}


async def charge(amount: int, ctx: perdure.Context) -> dict[str, int]:
    """The key is the same in every attempt, so the bank can tell a repeated charge from a second one."""
    if take(f"{ctx.idempotency_key}  {amount}\n"):
        await asyncio.sleep(30)  # the receipt takes a while; `make demo` kills the process here
    return {"amount": amount}


def take(line: str) -> bool:
    book = BANK.read_text() if BANK.exists() else ""
    if line in book:
        return False
    BANK.write_text(book + line)
    return True


async def ship(item: str, paid: int) -> dict[str, object]:
    await asyncio.sleep(0.3)
    return {"shipped": True, "item": item, "paid": paid}
