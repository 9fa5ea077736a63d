"""What triggers hold when their run goes on as another one: the whole of their mailboxes (rules 15, 49 and 54)."""

from __future__ import annotations

from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.decider import Decider
from perdure.kernel.facts.trigger_facts import timer_of
from perdure.kernel.state import State
from perdure.kernel.triggers.mailbox import sort, strip


def carry(state: State) -> tuple[c.Carried, ...]:
    """The mailboxes of a run, for the one that continues it."""
    return tuple(_carry(state, node) for node in sorted(state.triggers))


def _carry(state: State, node: str) -> c.Carried:
    box, timer = sort(state.triggers[node]), state.timers.get(timer_of(node))
    given = {str(n): item.inputs for n, item in box.waiting.items() if item.inputs is not None}
    given |= {str(n): one.item.inputs for n, one in box.parked.items() if one.item.inputs is not None}
    return c.Carried(
        node=node, mailbox=strip(box), inputs=given or None, due_at=None if timer is None else timer.due_at
    )


def carry_on(d: Decider, carried: tuple[c.Carried, ...]) -> None:
    for one in carried:
        d.emit(e.TriggerCarried, node=one.node, mailbox=one.mailbox, inputs=one.inputs)
        if one.due_at is not None:
            d.emit(e.TimerSet, timer=timer_of(one.node), due_at=one.due_at)
