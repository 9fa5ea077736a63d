"""What a step may use and has used, in the words of a handler (`ctx.step(…, reserve=…)`).

    Usage       tokens, calls, dollars
    Spent       returned by a step: its value, and what it used

The rules are 82 and 83; this file owns the words, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from perdure.model import money
from perdure.model.budgets import BUDGET_KEYS, make_budget
from perdure.plain_text import find_text_trouble

LONGEST_MODEL = 200


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may use, or has used. `usd` is in dollars and is rounded up to a millionth; None: the price is not known."""

    input: int = 0
    """All input tokens, those from a cache included."""
    cached: int = 0
    """Input tokens that a cache gave."""
    written: int = 0
    """Input tokens that a cache took."""
    output: int = 0
    reasoning: int = 0
    """Output tokens that the model only thought."""
    calls: int = 1
    usd: float | Decimal | str | None = 0


class Spent(msgspec.Struct, frozen=True):
    """The value of a step, with what it used."""

    value: Any
    usage: Usage


class Refused(Exception):
    """A call may not begin: the budget has no room for it. For workers; handlers are stopped by `Suspended`."""


class Terms(NamedTuple):
    """On which terms a step begins."""

    once: bool = False
    reserve: money.Usage | None = None
    limit: money.Budget | None = None
    model: str = ""

    @property
    def ask(self) -> bool:
        """Whether it begins only by leave of the journal."""
        return self.once or self.reserve is not None


PLAIN = Terms()


class Short(NamedTuple):
    """The step that was refused, and its terms."""

    step: str
    terms: Terms


def counted(usage: Usage) -> money.Usage:
    """The usage as it is counted. Raises TypeError and ValueError."""
    found = {}
    for name in money.AMOUNTS:
        amount = getattr(usage, name)
        if name == "usd":
            continue
        if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= money.MOST:
            raise ValueError(f"{name} of a usage is a whole number from 0 to {money.MOST:,}, got {amount!r}")
        found[name] = amount
    usd = 0 if usage.usd is None else money.to_millionths(usage.usd)
    return money.Usage(**found, usd=usd, priced=usage.usd is not None)


def read_terms(keys: dict[str, Any]) -> tuple[Terms, dict[str, Any]]:
    """The terms among the keyword arguments of a step, and the others, which are its function's."""
    if not keys.keys() & {"effect", "reserve"}:
        return PLAIN, keys
    left = dict(keys)
    once = left.get("effect") == "at_most_once"
    if once or left.get("effect") == "idempotent":
        del left["effect"]
    if "reserve" not in left:
        return Terms(once), left
    if not isinstance(left["reserve"], Usage):  # as an argument of the function it would set nothing aside
        kind = type(left["reserve"]).__name__
        raise TypeError(
            f"reserve says what a step may use at most, as a perdure.Usage, got {kind}: perdure.Usage(calls=1)"
        )
    model = left.pop("model", "")
    if not isinstance(model, str) or (model and find_text_trouble(model, LONGEST_MODEL) is not None):
        raise ValueError(f"model names what is called, in up to {LONGEST_MODEL} characters")
    return Terms(once, counted(left.pop("reserve")), as_budget(left.pop("limit", None)), model), left


def as_budget(given: Any) -> money.Budget | None:
    """The budget that a mapping with usd, tokens and calls means. Raises ValueError."""
    if given is None or isinstance(given, money.Budget):
        return given
    if not isinstance(given, Mapping) or given.keys() - set(BUDGET_KEYS):
        raise ValueError(f"a budget has {', '.join(BUDGET_KEYS)}, got {sorted(map(str, given))}")
    for name in ("tokens", "calls"):
        amount = given.get(name)
        if amount is not None and (isinstance(amount, bool) or not isinstance(amount, int) or amount < 0):
            raise ValueError(f"{name} of a budget is a whole number of at least 0, got {amount!r}")
    if given.get("on_exceed", "pause") not in ("pause", "fail"):
        raise ValueError(f"on_exceed of a budget is pause or fail, got {given['on_exceed']!r}")
    return make_budget({name: value for name, value in given.items() if value is not None})
