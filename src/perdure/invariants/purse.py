"""What a run has, has used, and has set aside, as the checker counts it."""

from __future__ import annotations

import copy
from typing import NamedTuple

from perdure.kernel.events import Scope
from perdure.model.money import Budget, Usage

Key = tuple[str, Scope, int | None]
Sums = dict[str, int]
DIMENSIONS = ("usd", "tokens", "calls")


class Open(NamedTuple):
    """A call that has begun: by which attempt, and what is set aside for it."""

    attempt: int
    usage: Usage


class Loan(NamedTuple):
    budget: Budget | None
    used: Sums
    open: bool


def amounts(usage: Usage | None) -> Sums:
    if usage is None:
        return dict.fromkeys(DIMENSIONS, 0)
    return {"usd": usage.usd, "tokens": usage.input + usage.output, "calls": usage.calls}


def total(*parts: Sums) -> Sums:
    return {name: sum(part[name] for part in parts) for name in DIMENSIONS}


class Purse:
    """What a run has, has used, and has set aside, as its events say."""

    def __init__(self) -> None:
        self.budget: Budget | None = None
        self.used = amounts(None)
        self.unsettled = amounts(None)
        self.open: dict[tuple[Key, str], Open] = {}
        self.loans: dict[str, Loan] = {}
        self.short: dict[Key, Usage] = {}
        """What held activations want that others have set aside."""
        self.sent: dict[Key, int] = {}
        """The attempts of those that were sent because there is room for them: what they want is as good as set aside."""

    def copy(self) -> Purse:
        other = copy.copy(self)
        other.open, other.loans, other.short = dict(self.open), dict(self.loans), dict(self.short)
        other.sent = dict(self.sent)
        return other

    @property
    def reserved(self) -> Sums:
        calls = [amounts(one.usage) for one in self.open.values()]
        return total(amounts(None), *calls, *(_left(loan) for loan in self.loans.values() if loan.open))


def _left(loan: Loan) -> Sums:
    limits = {name: 0 if loan.budget is None else getattr(loan.budget, name) or 0 for name in DIMENSIONS}
    return {name: max(limits[name] - loan.used[name], 0) for name in DIMENSIONS}
