"""An endless workflow goes on as a new run when its journal grows long (rule 15).

The old run completes and names the new one; the new one adopts what the loop needs: the outcomes before it, the output
of the iteration before, the signals that were not consumed, the ids of signals seen, the events heard, what its triggers hold, and what
the run is paused for.
"""

from __future__ import annotations

from typing import Any

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.decider import Decider
from perdure.kernel.generations import in_order
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.state import Activation, LoopRun
from perdure.kernel.triggers.carried import carry
from perdure.kernel.triggers.events_heard import tell_heard

N = NodeState

SEEN = 10_000
"""How many of the latest signal ids a continuing run is told: a signal that comes again counts once (rule 37)."""

LONG_JOURNAL = 10_000
"""Events after which an endless run takes the next chance to go on as a new one."""


def is_due(d: Decider, run: LoopRun) -> bool:
    """Whether the run may continue as a new one: an iteration ends, and nothing but this loop is under way."""
    state = d.state
    if not state.ir.endless or state.seq < LONG_JOURNAL or state.parent is not None or len(state.loops) > 1:
        return False
    loop = state.node_in(run.ir, run.loop).loop
    if loop is None or loop.max_iterations is not None or state.open:
        return False
    return state.tokens == sum(state.activations[key].tokens for key in run.members)


def go_on(d: Decider, cause: Activation) -> None:
    state = d.state
    new = next_id(state.run_id)
    adopted = [
        c.Adopted(
            node=state.name(a.node),
            output=a.output,
            output_ref=a.output_ref,
            size=a.size,
            taken=None if a.route is None else a.route.taken,
            rejected=a.rejected,
        )
        for a in in_order(state)
        if not a.scope and a.item < 0 and a.state is N.COMPLETED
    ]
    adopted.append(
        c.Adopted(
            node=state.name(cause.node),
            output=cause.output,
            output_ref=cause.output_ref,
            size=cause.size,
            previous=True,
        )
    )
    signals = tuple((name, payload) for _, name, payload in state.signals)
    seen = tuple(sorted(state.signals_seen, key=state.signals_seen.__getitem__))[-SEEN:]
    pauses = tuple(sorted(state.pauses.items())) if state.state is RunState.PAUSED else ()
    carried = carry(state)
    d.emit(e.RunCompleted, continued_as=new)
    given: Any = {"signals": signals, "signals_seen": seen, "pauses": pauses, "heard": tell_heard(state)}
    d.effect(fx.ContinueRun(run_id=new, adopted=tuple(adopted), mailboxes=carried, **given))


def next_id(run_id: str) -> str:
    """The id of the continuing run: `nightly`, `nightly~2`, `nightly~3`, …"""
    base, _, number = run_id.rpartition("~")
    return f"{base}~{int(number) + 1}" if base and number.isdigit() else f"{run_id}~2"
