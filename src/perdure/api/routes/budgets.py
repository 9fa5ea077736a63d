"""Budgets over several runs over HTTP. What they are stands in `perdure.service.budgets`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.request_reader import Body
from perdure.api.schemas import budget_schemas as s

routes = Routes("budgets")
_MOST = 10**12


class SetBudget(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    usd: Annotated[float, Meta(description="Dollars.", ge=0, le=1_000_000)] | None = None
    tokens: Annotated[int, Meta(description="Input and output tokens.", ge=0, le=_MOST)] | None = None
    calls: Annotated[int, Meta(ge=0, le=_MOST)] | None = None
    per: Annotated[Literal["day", "month"], Meta(description="In UTC.")] = "month"
    share: (
        Annotated[
            float,
            Meta(
                description="The part that one node of a run may use at most; 0.1 of a tenant's unless said.",
                gt=0,
                le=1,
            ),
        ]
        | None
    ) = None


@routes.get("/budgets", Permission.COSTS_READ, s.BudgetList)
async def list_budgets(call: Call) -> Any:
    """List the budgets of the tenant and of its workflows, each with what was used of it in this period."""
    return await call.service.budgets.list()


@routes.get("/budgets/{scope}", Permission.COSTS_READ, s.Budget)
async def get_budget(call: Call) -> Any:
    """Get the budget of a scope: `tenant`, or `workflow:` with its name."""
    return await call.service.budgets.get(call.path("scope"))


@routes.put("/budgets/{scope}", Permission.COSTS_WRITE, s.Budget)
async def set_budget(call: Call, body: SetBudget) -> Any:
    """Set the budget of a scope, in place of the one that it has. It holds for calls that begin a second from now."""
    return await call.service.budgets.set(
        call.path("scope"), usd=body.usd, tokens=body.tokens, calls=body.calls, per=body.per, share=body.share
    )


@routes.delete("/budgets/{scope}", Permission.COSTS_WRITE, s.Budget)
async def delete_budget(call: Call) -> Any:
    """Take the limit of a scope away. What was used stays counted."""
    return await call.service.budgets.delete(call.path("scope"))
