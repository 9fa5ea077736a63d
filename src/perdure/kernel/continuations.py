"""An endless workflow goes on as a new run when its journal grows long, or when its looping node wishes so (rule 15).

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
from perdure.kernel.lifecycle import OPEN, N, R
from perdure.kernel.segments import BlobRef
from perdure.kernel.state import Activation, LoopRun, State
from perdure.kernel.triggers.carried import carry
from perdure.kernel.triggers.events_heard import tell_heard
from perdure.kernel.values import Error

SEEN = 10_000
"""How many of the latest signal ids a continuing run is told: a signal that comes again counts once (rule 37)."""

LONG_JOURNAL = 10_000
"""Events after which an endless run takes the next chance to go on as a new one."""


WORRYING_JOURNAL = 50_000
"""Events after which an endless run that could not go on as a new one is warned about."""


def is_due(d: Decider, run: LoopRun) -> bool:
    """Whether the run is to continue as a new one, and may: an iteration ends, and nothing but this loop is under way."""
    state = d.state
    if state.seq < LONG_JOURNAL and run.renewal is None:
        return False
    return not state.open and not say_obstacle(state, run)


def find_problem(state: State, activation: Activation) -> Error | None:
    """Why the outcome of an activation cannot be that its run goes on as a new one; None if it can."""
    loop = state.pinned(activation).loop
    if loop is None or activation.item >= 0:
        why = "it has no loop"
    elif loop.max_iterations is not None or not state.ir.endless:
        why = "its loop has an end; say endless: true"
    elif len(state.loops) > 1:
        why = "its run has more than one loop"
    elif state.parent is not None:
        why = "its run is a child, whose parent waits for this run and no other"
    else:
        return None
    message = f"{state.name(activation.node)} cannot go on as a new run: {why}"
    return Error("cannot_continue", message)


def say_obstacle(state: State, run: LoopRun) -> str:
    """What keeps an endless run from going on as a new one; empty: nothing does."""
    if not state.ir.endless:
        return "it is not endless"
    if state.parent is not None:
        return "it is a child, whose parent waits for this run and no other"
    if len(state.loops) > 1:
        return "it has more than one loop"
    loop = state.node_in(run.ir, run.loop).loop
    if loop is None or loop.max_iterations is not None:
        return "its loop has an end"
    if state.open and (others := _list_open(state, run)):
        return f"beside the loop, {', '.join(others[:5])} {'has' if len(others) == 1 else 'have'} not ended"
    if state.tokens != sum(state.activations[key].tokens for key in run.members):
        return "beside the loop, a node waits for others"
    return ""


def say_worry(state: State, since: int = 0) -> str:
    """What people should know of an endless run whose journal grows without an end; with `since`, if that many events more came
    since then. Empty: nothing."""
    if state.seq // WORRYING_JOURNAL <= since // WORRYING_JOURNAL or state.terminal or not state.ir.endless:
        return ""
    found = {say_obstacle(state, run) for run in state.loops.values() if run.status != "ended"} - {
        "its loop has an end"
    }
    why = next(iter(sorted(found)), "")
    return f"it has {state.seq:,} events and cannot go on as a new one: {why}" if why else ""


def _list_open(state: State, run: LoopRun) -> list[str]:
    """What is under way outside of the iteration."""
    inside = set(run.members)
    return sorted({state.name(a.node) for a in state.activations.values() if a.state in OPEN and a.key not in inside})


def go_on(d: Decider, run: LoopRun, cause: Activation) -> None:
    state = d.state
    new = next_id(state.run_id)
    wish = None if run.renewal is None else state.activations[run.renewal]
    asked = None if wish is None else wish.output if wish.output_ref is None else BlobRef(wish.output_ref)
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
    pauses = tuple(sorted(state.pauses.items())) if state.state is R.PAUSED else ()
    carried = carry(state)
    d.emit(e.RunCompleted, continued_as=new)
    inputs = state.inputs if asked is None else asked
    given: Any = {
        "inputs": inputs,
        "signals": signals,
        "signals_seen": seen,
        "pauses": pauses,
        "heard": tell_heard(state),
    }
    d.effect(fx.ContinueRun(run_id=new, adopted=tuple(adopted), mailboxes=carried, **given))


def next_id(run_id: str) -> str:
    """The id of the continuing run: `nightly`, `nightly~2`, `nightly~3`, …"""
    base, _, number = run_id.rpartition("~")
    return f"{base}~{int(number) + 1}" if base and number.isdigit() else f"{run_id}~2"
