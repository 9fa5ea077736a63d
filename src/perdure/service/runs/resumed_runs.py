"""Going on with a run that exists: only by a definition that it follows, and with the inputs that it began with.

The rule is the same for `perdure run --run-id`, on a database and on a server, and for `perdure.run(run_id=…)`. Each says
a refusal in its own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from perdure.expressions.run_inputs import apply_defaults

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.kernel.state import State
    from perdure.model.ir import IR

Difference = Literal["workflow", "definition", "inputs"]


class Existing(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether a caller may go on with a run."""

    run_id: str
    workflow: str
    version: int
    state: str
    ended: bool
    hashes: frozenset[str]
    """The definitions that the run has followed, the first and those of its patches."""
    schema: Any
    """The schema of its inputs, which has their defaults."""
    inputs: Any
    """The inputs that the run began with, its defaults included."""


async def read_existing(engine: Engine, state: State) -> Existing:
    return Existing(
        run_id=state.run_id,
        workflow=state.workflow,
        version=state.workflow_version,
        state=state.state.value,
        ended=state.terminal,
        hashes=frozenset(state.ir_hashes),
        schema=state.ir.inputs_schema,
        inputs=await engine.contents.resolve(state.tenant, state.inputs),
    )


def find_difference(existing: Existing, ir: IR, inputs: Any, *, mends: bool = False) -> Difference | None:
    """What keeps a caller from going on with the run by this definition; None: nothing does. `inputs` None: the caller
    gives none and goes on with those of the run. `mends`: a failed run is retried, by any definition of its workflow."""
    if existing.workflow != ir.name:
        return "workflow"
    if ir.hash not in existing.hashes and not mends:
        return "definition"
    if inputs is not None and apply_defaults(existing.schema, inputs) != (existing.inputs or {}):
        return "inputs"
    return None
