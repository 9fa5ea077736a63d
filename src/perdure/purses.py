"""Budgets over several runs: what a store must offer for them (rule 85). Coordinators read them, operators set them.

What is used, and what is set aside for calls under way, is in the ledger, which appends write. Stores add up and compare nothing.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec


class BudgetRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant may use in a period, in all or of one workflow (rule 85). Money is in millionths."""

    tenant: str
    scope: str
    """`tenant`, or `workflow:` with its name."""
    usd: int | None = None
    tokens: int | None = None
    calls: int | None = None
    per: Literal["day", "month"] = "month"
    share: float = 1.0
    """How much of it one activation may use at most."""


class Purse(BudgetRow, frozen=True, kw_only=True):
    """A budget, with what was used of it since its period began, and what is set aside for calls under way."""

    spent_usd: int = 0
    spent_tokens: int = 0
    spent_calls: int = 0
    held_usd: int = 0
    held_tokens: int = 0
    held_calls: int = 0


class PurseReader(Protocol):
    async def read_purses(
        self, tenant: str, day: str, month: str, *, workflow: str = "", limit: int = 1000
    ) -> list[Purse]:
        """The budgets of a tenant, by scope, with what was used since that day, or since that month began. With a `workflow` only
        those that hold for its runs."""
        ...


class BudgetKeeper(Protocol):
    async def save_budget(self, budget: BudgetRow) -> None:
        """Set the budget of its scope; one that is there is replaced."""
        ...

    async def delete_budget(self, tenant: str, scope: str) -> bool:
        """Whether there was one."""
        ...
