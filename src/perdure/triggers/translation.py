"""Triggers in the words of the kernel: what it registers, what it asks of a calendar, what it is delivered.

The kernel keeps a spec as plain data and understands none of it; it asks for moments, and records the answer. All of this
is pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from perdure.budget import Budget
from perdure.kernel.commands import Delivered, MomentsAsked, Verdict
from perdure.kernel.mailbox import Policy
from perdure.kernel.values import Error
from perdure.model.trigger_sources import Schedule
from perdure.model.triggers import Trigger
from perdure.triggers.calendar import LOOK_STEPS, BadSchedule, Moments, moments
from perdure.triggers.mapping import Mapped, Poison

_LOOKS = 4
"""How often a look that finds nothing goes on from where it ended, for one question."""


def make_spec(trigger: Trigger) -> Any:
    """The trigger as the plain data that is registered. Equal triggers give equal data."""
    return msgspec.json.decode(msgspec.json.encode(trigger))


def read_spec(spec: Any) -> Trigger:
    """The trigger that was registered. Raises msgspec.ValidationError for data that is none."""
    return _convert(msgspec.json.encode(spec, order="sorted"))


@lru_cache(maxsize=200)
def _convert(spec: bytes) -> Trigger:
    return msgspec.json.decode(spec, type=Trigger)


def make_policy(trigger: Trigger) -> Policy:
    """What decides about items. Only a trigger with keys has a limit for each of them."""
    limits = trigger.limits
    data = {
        "workflow": trigger.workflow,
        "overlap": trigger.overlap,
        "open": limits.open,
        "per_key": limits.per_key if trigger.key else 0,
        "buffer": limits.buffer,
        "catchup": trigger.catchup.mode,
        "within": float(trigger.catchup.within),
        "max_firings": trigger.source.max_firings if isinstance(trigger.source, Schedule) else 0,
        "on_poison": trigger.on_poison,
        "pause_after_failures": trigger.pause_after_failures,
    }
    return msgspec.convert(data, Policy)


def make_delivered(mapped: Mapped | Poison, id: str = "") -> Delivered:
    """An item that was mapped, or the error that kept it from being so; then `id` is what its source calls it."""
    if isinstance(mapped, Poison):
        return Delivered(id=id, error=Error("mapping_failed", f"{mapped.part}: {mapped.message}"))
    return Delivered(id=mapped.id or id, key=mapped.key, inputs=mapped.inputs)


def answer_moments(asked: MomentsAsked, budget: Budget | None = None) -> Verdict:
    """The verdict on the moments that the kernel asks for: those after a cursor, and when the next one is due."""
    try:
        trigger = read_spec(asked.spec)
        if not isinstance(trigger.source, Schedule):
            raise BadSchedule(f"trigger {trigger.name} is no schedule")
        return _look_for(trigger.source, asked, budget)
    except (ValueError, msgspec.MsgspecError) as error:  # a zone that is gone, a line that is no longer understood
        return Verdict(error=Error("bad_schedule", str(error)))
    except BadSchedule as error:
        return Verdict(error=Error("bad_schedule", error.message))


def _look_for(schedule: Schedule, asked: MomentsAsked, budget: Budget | None) -> Verdict:
    since = asked.since
    for _ in range(_LOOKS):
        look = moments(
            schedule,
            since,
            asked.until,
            asked.most,
            trigger=asked.trigger,
            nominal=asked.nominal,
            budget=budget or Budget(LOOK_STEPS),
        )
        if look.moments or look.next is not None or look.done:
            return Verdict(_say(look, asked))
        since = look.looked
    raise BadSchedule("no moment is found within reasonable work; leave out fewer of them")


def _say(look: Moments, asked: MomentsAsked) -> dict[str, Any]:
    following = look.next
    if following is None:
        more = bool(look.moments) and not look.done  # the look ended early: there may be more, and nobody knows when
    else:
        more = bool(look.moments) and (following.nominal if asked.nominal else following.due) <= asked.until
    return {
        "moments": [[float(one.nominal), one.due, _seconds(one.previous), _seconds(one.next)] for one in look.moments],
        "next": None if following is None else following.due,
        "more": more,
    }


def _seconds(at: int | None) -> float | None:
    """A time as journals keep it: what is folded from them must be equal to what is decided now."""
    return None if at is None else float(at)
