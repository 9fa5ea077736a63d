"""Budgets over several runs: what a tenant may use in a period, in all or of one workflow (rule 85). It must not know HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from perdure.errors import NotFound, Refused
from perdure.model.money import DIMENSIONS, MILLIONTHS, MOST, to_millionths
from perdure.purses import BudgetRow, Purse
from perdure.runtime.coordinator.projections import day_of
from perdure.runtime.coordinator.purses import end_of_period
from perdure.service.errors import Invalid, Trouble
from perdure.service.views import View

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy

MOST_BUDGETS = 1_000
SHARE = 0.1
"""How much of the budget of a tenant one activation may use, where nobody says."""
_SCOPE = re.compile(r"tenant|workflow:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
"""A workflow has no other name: one that reads as another would hold for none."""


class Budgets:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    async def list(self) -> View:
        """The budgets of the tenant and of its workflows, each with what was used of it."""
        return {"items": [self._describe(one) for one in await self._read()]}

    async def get(self, scope: str) -> View:
        found = next((one for one in await self._read(scope) if one.scope == scope), None)
        if found is None:
            raise _missing(scope)
        return self._describe(found)

    async def set(
        self,
        scope: str,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        per: Literal["day", "month"] = "month",
        share: float | None = None,
    ) -> View:
        """Set the budget of a scope, in place of the one that it has."""
        troubles = [*_name_troubles(scope), *_amount_troubles(usd, tokens, calls, share)]
        if troubles:
            raise Invalid(troubles[0].message, troubles)
        known = await self._read()
        if len(known) >= MOST_BUDGETS and all(one.scope != scope for one in known):
            raise Refused(f"there are {MOST_BUDGETS:,} budgets already, and no more are kept", code="too_many_budgets")
        if share is None:
            share = SHARE if scope == "tenant" else 1.0
        limits = {"usd": None if usd is None else to_millionths(usd), "tokens": tokens, "calls": calls}
        row = BudgetRow(tenant=self._tenancy.tenant, scope=scope, per=per, share=share, **limits)
        await self._tenancy.archive.save_budget(row)
        return await self.get(scope)

    async def delete(self, scope: str) -> View:
        """Take the limit away. What is counted stays."""
        before = await self.get(scope)
        if not await self._tenancy.archive.delete_budget(self._tenancy.tenant, scope):
            raise _missing(scope)
        return before

    async def _read(self, scope: str = "") -> Sequence[Purse]:
        engine = self._tenancy.engine
        day = day_of(engine.clock.now())
        workflow = scope.partition(":")[2]
        return await engine.journal.read_purses(
            self._tenancy.tenant, day, f"{day[:8]}01", workflow=workflow, limit=MOST_BUDGETS
        )

    def _describe(self, purse: Purse) -> View:
        limits = {one: getattr(purse, one) for one in DIMENSIONS}
        used = {one: getattr(purse, f"spent_{one}") for one in DIMENSIONS}
        held = {one: max(getattr(purse, f"held_{one}"), 0) for one in DIMENSIONS}
        return {
            "scope": purse.scope,
            **_shown(limits),
            "per": purse.per,
            "share": purse.share,
            "ends_at": end_of_period(purse.per, self._tenancy.engine.clock.now()),
            "used": _shown(used),
            "reserved": _shown(held),
        }


def _shown(amounts: Mapping[Any, Any]) -> dict[str, Any]:
    usd = amounts["usd"]
    return {**amounts, "usd": None if usd is None else usd / MILLIONTHS}


def _missing(scope: str) -> NotFound:
    return NotFound(f"there is no budget {scope[:80]!r}; `perdure budgets list` shows them")


def _name_troubles(scope: str) -> list[Trouble]:
    if _SCOPE.fullmatch(scope):
        return []
    message = f"{scope[:80]!r} is no scope of a budget; it is 'tenant', or 'workflow:' with a name"
    return [Trouble("scope", "wrong_value", message)]


def _amount_troubles(usd: Any, tokens: Any, calls: Any, share: Any) -> list[Trouble]:
    found = []
    for name, amount in (("tokens", tokens), ("calls", calls)):
        if amount is not None and not 0 <= amount <= MOST:
            found.append(Trouble(name, "wrong_value", f"{name} of a budget is a whole number from 0 to {MOST:,}"))
    try:
        to_millionths(0 if usd is None else usd)
    except ValueError as error:
        found.append(Trouble("usd", "wrong_value", str(error)))
    if share is not None and not 0 < share <= 1:
        found.append(Trouble("share", "wrong_value", "share of a budget is more than 0, and at most 1"))
    if usd is None and tokens is None and calls is None:
        found.append(Trouble("usd", "wrong_value", "a budget that limits nothing; give usd, tokens or calls"))
    return found
