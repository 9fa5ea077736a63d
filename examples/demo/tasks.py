"""What the demo's nodes do. Plain functions; the only special one kills its own process, once."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import weft

FOLDER = os.environ.get("DEMO_FOLDER")
"""Set by `make demo`: where the ledger is, and where the crash leaves its mark. Otherwise nothing is killed."""


async def check_stock(item: str, quantity: int) -> dict[str, object]:
    await asyncio.sleep(0.4)
    return {"item": item, "available": quantity * 2}


async def check_credit(ctx: weft.Context) -> dict[str, object]:
    await asyncio.sleep(0.2)
    if ctx.attempt < 3:
        raise ConnectionError("the credit bureau does not answer")
    return {"rating": "A", "asked": ctx.attempt}


async def quote_freight(quantity: int) -> dict[str, object]:
    await asyncio.sleep(0.7)
    return {"cost": 5 * quantity}


def make_offer(stock: dict[str, object], credit: dict[str, object], freight: dict[str, int]) -> dict[str, object]:
    return {"price": 120 + freight["cost"], "rating": credit["rating"]}


async def haggle(price: int, turn: int) -> dict[str, object]:
    await asyncio.sleep(0.3)
    offered = price - 8 * turn
    return {"price": offered, "agreed": offered <= 115}


def charge(amount: int, ctx: weft.Context) -> dict[str, object]:
    """Charge the customer: under its idempotency key, so that a second attempt does not charge twice."""
    if FOLDER is not None:
        ledger, crashed = Path(FOLDER, "ledger.txt"), Path(FOLDER, "crashed")
        charged = ledger.read_text().split() if ledger.exists() else []
        if ctx.idempotency_key not in charged:
            ledger.write_text("".join(f"{line}\n" for line in [*charged, ctx.idempotency_key]))
        if not crashed.exists():
            crashed.touch()
            os.kill(os.getpid(), signal.SIGKILL)  # the money is taken, and the process is gone before it can say so
    return {"amount": amount}


async def ship(item: str, paid: int) -> dict[str, object]:
    await asyncio.sleep(0.3)
    return {"shipped": True, "item": item, "paid": paid}
