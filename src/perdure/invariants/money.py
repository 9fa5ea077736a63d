"""Money: B1, B2, B3. A ledger of its own, kept from the events alone.

Nothing here looks at sums of the kernel: `compare` holds them against these, for callers that have a state.
"""

from __future__ import annotations

from typing import Any

from perdure.invariants.model import Act, Key, Model, Violation
from perdure.invariants.purse import DIMENSIONS, Loan, Open, amounts, total
from perdure.kernel import events as e
from perdure.model.money import Usage


def look(model: Model, event: e.Event) -> None:
    """Follow an event that every other rule has seen."""
    purse = model.purse
    if isinstance(event, e.RunCreated | e.RunResumed | e.RunRetried):
        purse.budget = event.budget or purse.budget
    elif isinstance(event, e.StepStarted) and event.reserve is not None:
        _begin(model, event, event.reserve)
    elif isinstance(event, e.StepReleased):
        purse.open.pop((_key(event), event.step), None)
    elif isinstance(event, e.NodeCheckpointed) and event.step:
        _end(model, event)
    elif isinstance(event, e.ChildStarted):
        known = purse.loans.get(event.child)
        if known is not None or event.budget is not None:
            used = amounts(None) if known is None else known.used
            purse.loans[event.child] = Loan(event.budget if known is None else known.budget, used, open=True)
    elif isinstance(event, e.ChildEnded):
        known = purse.loans.get(event.child) or Loan(None, amounts(None), open=False)
        new = amounts(event.usage)
        purse.used = total(purse.used, new)
        purse.loans[event.child] = Loan(known.budget, total(known.used, new), open=False)
    elif isinstance(event, e.NodeHeld) and event.wants is not None:
        purse.short[_key(event)] = event.wants
    if purse.open:
        _lose(model)


def _key(event: e.NodeEvent) -> Key:
    return (event.node, event.scope, event.item)


def _begin(model: Model, event: e.StepStarted, reserve: Usage) -> None:
    purse = model.purse
    purse.open[_key(event), event.step] = Open(event.attempt, reserve)
    for name in DIMENSIONS:
        limit = None if purse.budget is None else getattr(purse.budget, name)
        whole = purse.used[name] + purse.reserved[name]
        if limit is not None and whole > limit:
            model.blame("B1", f"{event.node} begins {event.step!r}: {whole} {name} are used or set aside, of {limit}")


def _end(model: Model, event: e.NodeCheckpointed) -> None:
    purse = model.purse
    held = purse.open.pop((_key(event), event.step), None)
    if held is not None and event.usage is None:
        model.blame("B2", f"{event.node} ends {event.step!r}, and what it used is not said")
    purse.used = total(purse.used, amounts(event.usage))


def _lose(model: Model) -> None:
    """Count as used what is set aside for calls whose attempt is over (rule 83)."""
    purse = model.purse
    for (key, step), held in list(purse.open.items()):
        if not _is_at_work(model.acts[key], held.attempt):
            del purse.open[key, step]
            purse.used = total(purse.used, amounts(held.usage))
            purse.unsettled = total(purse.unsettled, amounts(held.usage))


def _is_at_work(act: Act, attempt: int) -> bool:
    return act.state in ("queued", "running") and act.attempt == attempt


def settled(model: Model) -> None:
    """Check at the end of an append that nobody waits for room that is there, or that nobody will make (rule 82)."""
    purse = model.purse
    for key in list(purse.short):
        act = model.acts[key]
        if act.state != "held":
            del purse.short[key]
            purse.sent[key] = act.attempt
    for key in [key for key, attempt in purse.sent.items() if not _is_at_work(model.acts[key], attempt)]:
        del purse.sent[key]
    for key, wants in purse.short.items():
        act = model.acts[key]
        if model.state == "running" and not any(purse.reserved.values()) and not purse.sent:
            model.blame("rule 82", f"{act.place} waits for {wants}, and nothing is set aside that it could wait for")


def compare(model: Model, state: Any) -> list[Violation]:
    """B2 and B3 for a state that has folded the same events."""
    money, purse = state.money, model.purse
    model.found = []
    if amounts(money.spent) != purse.used or amounts(money.unsettled) != purse.unsettled:
        model.blame("B2", f"the run has used {amounts(money.spent)}, its events say {purse.used}")
    if total(amounts(money.reserved), amounts(money.lent)) != purse.reserved:
        model.blame("B3", f"{amounts(money.reserved)} is set aside, the calls under way say {purse.reserved}")
    return model.found
