"""What using, reserving and lending do to the state of a run (rules 82 to 84)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.kernel.state import Activation, State
from perdure.kernel.values import Lent, Reserved
from perdure.model.money import NOTHING, Budget, Usage


def _change(state: State, **fields: Any) -> None:
    state.money = msgspec.structs.replace(state.money, **fields)


def reserve(state: State, activation: Activation, step: str, reserved: Reserved) -> None:
    activation.reserved = {**(activation.reserved or {}), step: reserved}
    _change(state, reserved=state.money.reserved + _plain(reserved.usage))


def release(state: State, activation: Activation, step: str) -> Reserved | None:
    """Set nothing more aside for a step: it has its result, or certainly did not happen."""
    found = (activation.reserved or {}).get(step)
    if found is not None:
        left = {name: one for name, one in (activation.reserved or {}).items() if name != step}
        activation.reserved = left or None
        _change(state, reserved=state.money.reserved - _plain(found.usage))
    return found


def settle(state: State, activation: Activation, step: str, usage: Usage) -> None:
    """Count what a step has used instead of what was set aside for it."""
    found = release(state, activation, step)
    _spend(state, activation, usage, "" if found is None else found.model)


def lose(state: State, activation: Activation) -> None:
    """End the attempt of steps whose result is not known: what was set aside for them counts as used."""
    for step in list(activation.reserved or ()):
        found = release(state, activation, step)
        if found is not None:
            _spend(state, activation, found.usage, found.model)
            _change(state, unsettled=state.money.unsettled + found.usage)


def _spend(state: State, activation: Activation, usage: Usage, model: str) -> None:
    money = state.money
    models = {**money.models, model: money.models.get(model, NOTHING) + usage}
    activation.spent = (activation.spent or NOTHING) + usage
    _change(state, spent=money.spent + usage, models=models)


def _plain(usage: Usage) -> Usage:
    """Whether a price is known is of no interest before the call."""
    return usage if usage.priced else msgspec.structs.replace(usage, priced=True)


def lend(state: State, child: str, budget: Budget | None) -> None:
    """Set aside what a child may use. The budget of one that goes on again is the one that it has."""
    before = state.lent.get(child)
    if before is None and budget is None:
        return
    now = Lent(budget) if before is None else msgspec.structs.replace(before, open=True)
    _put(state, child, before, now)


def end_loan(state: State, child: str, usage: Usage | None) -> None:
    """Count what a child has used instead of what was set aside for it."""
    before = state.lent.get(child)
    if usage is not None:
        _change(state, spent=state.money.spent + usage, children=state.money.children + usage)
    if before is not None or usage is not None:
        known = before or Lent()
        spent = known.spent if usage is None else known.spent + usage
        _put(state, child, before, msgspec.structs.replace(known, spent=spent, open=False))


def _put(state: State, child: str, before: Lent | None, now: Lent) -> None:
    reserved = NOTHING if before is None else before.reserved
    _change(state, lent=state.money.lent - reserved + now.reserved)
    state.put(state.lent, child, now)
