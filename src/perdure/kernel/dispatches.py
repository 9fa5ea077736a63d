"""How activations are sent to workers, or held back: the two events that every way to a worker goes through."""

from __future__ import annotations

from perdure.kernel import events as e
from perdure.kernel.decider import Decider
from perdure.kernel.lifecycle import N
from perdure.kernel.state import Activation
from perdure.kernel.streams.stream_readers import is_fed


def send(d: Decider, going: list[Activation]) -> None:
    if d.state.streaming:
        going = _keep_unfed(d, going)
    if len(going) == 1:
        d.emit_for(e.NodeScheduled, going[0], attempt=going[0].attempt + 1)
    elif going:
        d.emit(e.NodesScheduled, places=tuple(d.place(a, a.attempt + 1) for a in going))
    for activation in going:
        d.dispatch(d.state.activations[activation.key])  # a new item of a map is another object since it was emitted


def _keep_unfed(d: Decider, going: list[Activation]) -> list[Activation]:
    """Hold back what reads a stream that is neither open nor over (rule 62)."""
    hungry = [a for a in going if not is_fed(d.state, a)]
    if not hungry:
        return going
    hold_back(d, [a for a in hungry if a.state is not N.HELD or a.reason != "stream"], "stream")
    kept = {id(activation) for activation in hungry}
    return [activation for activation in going if id(activation) not in kept]


def hold_back(d: Decider, held: list[Activation], reason: str, detail: str = "") -> None:
    if len(held) == 1:
        d.emit_for(e.NodeHeld, held[0], reason=reason, detail=detail)
    elif held:
        d.emit(e.NodesHeld, places=tuple(d.place(a) for a in held), reason=reason)
