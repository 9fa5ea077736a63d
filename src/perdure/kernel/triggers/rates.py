"""How many runs a trigger may start now by its rate: what was used up runs out steadily (rule 46)."""

from __future__ import annotations

from perdure.kernel.triggers.mailbox import Mailbox

MARGIN_SECONDS = 0.001
"""What a look is late by, so that rounding does not make it come too early."""
_ROUNDING = 1e-6


def measure(box: Mailbox, at: float) -> float:
    """How much of the rate is used up."""
    rate = box.policy.rate
    if rate is None:
        return 0.0
    return max(0.0, box.level - max(0.0, at - box.level_at) * rate.limit / rate.per)


def count_allowed(box: Mailbox, at: float, most: int) -> int:
    """How many runs may be started now, `most` at most."""
    rate = box.policy.rate
    return most if rate is None else max(0, min(most, int(rate.limit - measure(box, at) + _ROUNDING)))


def next_allowed(box: Mailbox, at: float) -> float:
    """When a run may be started."""
    rate = box.policy.rate
    excess = 0.0 if rate is None else measure(box, at) + 1 - rate.limit
    return at if rate is None or excess <= _ROUNDING else at + excess * rate.per / rate.limit + MARGIN_SECONDS
