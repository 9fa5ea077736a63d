"""The inputs of runs filled in and checked: small ones at once, others in a thread, so that they hold up no other run."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from perdure.budget import Budget
from perdure.expressions.at_hand import NOTHING, AtHand, Lost
from perdure.expressions.errors import NotAtHand
from perdure.expressions.json_schema import SchemaInvalid
from perdure.expressions.run_inputs import fill_in
from perdure.expressions.schema_cost import count_values, is_light
from perdure.kernel import segments
from perdure.threads import aside

IN_THE_LOOP = 500
"""The most values of inputs that are looked at on the loop, by a schema that is light: together they take some 20 ms."""
_STEPS = 20_000
"""The most that one look may cost of the budget of a decision."""
_LEAST = 400
"""The least that one look costs."""


class Filled(msgspec.Struct, frozen=True):
    """The inputs with their defaults, and what is wrong with them then."""

    inputs: Any
    problems: list[str]


class NeedsFilled(NotAtHand):
    """Inputs must be filled in and checked beside the loop first."""

    code = "needs_filled"

    def __init__(self, key: str, schema: Any, value: Any) -> None:
        super().__init__(key, "the inputs must be filled in and checked first")
        self.schema = schema
        self.value = value


def is_costly(schema: Any, value: Any) -> bool:
    return not is_light(schema) or count_values(value, IN_THE_LOOP) > IN_THE_LOOP


async def fill_in_aside(
    tenant: str, schema: Any, value: Any, budget: Budget, *, masked: bool = False
) -> tuple[Any, list[str]]:
    """The same as `fill_in`, beside the loop where it takes long."""
    if is_costly(schema, value):
        return await aside(tenant, fill_in, schema, value, budget, masked=masked)
    return fill_in(schema, value, budget, masked=masked)


def fill_in_at_hand(schema: Any, value: Any, at_hand: AtHand, budget: Budget) -> tuple[Any, list[str]]:
    """The same for a decision, which looks at little itself: `budget` is that of all its questions. Raises NeedsFilled and
    SchemaInvalid."""
    if at_hand is NOTHING:
        return fill_in(schema, value, Budget())
    if budget.steps > _STEPS and not is_costly(schema, value):
        little = Budget(_STEPS)
        try:
            found = fill_in(schema, value, little)
        except SchemaInvalid:  # perhaps only for so little
            found = None
        budget.spend(max(_LEAST, _STEPS - max(little.steps, 0)))
        if found is not None:
            return found
    text = msgspec.json.encode(schema, order="deterministic") + b"\n" + segments.encode(value)[0]
    key = f"filled:{hashlib.sha256(text).hexdigest()}"
    if key not in at_hand:
        raise NeedsFilled(key, schema, value)
    made: Filled | Lost = at_hand[key]
    if isinstance(made, Lost):
        raise SchemaInvalid(made.message)
    return made.inputs, made.problems


def fill(need: NeedsFilled) -> Filled | Lost:
    """What `NeedsFilled` needs. It may take time."""
    try:
        return Filled(*fill_in(need.schema, need.value, Budget.without_end()))
    except SchemaInvalid as error:
        return Lost(error.code, error.message)
