"""What calls use, and how much of it they may: tokens, calls, and money in millionths of a dollar.

People and programs see dollars as decimal numbers; events, states and the ledger hold whole millionths, rounded up, so that sums
are exact.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any, Literal

import msgspec

MILLIONTHS = 1_000_000
MOST = 10**12
"""The most that one call may use or one budget allow, of anything: sums of it stay exact in every store."""
AMOUNTS = ("input", "cached", "written", "output", "reasoning", "calls", "usd")
DIMENSIONS: tuple[Literal["usd", "tokens", "calls"], ...] = ("usd", "tokens", "calls")


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was used, or is reserved. `usd` is in millionths."""

    input: int = 0
    """All input tokens; `cached` and `written` are the part of them that a cache gave or took."""
    cached: int = 0
    written: int = 0
    output: int = 0
    """All output tokens; `reasoning` is a part of them."""
    reasoning: int = 0
    calls: int = 0
    usd: int = 0
    priced: bool = True
    """False: the price of some of it is not known, and `usd` does not hold it."""

    @property
    def tokens(self) -> int:
        return self.input + self.output

    def of(self, dimension: Literal["usd", "tokens", "calls"]) -> int:
        return self.tokens if dimension == "tokens" else getattr(self, dimension)

    def __add__(self, other: Usage) -> Usage:
        sums = {name: getattr(self, name) + getattr(other, name) for name in AMOUNTS}
        return Usage(**sums, priced=self.priced and other.priced)

    def __sub__(self, other: Usage) -> Usage:
        """What this is more than an earlier sum of the same; nothing is less than zero."""
        left = {name: max(getattr(self, name) - getattr(other, name), 0) for name in AMOUNTS}
        return Usage(**left, priced=self.priced or not other.priced)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in AMOUNTS) or not self.priced

    def shown(self) -> dict[str, Any]:
        """As people and programs see it."""
        found: dict[str, Any] = {name: getattr(self, name) for name in AMOUNTS if name != "usd"}
        return {**found, "usd": self.usd / MILLIONTHS, "priced": self.priced}


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much may be used. What is None is not limited."""

    usd: int | None = None
    tokens: int | None = None
    calls: int | None = None
    on_exceed: Literal["pause", "fail"] = "pause"

    def of(self, dimension: Literal["usd", "tokens", "calls"]) -> int | None:
        found: int | None = getattr(self, dimension)
        return found

    def left_after(self, used: Usage) -> Budget:
        """What is left of it."""
        left = {d: None if self.of(d) is None else max((self.of(d) or 0) - used.of(d), 0) for d in DIMENSIONS}
        return Budget(**left, on_exceed=self.on_exceed)

    def as_usage(self) -> Usage:
        """The whole of it as a reservation."""
        return Usage(input=self.tokens or 0, calls=self.calls or 0, usd=self.usd or 0)

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = {d: self.of(d) for d in ("tokens", "calls") if self.of(d) is not None}
        if self.usd is not None:
            found["usd"] = self.usd / MILLIONTHS
        return {**found, "on_exceed": self.on_exceed}


class Room(msgspec.Struct, frozen=True):
    """What a budget over several runs leaves for the rest of its period, as far as this coordinator knows (rule 85)."""

    scope: str
    """`tenant`, or `workflow:` with its name."""
    left: Budget
    """Without what was used in this period."""
    free: Budget
    """Also without what is set aside for calls under way."""
    until: float
    """When the period ends."""
    share: Budget | None = None
    """The most that one activation may use of it."""


NOTHING = Usage()


def least(*budgets: Budget | None) -> Budget | None:
    """The budget that keeps within all of these; the first says what happens at its end."""
    given = [budget for budget in budgets if budget is not None]
    if not given:
        return None
    limits: dict[str, int | None] = {}
    for dimension in DIMENSIONS:
        known = [amount for budget in given if (amount := budget.of(dimension)) is not None]
        limits[dimension] = min(known) if known else None
    return Budget(**limits, on_exceed=given[0].on_exceed)


def changed(budget: Budget | None, given: Budget) -> Budget:
    """The budget with the limits that are given anew; the others stay."""
    old = budget or Budget()
    limits = {d: old.of(d) if given.of(d) is None else given.of(d) for d in DIMENSIONS}
    return Budget(**limits, on_exceed=given.on_exceed if budget is None else old.on_exceed)


def to_millionths(dollars: Any) -> int:
    """Dollars as whole millionths, rounded up. Raises ValueError for what is no amount of money."""
    if isinstance(dollars, bool) or not isinstance(dollars, int | float | str | Decimal):
        raise ValueError(f"{dollars!r} is no amount of dollars")
    try:
        exact = Decimal(repr(dollars) if isinstance(dollars, float) else str(dollars))
        found = int((exact * MILLIONTHS).to_integral_value(rounding=ROUND_CEILING))
    except (InvalidOperation, ValueError, OverflowError):
        raise ValueError(f"{dollars!r} is no amount of dollars") from None
    if not 0 <= found <= MOST:
        raise ValueError(f"{dollars!r} dollars are not between 0 and {MOST // MILLIONTHS:,}")
    return found


def bounded(usage: Usage) -> Usage:
    """The usage with amounts that can be summed, whichever worker wrote it."""
    kept = {name: min(max(getattr(usage, name), 0), MOST) for name in AMOUNTS}
    return Usage(**kept, priced=usage.priced)
