"""What a trigger would make of an item, a moment or a hand that fires it: pure, and nothing is written."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.budget import Budget
from perdure.model.trigger_sources import Schedule
from perdure.model.triggers import Trigger
from perdure.triggers.calendar import moments
from perdure.triggers.mapping import Filtered, Mapped, Poison, facts_of, facts_of_item, map_answer, map_item, map_moment
from perdure.triggers.zones import get_zone, say_time

LOOK_STEPS = 200_000


def try_item(trigger: Trigger, item: Any, at: float, id: str = "") -> dict[str, Any]:
    """What a trigger would make of an item that came at this time."""
    found = map_item(trigger, item, facts_of_item(at), id=id)
    if isinstance(found, Mapped):
        return {"result": "mapped", "id": found.id, "key": found.key, "inputs": found.inputs}
    if isinstance(found, Filtered):
        return {"result": "filtered"}
    return {"result": "poison", "part": found.part, "error": found.message}


def try_moment(trigger: Trigger, at: float, last_success: float | None = None) -> dict[str, Any]:
    """The first moment after `at`, and the inputs of its run."""
    assert isinstance(trigger.source, Schedule)
    look = moments(trigger.source, at, float("inf"), 1, trigger=trigger.name, budget=Budget(LOOK_STEPS))
    if not look.moments:
        return {"result": "no_more_moments"}
    (moment,) = look.moments
    zone = get_zone(trigger.source.timezone)
    made = map_moment(trigger, facts_of(moment, zone, last_success=last_success))
    if isinstance(made, Poison):
        return {"result": "poison", "part": made.part, "error": made.message}
    return {"result": "mapped", "moment": float(moment.nominal), "due": float(moment.due), "inputs": made}


def fill_inputs(
    trigger: Trigger, given: dict[str, Any], now: float, last_success: float | None = None
) -> dict[str, Any] | Poison:
    """The inputs of a run that is started by hand: what is given, and for the rest what the trigger says, for this moment and
    without an item. A Poison says which of them must be given."""
    rest = {key: value for key, value in trigger.inputs.items() if key not in given}
    schedule = trigger.source if isinstance(trigger.source, Schedule) else None
    facts = facts_of_item(now) if schedule is None else _facts_between(schedule, now, last_success)
    made = map_moment(msgspec.structs.replace(trigger, inputs=rest), facts)
    if not isinstance(made, Poison):
        return {**made, **given}
    budget = Budget()
    alone = {key: map_moment(msgspec.structs.replace(trigger, inputs={key: rest[key]}), facts, budget) for key in rest}
    broken = [key for key, one in alone.items() if isinstance(one, Poison)] or list(rest)
    them, names = ("it", "input") if len(broken) == 1 else ("them", "inputs")
    why = "without an item" if schedule is None else f"({made.message})"
    said = f"its {names} {', '.join(broken)} cannot be made by hand {why}; give {them}, as in -i {broken[0]}=VALUE"
    return Poison(made.part, said)


def _facts_between(schedule: Schedule, now: float, last_success: float | None) -> dict[str, Any]:
    """The facts of a firing by hand: it stands between two moments, and is none."""
    zone = get_zone(schedule.timezone)
    found = moments(schedule, now, float("inf"), 1, budget=Budget(LOOK_STEPS)).moments
    previous, following = (found[0].previous, found[0].nominal) if found else (None, None)
    return {
        "at": say_time(int(now), zone),
        "previous": None if previous is None else say_time(previous, zone),
        "next": None if following is None else say_time(following, zone),
        "last_success": None if last_success is None else say_time(last_success, zone),
        "number": None,
        "id": None,
        "scheduled": False,
    }


def fill_answer(trigger: Trigger, body: Any, run: dict[str, Any], item: Any) -> Any:
    """What the sender of a delivery is answered when its run has ended: how it ended, where the trigger names no body or one that
    cannot be filled in."""
    if body is None:
        return run
    made = map_answer(body, {"run": run, "item": item, "trigger": {"name": trigger.name}})
    return run if isinstance(made, Poison) else made
