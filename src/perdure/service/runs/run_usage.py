"""What runs have used and may use, as people and programs see it: in dollars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.kernel.state import State
from perdure.model.money import NOTHING, Budget, Usage
from perdure.service.errors import Invalid, Trouble
from perdure.service.views import View
from perdure.spending import as_budget


def read_budget(given: Mapping[str, Any] | None) -> Budget | None:
    """The budget that is asked for. Raises Invalid."""
    try:
        budget = as_budget(given)
    except (ValueError, TypeError) as error:
        raise Invalid(str(error), [Trouble("budget", "wrong_value", str(error))]) from None
    if budget == Budget() and given is not None:
        message = "a budget limits usd, tokens or calls"
        raise Invalid(message, [Trouble("budget", "wrong_value", message)])
    return budget


def usage_of(state: State) -> View:
    money = state.money
    by_node: dict[str, Usage] = {}
    for activation in state.activations.values():
        if activation.spent is not None:
            name = state.name(activation.node)
            by_node[name] = by_node.get(name, NOTHING) + activation.spent
    return {
        "run_id": state.run_id,
        "seq": state.seq,
        "total": money.spent.shown(),
        "unsettled": money.unsettled.shown(),
        "children": money.children.shown(),
        "reserved": (money.reserved + money.lent).shown(),
        "budget": None if money.budget is None else money.budget.shown(),
        "by_node": {name: usage.shown() for name, usage in sorted(by_node.items())},
        "by_model": {name: usage.shown() for name, usage in sorted(money.models.items()) if name},
    }
