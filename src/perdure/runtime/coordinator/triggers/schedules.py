"""Schedules, for the kernel that has no calendar: which moments there are, and the inputs of a moment's run.

A bridge between what the kernel asks (rule 56) and `perdure.triggers`; it decides nothing and keeps nothing.
"""

from __future__ import annotations

from math import floor
from typing import Any

import msgspec

from perdure.budget import Budget
from perdure.expressions.at_hand import NOTHING, AtHand
from perdure.kernel import commands as c
from perdure.kernel.triggers.mailbox import Item, Policy, Rate, Windowing
from perdure.kernel.values import Error
from perdure.model.trigger_sources import Schedule
from perdure.model.triggers import MAX_BATCH, Trigger
from perdure.triggers.calendar import BadSchedule, Moment, moments
from perdure.triggers.mapping import Poison, facts_of, facts_of_item, map_moment, map_window
from perdure.triggers.zones import UnknownZone, get_zone

LOOK_STEPS = 200_000
"""What one look may cost, and half as much for the moment before: some 50 ms, in which the coordinator does nothing else. What is
not found goes on from there."""
LEAST_STEPS = 5_000
"""What a look may cost when others of the same decision have had the rest."""


def spec_of(trigger: Trigger) -> Any:
    """The trigger as plain data, as events hold it."""
    return msgspec.to_builtins(trigger)


def policy_of(trigger: Trigger) -> Policy:
    """What the kernel decides by, with every default filled in."""
    source, limits = trigger.source, trigger.limits
    fields: Any = {"overlap": trigger.overlap, "catchup": trigger.catchup.mode, "on_poison": trigger.on_poison}
    return Policy(
        workflow=trigger.workflow,
        open=limits.open,
        per_key=limits.per_key if trigger.key else 0,
        buffer=limits.buffer,
        within=float(trigger.catchup.within),
        max_firings=source.max_firings if isinstance(source, Schedule) else 0,
        pause_after_failures=trigger.pause_after_failures,
        window=_window_of(trigger),
        rate=None if limits.rate is None else Rate(limits.rate.limit, float(limits.rate.per)),
        **fields,
    )


def _window_of(trigger: Trigger) -> Windowing | None:
    batch, debounce = trigger.batch, trigger.debounce
    if batch is not None:
        return Windowing(within=float(batch.within), items=batch.items)
    if debounce is None:
        return None
    keep: Any = debounce.keep
    return Windowing(within=float(debounce.at_most), items=MAX_BATCH, quiet=float(debounce.quiet), keep=keep)


def answer_moments(asked: c.MomentsAsked, budget: Budget | None = None) -> c.Verdict:
    """The moments of a schedule after a cursor, as the kernel wants them. `budget` is what all looks of the decision share."""
    budget = budget or Budget(LOOK_STEPS)
    steps = max(LEAST_STEPS, min(LOOK_STEPS, budget.steps))
    look = Budget(steps)
    try:
        trigger = msgspec.convert(asked.spec, Trigger)
        if not isinstance(trigger.source, Schedule):
            return c.Verdict(error=Error("bad_schedule", f"{trigger.name} is no schedule"))
        schedule = trigger.source
        if asked.nominal:
            schedule = msgspec.structs.replace(schedule, jitter=0)
        found = moments(schedule, asked.since, asked.until, asked.most, trigger=trigger.name, budget=look)
    except (BadSchedule, ValueError, msgspec.ValidationError) as error:  # ValueError: a zone, a line or a time of it
        return c.Verdict(error=Error("bad_schedule", str(error)))
    finally:
        budget.steps = max(0, budget.steps - (steps - look.steps))
    following, upto = None if found.next is None else found.next.due, None
    more = found.next is not None and found.next.due <= asked.until
    if found.next is None and not found.done:  # the budget ended before the next moment was found
        more = found.looked < floor(asked.until)  # moments are whole seconds
        following, upto = (None, float(found.looked)) if more else (float(found.looked), None)
    listed = [[float(one.nominal), one.due, _float(one.previous), _float(one.next)] for one in found.moments]
    return c.Verdict(value={"moments": listed, "next": following, "more": more, "upto": upto})


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def make_inputs(
    spec: Any,
    item: Item,
    items: tuple[Item, ...] = (),
    at_hand: AtHand = NOTHING,
    last_success: float | None = None,
) -> Any:
    """The inputs of an item: those it came with; of a moment and of a window, what the trigger's templates make of it. An `Error` if
    they cannot."""
    if items:
        return _map_window(spec, items, at_hand)
    if item.nominal is None:
        return item.inputs
    try:
        trigger = msgspec.convert(spec, Trigger)
        zone = get_zone(trigger.source.timezone if isinstance(trigger.source, Schedule) else "UTC")
    except (UnknownZone, msgspec.ValidationError) as error:
        return Error("bad_schedule", str(error))
    previous, following = (None if one is None else int(one) for one in (item.previous, item.next))
    moment = Moment(int(item.nominal), item.nominal, previous, following)
    return _judge(map_moment(trigger, facts_of(moment, zone, item.number, last_success)))


def _map_window(spec: Any, items: tuple[Item, ...], at_hand: AtHand) -> Any:
    """The inputs of the run for a window: its items are as they came, and templates see all of them."""
    try:
        trigger = msgspec.convert(spec, Trigger)
    except msgspec.ValidationError as error:
        return Error("bad_trigger", str(error))
    last = items[-1]
    facts = {**facts_of_item(last.at), "number": last.number, "id": last.id, "key": last.key}
    return _judge(map_window(trigger, [item.inputs for item in items], facts, at_hand=at_hand))


def _judge(mapped: dict[str, Any] | Poison) -> Any:
    if isinstance(mapped, Poison):
        return Error("template_error", f"{mapped.part}: {mapped.message}"[:1000])
    return mapped or None
