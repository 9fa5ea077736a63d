"""Schedules, for the kernel that has no calendar: which moments there are, and the inputs of a moment's run.

A bridge between what the kernel asks (rule 56) and `perdure.triggers`; it decides nothing and keeps nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.budget import Budget
from perdure.kernel import commands as c
from perdure.kernel.mailbox import Item, Policy
from perdure.kernel.values import Error
from perdure.model.trigger_sources import Schedule
from perdure.model.triggers import Trigger
from perdure.triggers.calendar import BadSchedule, Moment, moments
from perdure.triggers.mapping import Poison, facts_of, map_moment
from perdure.triggers.zones import UnknownZone, get_zone

LOOK_STEPS = 200_000
"""What one look may cost: some 50 ms, in which the coordinator does nothing else. What is not found goes on from there."""


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
        **fields,
    )


def answer_moments(asked: c.MomentsAsked) -> c.Verdict:
    """The moments of a schedule after a cursor, as the kernel wants them."""
    try:
        trigger = msgspec.convert(asked.spec, Trigger)
        if not isinstance(trigger.source, Schedule):
            return c.Verdict(error=Error("bad_schedule", f"{trigger.name} is no schedule"))
        schedule = trigger.source
        if asked.nominal:
            schedule = msgspec.structs.replace(schedule, jitter=0)
        found = moments(schedule, asked.since, asked.until, asked.most, trigger=trigger.name, budget=Budget(LOOK_STEPS))
    except (BadSchedule, ValueError, msgspec.ValidationError) as error:  # ValueError: a zone, a line or a time of it
        return c.Verdict(error=Error("bad_schedule", str(error)))
    following, upto = None if found.next is None else found.next.due, None
    more = found.next is not None and found.next.due <= asked.until
    if found.next is None and not found.done:  # the budget ended before the next moment was found
        more = found.looked < asked.until
        following, upto = (None, float(found.looked)) if more else (float(found.looked), None)
    listed = [[float(one.nominal), one.due, _float(one.previous), _float(one.next)] for one in found.moments]
    return c.Verdict(value={"moments": listed, "next": following, "more": more, "upto": upto})


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def make_inputs(spec: Any, item: Item) -> Any:
    """The inputs of an item: those it came with; of a moment, what the trigger's templates make of it. An `Error` if they cannot."""
    if item.nominal is None:
        return item.inputs
    try:
        trigger = msgspec.convert(spec, Trigger)
        zone = get_zone(trigger.source.timezone if isinstance(trigger.source, Schedule) else "UTC")
    except (UnknownZone, msgspec.ValidationError) as error:
        return Error("bad_schedule", str(error))
    previous, following = (None if one is None else int(one) for one in (item.previous, item.next))
    moment = Moment(int(item.nominal), item.nominal, previous, following)
    mapped = map_moment(trigger, {**facts_of(moment, zone, item.number), "id": item.id})
    if isinstance(mapped, Poison):
        return Error("template_error", f"{mapped.part}: {mapped.message}"[:1000])
    return mapped or None
