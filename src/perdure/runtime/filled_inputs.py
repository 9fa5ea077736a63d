"""The inputs of runs filled in and checked: small ones at once, others in a thread, so that they hold up no other run."""

from __future__ import annotations

from typing import Any

from perdure.budget import Budget
from perdure.expressions.run_inputs import fill_in
from perdure.expressions.schema_cost import count_values
from perdure.threads import aside

IN_THE_LOOP = 500
"""The most values, in the inputs and in the schema, that are looked at on the loop: together they take some 20 ms."""


def is_costly(schema: Any, value: Any) -> bool:
    return any(count_values(one, IN_THE_LOOP) > IN_THE_LOOP for one in (schema, value))


async def fill_in_aside(
    tenant: str, schema: Any, value: Any, budget: Budget, *, masked: bool = False
) -> tuple[Any, list[str]]:
    """The same as `fill_in`, beside the loop where it takes long."""
    if is_costly(schema, value):
        return await aside(tenant, fill_in, schema, value, budget, masked=masked)
    return fill_in(schema, value, budget, masked=masked)
