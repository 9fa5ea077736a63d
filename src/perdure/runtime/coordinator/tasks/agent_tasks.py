"""What an agent's task says besides its config: where the agent may let the run go on and who is asked about that, how far what it
is told is to be believed, and what the policies of its workflow are."""

from __future__ import annotations

from typing import Any

from perdure.agents.label_flow import STRANGE, label_in
from perdure.agents.route_reach import find_sinks
from perdure.kernel import run_ids
from perdure.kernel.state import Activation, State
from perdure.model.labels import UNTRUSTED, USER, Label
from perdure.nodes.registry import Registry
from perdure.transport import AgentTerms


def routes_of(state: State, activation: Activation) -> tuple[str, ...]:
    """The nodes that an activation may choose, as the definition has them now (rule 39)."""
    branch = state.governing(activation).branch if activation.item < 0 else None
    if branch is None or branch.kind != "agent_driven":
        return ()
    return tuple(state.name(target) for target in branch.available)


def about_agent(state: State, activation: Activation, registry: Registry) -> dict[str, Any]:
    """The fields of a task that are for agents alone."""
    return {
        "label": label_of(state, activation, registry),
        "terms": terms_of(state, activation, registry),
    }


def terms_of(state: State, activation: Activation, registry: Registry) -> AgentTerms | None:
    """What the workflow says about the agent, as the definition has it now; None: nothing."""
    node, ir = state.governing(activation), state.ir
    branch = node.branch if activation.item < 0 else None
    if branch is None or branch.kind != "agent_driven":
        return AgentTerms(policies=ir.policies) if ir.policies else None
    sinks = find_sinks(ir, registry, branch.available) if branch.approve is None else ()
    return AgentTerms(policies=ir.policies, approve=branch.approve, sinks=sinks, max_fanout=node.max_fanout)


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
