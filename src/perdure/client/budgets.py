"""Budgets over several runs: of the tenant, and of its workflows."""

from __future__ import annotations

from typing import Literal

from perdure.client import views as v
from perdure.client.http_calls import Call, delete, get, put
from perdure.client.operations import AsyncNoun, Noun, operation


class BudgetsCalls:
    """What the tenant may use in a day or a month, in all (`tenant`) or of one workflow (`workflow:NAME`)."""

    @operation
    def list(self) -> Call[v.BudgetList]:
        """The budgets of the tenant and of its workflows, each with what was used of it."""
        return get("budgets")

    @operation
    def get(self, scope: str) -> Call[v.Budget]:
        """The budget of one scope."""
        return get("budgets", scope)

    @operation
    def set(
        self,
        scope: str,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        per: Literal["day", "month"] = "month",
        share: float | None = None,
    ) -> Call[v.Budget]:
        """Set the budget of a scope, in place of the one that it has."""
        given = {"usd": usd, "tokens": tokens, "calls": calls, "share": share}
        return put("budgets", scope, body={"per": per} | {name: one for name, one in given.items() if one is not None})

    @operation
    def delete(self, scope: str) -> Call[v.Budget]:
        """Take the limit away. What is counted stays."""
        return delete("budgets", scope)


class Budgets(BudgetsCalls, Noun):
    __doc__ = BudgetsCalls.__doc__


class AsyncBudgets(BudgetsCalls, AsyncNoun):
    __doc__ = BudgetsCalls.__doc__
