"""Budgets: what a call may use is set aside before it begins, in the commit that lets it begin (rules 82 to 84).

A handler that is refused gives its work back with what it wants. It is held while others have set aside what is missing; if the
budget is really used up, the run pauses, or the node fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.decider import Decider, Refusal, in_schedule
from perdure.kernel.dispatches import send
from perdure.kernel.lifecycle import R
from perdure.kernel.outcomes import fail_attempt, park
from perdure.kernel.state import Activation, State
from perdure.kernel.values import Error
from perdure.model.money import DIMENSIONS, MILLIONTHS, NOTHING, Budget, Room, Usage, changed, least

REASON = "budget"
"""The reason that a run is paused for when its budget is used up."""
TIMER = "budget"
"""The timer that ends the pauses for budgets over several runs."""
OF_SCOPE = f"{REASON}:"
"""How the reason begins that a run is paused for when a budget over several runs has no room, before its scope."""
SPREAD_SECONDS = 60.0
"""Over how long runs begin again that wait for the same moment."""
RESERVED = "budget_reserved"
"""The reason that an activation is held for while others have set aside what it wants."""


class Short(NamedTuple):
    """Why a budget has no room."""

    whose: str
    """`node`, `run`, or the scope of a budget over several runs."""
    of: Literal["usd", "tokens", "calls"]
    value: int
    """What would have been used with the call that is wanted."""
    maximum: int
    reserved: bool
    """Only what is set aside for others stands in the way."""
    room: Room | None = None
    """The budget over several runs that it is about."""


def find_short(
    state: State,
    activation: Activation,
    wants: Usage,
    limit: Budget | None,
    *,
    also: Usage = NOTHING,
    ends: bool = False,
    rooms: Sequence[Room] = (),
) -> Short | None:
    """Why there is no room for a call, or None. `also` is what others are let begin with at the same time; `ends` says that the
    attempt is over, by which its own calls without an end count as used. What is used up counts before what is only set aside."""
    money = state.money
    own = sum((one.usage for one in (activation.reserved or {}).values()), NOTHING)
    lost, held = (own, NOTHING) if ends else (NOTHING, own)
    own_spent = (activation.spent or NOTHING) + lost
    others = money.reserved - lost + money.lent + also
    found = [
        _compare("node", limit, own_spent, held, wants),
        *(_compare("node", room.share, own_spent, held, wants) for room in rooms),
        _compare("run", money.budget, money.spent + lost, others, wants),
        *(_look_in(room, lost, wants) for room in rooms),
    ]
    shorts = [one for one in found if one is not None]
    return next((one for one in shorts if not one.reserved), shorts[0] if shorts else None)


def _look_in(room: Room, lost: Usage, wants: Usage) -> Short | None:
    short = _compare(room.scope, room.left, lost, NOTHING, wants) or _compare(
        room.scope, room.free, NOTHING, NOTHING, wants
    )
    if short is None:
        return None
    used_up = (room.left.of(short.of) or 0) < lost.of(short.of) + wants.of(short.of)
    return short._replace(reserved=not used_up, room=room)


def _compare(whose: str, budget: Budget | None, spent: Usage, reserved: Usage, wants: Usage) -> Short | None:
    short: Short | None = None
    for dimension in DIMENSIONS if budget is not None else ():
        maximum = None if budget is None else budget.of(dimension)
        if maximum is None:
            continue
        used = spent.of(dimension) + wants.of(dimension)
        if used > maximum:
            return Short(whose, dimension, used, maximum, reserved=False)
        if short is None and used + reserved.of(dimension) > maximum:
            short = Short(whose, dimension, used + reserved.of(dimension), maximum, reserved=True)
    return short


def _say(dimension: str, amount: int) -> str:
    return f"${amount / MILLIONTHS:,.6f}".rstrip("0").rstrip(".") if dimension == "usd" else f"{amount:,} {dimension}"


def describe(short: Short) -> str:
    of, value, maximum = short.of, short.value, short.maximum
    if short.room is not None:
        return f"the next call may use {_say(of, value)}; the budget of {short.whose} has {_say(of, maximum)} left"
    return f"the next call may bring the {short.whose} to {_say(of, value)}; its budget is {_say(of, maximum)}"


def give_back(d: Decider, activation: Activation, command: c.Lapse, wants: Usage) -> bool:
    """End an attempt that was refused a call. False if there is room by now, and it may be tried again at once."""
    short = find_short(d.state, activation, wants, command.limit, ends=True, rooms=command.rooms)
    if short is None:
        return False
    node = d.state.pinned(activation)
    fields: dict[str, Any] = {"after": "handed_back", "wants": wants, "version": 2}
    if node.effect == "at_most_once" and activation.begun:
        park(d, activation, Error("budget_exhausted", describe(short)))
    elif short.room is not None:
        reason = OF_SCOPE + short.whose
        d.emit_for(e.NodeHeld, activation, reason=reason, **fields)
        _pause(d, activation, short, reason)
        again = d.at if short.reserved else max(d.at, short.room.until)
        d.emit(e.TimerSet, timer=TIMER, due_at=again + d.command.entropy * SPREAD_SECONDS)
    elif short.reserved:
        d.emit_for(e.NodeHeld, activation, reason=RESERVED, **fields)
    elif short.whose == "node" or _fails(d.state):
        fail_attempt(d, activation, Error("budget_exhausted", describe(short)), retryable=False)
    else:
        d.emit_for(e.NodeHeld, activation, reason=REASON, **fields)
        _pause(d, activation, short)
    return True


def _fails(state: State) -> bool:
    return state.money.budget is not None and state.money.budget.on_exceed == "fail"


def _pause(d: Decider, activation: Activation, short: Short, reason: str = REASON) -> None:
    if reason in d.state.pauses and d.state.state is R.PAUSED:
        return
    name, scope = d.state.name(activation.node), activation.scope
    about: dict[str, Any] = {"limit": "budget", "value": short.value, "maximum": short.maximum, "of": short.of}
    d.emit(e.LimitReached, **about, node=name, scope=scope, version=2)
    d.emit(e.RunPaused, reason=reason)
    d.recall_queued()


def let_go(d: Decider) -> None:
    """Send what is held for lack of room, as far as there is room now, the oldest first. When nothing that is set aside is
    in the way any more, the budget is used up."""
    state = d.state
    also = NOTHING
    for activation in sorted((state.activations[key] for key in state.short), key=in_schedule):
        wants = activation.wants
        if state.state is not R.RUNNING or wants is None or activation.reason != RESERVED:
            continue
        short = find_short(state, activation, wants, None, also=also)
        if short is None:
            send(d, [activation])
            also += wants
        elif not short.reserved and _fails(state):
            fail_attempt(d, activation, Error("budget_exhausted", describe(short)), retryable=False)
        elif not short.reserved:
            _pause(d, activation, short)


def raise_budget(d: Decider, command: c.Resume) -> Budget | None:
    """The budget that a run goes on with, if it is another one. Refused while what is held has no room in it."""
    state = d.state
    budget = None if command.budget is None else changed(state.money.budget, command.budget)
    if REASON not in state.pauses or (command.reason is not None and command.reason != REASON):
        return budget
    for activation in sorted((state.activations[key] for key in state.short), key=in_schedule):
        short = _compare("run", budget or state.money.budget, state.money.spent, NOTHING, activation.wants or NOTHING)
        if short is not None:
            raise Refusal("budget_exhausted", f"run {state.run_id}: {describe(short)}; resume it with a larger one")
    return budget


def child_budget(state: State, given: Budget | None) -> Budget | None:
    """What a child may use: no more than is left, if its parent has a limit (rule 84)."""
    money = state.money
    if money.budget is None:
        return given
    return least(given or money.budget, money.budget.left_after(money.spent + money.reserved + money.lent))


def heard_of(state: State, command: c.EndChild) -> dict[str, Any]:
    """The fields of `child.ended` that say what the child has used since its parent heard of it last."""
    known = state.lent.get(command.child)
    if command.spent is None:
        return {}
    new = command.spent - (NOTHING if known is None else known.spent)
    return {"usage": new, "version": 2} if new else {}
