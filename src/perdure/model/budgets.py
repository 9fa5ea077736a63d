"""How a budget is written: in dollars, tokens and calls."""

from __future__ import annotations

from typing import Any

from perdure.model.fields import Fields, as_fields
from perdure.model.money import MILLIONTHS, MOST, Budget, to_millionths

BUDGET_KEYS = ("usd", "tokens", "calls", "on_exceed")
MOST_DOLLARS = MOST // MILLIONTHS
ON_EXCEED = ("pause", "fail")


def read_budget(fields: Fields, key: str) -> dict[str, Any] | None:
    """The canonical form of a budget: dollars as a number."""
    if fields.data.get(key) is None:
        return None
    inner = as_fields(fields.data[key], (*fields.path, key), f"{key} of {fields.what}", fields.problems, BUDGET_KEYS)
    if inner is None:
        return None
    found = {
        "usd": inner.number("usd", 0, MOST_DOLLARS),
        "tokens": inner.integer("tokens", 0, MOST),
        "calls": inner.integer("calls", 0, MOST),
    }
    budget: dict[str, Any] = {name: amount for name, amount in found.items() if amount is not None}
    if not budget and not any(inner.has(name) for name in found):
        fields.error("wrong_value", key, f"'{key}' of {fields.what} limits nothing; give usd, tokens or calls")
    if inner.choice("on_exceed", ON_EXCEED) == "fail":
        budget |= {"on_exceed": "fail"}
    return budget or None


def make_budget(canonical: Any) -> Budget | None:
    """The budget that a canonical form means."""
    if not canonical:
        return None
    usd = canonical.get("usd")
    return Budget(**{**canonical, "usd": None if usd is None else to_millionths(usd)})
