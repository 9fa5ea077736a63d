"""A shop and its payment gateway. The gateway is slow to answer once, and declines large amounts."""

import weft

LIMIT = 500.0


def reserve(order: str) -> dict[str, str]:
    return {"order": order, "state": "reserved"}


def release(order: str) -> dict[str, str]:
    return {"order": order, "state": "released"}


def charge(order: str, amount: float, turn: int, ctx: weft.Context) -> dict[str, object]:
    if turn == 1 and ctx.attempt == 1:
        raise TimeoutError("the gateway does not answer")
    amount = amount / turn
    return {"status": "declined" if amount > LIMIT else "charged", "amount": amount, "turn": turn}


def give_up(order: str) -> None:
    raise weft.Abort(f"order {order} was not paid")
