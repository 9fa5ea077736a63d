"""The types of answers about budgets over several runs. See `schemas.py`."""

from __future__ import annotations

from typing import Literal

from perdure.api.schemas.general_schemas import View


class Amounts(View, frozen=True, kw_only=True):
    usd: float
    tokens: int
    calls: int


class Budget(View, frozen=True, kw_only=True):
    scope: str
    """`tenant`, or `workflow:` with its name."""
    usd: float | None
    """Null: not limited, as with the next two."""
    tokens: int | None
    calls: int | None
    per: Literal["day", "month"]
    share: float
    """The part that one node of a run may use at most."""
    ends_at: float
    """When the period ends."""
    used: Amounts
    """In this period, exactly."""
    reserved: Amounts
    """Set aside for calls under way."""


class BudgetList(View, frozen=True):
    items: list[Budget]
