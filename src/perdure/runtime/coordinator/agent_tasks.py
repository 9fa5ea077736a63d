"""What an agent's task says besides its config: where the agent may let the run go on."""

from __future__ import annotations

from perdure.kernel.state import Activation, State


def routes_of(state: State, activation: Activation) -> tuple[str, ...]:
    """The nodes that an activation may choose, as the definition has them now (rule 39)."""
    branch = state.governing(activation).branch if activation.item < 0 else None
    if branch is None or branch.kind != "agent_driven":
        return ()
    return tuple(state.name(target) for target in branch.available)
