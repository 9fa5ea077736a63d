"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class Amounts(TypedDict):
    usd: float
    tokens: int
    calls: int


class Budget(TypedDict):
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


class BudgetList(TypedDict):
    items: list[Budget]
