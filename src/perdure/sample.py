"""The sample that `perdure dev` shows on an empty database: an order with checks, one of which fails at first, a loop, a person and a
payment. Each step takes a moment, so that it can be watched, and be interrupted.

It is a workflow like any other: its definition is data, and its functions are named in it.
"""

from __future__ import annotations

from typing import Any

from perdure.clock import system
from perdure.runtime.worker.context import Context

NAME = "sample-order"
RUN_ID = "sample"
APPROVER = "you"
STEP_SECONDS = 2.0


class NoAnswer(Exception):
    """The office that is asked does not answer at first."""


def _step(id: str, function: str, *dependencies: str, **more: Any) -> dict[str, Any]:
    config = {"function": f"perdure.sample:{function}", "args": more.pop("args", {})}
    return {"id": id, "type": "task", "dependencies": list(dependencies), "config": config, **more}


DEFINITION: dict[str, Any] = {
    "name": NAME,
    "description": "An order: three checks at once, packing parcel by parcel, a person who agrees, a payment.",
    "nodes": [
        {
            "id": "order",
            "type": "transform",
            "config": {"value": {"item": "lamp", "quantity": 3, "customer": "Ada", "total": "31.50"}},
        },
        _step("stock", "check_stock", "order", args={"quantity": "{{ order.quantity }}"}),
        _step(
            "credit",
            "check_credit",
            "order",
            args={"customer": "{{ order.customer }}"},
            retry={"max_attempts": 5, "backoff_ms": 1000, "jitter": False},
        ),
        _step("freight", "ask_freight", "order", args={"quantity": "{{ order.quantity }}"}),
        {
            "id": "offer",
            "type": "transform",
            "dependencies": ["stock", "credit", "freight"],
            "config": {"value": {"total": "{{ order.total }}", "freight": "{{ freight.price }}"}},
        },
        _step(
            "pack",
            "pack_parcel",
            "offer",
            args={"number": "{{ loop.iteration }}"},
            loop={"condition": "output.packed < ctx.order.output.quantity", "max_iterations": 5},
        ),
        {
            "id": "confirm",
            "type": "human",
            "dependencies": ["pack"],
            "config": {"approvers": [APPROVER], "title": "Charge Ada 31.50 for three lamps?"},
        },
        _step("charge", "charge", "confirm", args={"total": "{{ offer.total }}"}),
        _step("ship", "ship", "charge"),
    ],
}


async def check_stock(quantity: int) -> dict[str, Any]:
    await system.sleep(STEP_SECONDS)
    return {"left": 44 - quantity}


async def check_credit(ctx: Context, customer: str) -> dict[str, Any]:
    await system.sleep(STEP_SECONDS * 0.6)
    if ctx.attempt == 1:
        raise NoAnswer("the credit office does not answer; it will be asked again")
    return {"customer": customer, "score": 0.82}


async def ask_freight(quantity: int) -> dict[str, Any]:
    await system.sleep(STEP_SECONDS * 1.4)
    return {"price": f"{1.4 * quantity:.2f}"}


async def pack_parcel(number: int) -> dict[str, Any]:
    await system.sleep(STEP_SECONDS)
    return {"packed": number}


async def charge(total: str) -> dict[str, Any]:
    await system.sleep(STEP_SECONDS)
    return {"paid": total}


async def ship() -> dict[str, Any]:
    await system.sleep(STEP_SECONDS)
    return {"parcel": "P-1"}
