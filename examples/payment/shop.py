"""A shop and its payment gateway. The gateway does not answer the first time, and some cards have a low limit."""

import perdure

LIMITS = {"visa": 100.0, "master": 1_000.0}


def reserve(order: str) -> dict[str, str]:
    return {"order": order, "state": "reserved"}


def release(order: str) -> dict[str, str]:
    return {"order": order, "state": "released"}


def charge(amount: float, cards: list[str], turn: int, ctx: perdure.Context) -> dict[str, object]:
    """One card in each turn. A real gateway would be given `ctx.idempotency_key`, which is the same in every attempt."""
    if turn == 1 and ctx.attempt == 1:
        raise TimeoutError("the gateway does not answer")
    card = cards[turn - 1] if turn <= len(cards) else ""
    return {"status": "charged" if amount <= LIMITS.get(card, 0) else "declined", "card": card}


def give_up(order: str) -> None:
    raise perdure.Abort(f"order {order} was not paid")
