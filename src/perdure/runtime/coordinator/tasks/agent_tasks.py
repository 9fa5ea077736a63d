"""What an agent's task says besides its config: where the agent may let the run go on, and how far what it is told is to be
believed."""

from __future__ import annotations

from perdure.agents.label_flow import STRANGE, label_in
from perdure.kernel import run_ids
from perdure.kernel.state import Activation, State
from perdure.model.labels import UNTRUSTED, USER, Label
from perdure.nodes.registry import Registry


def routes_of(state: State, activation: Activation) -> tuple[str, ...]:
    """The nodes that an activation may choose, as the definition has them now (rule 39)."""
    branch = state.governing(activation).branch if activation.item < 0 else None
    if branch is None or branch.kind != "agent_driven":
        return ()
    return tuple(state.name(target) for target in branch.available)


def label_of(state: State, activation: Activation, registry: Registry) -> str:
    """The label of what the config of an agent is made of."""
    if activation.config is not None:  # given by a person on requeue
        return str(USER)
    ir, node = state.irs[activation.ir], state.name(activation.node)
    return str(label_in(ir, registry, node, is_item=activation.item >= 0, inputs=inputs_label(state)))


def inputs_label(state: State) -> Label:
    """The label of run inputs: a child does not know what its parent made them of, and what starts a run by a trigger may come
    from strangers."""
    if run_ids.is_child(state.run_id) or state.parent is not None:
        return STRANGE
    return USER if state.trigger is None else UNTRUSTED
