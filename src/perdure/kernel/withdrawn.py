"""Approvals that were given, are asked again in a new generation, and are not given then (rule 26). Reads state, changes nothing.

What was done because of a yes keeps its outcome when the approval is undone. It must not lead on when the answer is a no.
"""

from __future__ import annotations

from collections.abc import Collection

from perdure.kernel.edges import latest
from perdure.kernel.guards import leads_on_anyway
from perdure.kernel.lifecycle import ENDED, ERROR, SKIPPED, TAKEN, N
from perdure.kernel.state import Activation, Key, State
from perdure.model.ir import Edge

_LED = (TAKEN, ERROR)


def find_withdrawn(
    state: State, going: Collection[Activation], *, came_back: bool = False
) -> tuple[Activation, Activation] | None:
    """The first of these activations that was reached by a yes which is a no now, and that approval. `came_back`: a loop
    brought them here, so that the edges which let it in may have been skipped since."""
    withdrawn = _find_all(state) if state.generation > 1 and going else {}
    if not withdrawn:
        return None
    since = max(approval.ended_seq for approval in withdrawn.values())
    known = set[Key]()
    for activation in going:
        before, led = [activation], (*_LED, SKIPPED) if came_back else _LED
        while before:
            one = before.pop()
            number = one.ir if one.fired else state.iteration_ir(one.scope, one.node)
            for index in state.node_in(number, one.node).edges_in:
                edge = state.irs[number].edges[index]
                source = latest(state, edge.source, one.scope[: edge.common], number)
                if source is None or one.edges.get(edge.source) not in led:
                    continue
                if source.key in withdrawn and not _leads_to(state, source, edge):
                    return activation, source
                if source.key not in known and source.scheduled_seq <= since:  # what began later was looked at then
                    known.add(source.key)
                    before.append(source)
            led = _LED
    return None


def _find_all(state: State) -> dict[Key, Activation]:
    """The approvals that have been undone, and have ended again without being given."""
    found = dict[Key, Activation]()
    for number, ir in enumerate(state.irs):
        for index in ir.approvals:
            activation = latest(state, index, (), number)
            if activation is None or activation.state not in ENDED:
                continue
            given = activation.state is N.COMPLETED and not activation.rejected
            again = activation.undone or state.pinned(activation).item is not None  # a map is undone item by item
            if again and not given:
                found[activation.key] = activation
    return found


def _leads_to(state: State, approval: Activation, edge: Edge) -> bool:
    """Whether the approval leads there although it is not given: by the way it went, or by its definition."""
    route = approval.route
    if route is not None and (not edge.named if route.taken is None else state.name(edge.target) in route.taken):
        return True
    return leads_on_anyway(state.governing(approval), edge, trusted=True)
