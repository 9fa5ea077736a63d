"""What an item becomes before the kernel hears of it: passed over, or an id, a key and the inputs of a run.

Pure, and within one budget. What is in an item is data: it is put into templates once and never read as one (X02). An
item that cannot be mapped is poison: it is parked with its error, and others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from perdure.budget import Budget, OverBudget
from perdure.expressions.at_hand import NOTHING, AtHand
from perdure.expressions.errors import NotAtHand, TemplateError
from perdure.expressions.namespace import Namespace, Run
from perdure.expressions.templates import get_template, render
from perdure.kernel.segments import Secret
from perdure.model.references import templates
from perdure.model.trigger_sources import Event, Poll, Schedule, Webhook
from perdure.model.triggers import Trigger
from perdure.triggers.calendar import Moment
from perdure.triggers.item_filters import BadFilter, matches_event, passes
from perdure.triggers.zones import say_time

LONGEST_ID = 500
"""The most characters of an id, and of a key."""
UNMAPPED = "unmapped"
"""The code of the error of an item that could not be mapped: then the item is kept as it came, and is mapped anew."""
UNREADABLE = "unreadable"
"""The code of the error of an item that its source could not give: it has no content here."""
ROOTS = ("trigger", "item", "items")
ALWAYS = ("name", "at", "id", "scheduled")
OF_ITEM = (*ALWAYS, "item")
OF_MOMENT = (*ALWAYS, "previous", "next", "number", "last_success")
FACTS = (*OF_MOMENT, "key", "item", "items")
"""What `trigger` has in templates and filters, where it is known (`list_facts`)."""

_NOBODY = Run("", "")
_SHAPES = {dict: "an object", list: "a list", bool: "true or false"}


class Mapped(msgspec.Struct, frozen=True):
    id: str
    """What the source calls the item, or its template; empty: it has no identity, and a repeat is a second item."""
    key: str
    inputs: dict[str, Any] | None
    """None: the item goes into a window, and the inputs are made when that closes."""


class Filtered(msgspec.Struct, frozen=True):
    """The filter does not let the item pass."""


class Poison(msgspec.Struct, frozen=True):
    """The item cannot be mapped, now or again under the same definition."""

    part: str
    """Where it failed: filter, id, key or inputs."""
    message: str


def list_facts(trigger: Trigger) -> tuple[str, ...]:
    """What `trigger` has in the inputs of its runs."""
    if isinstance(trigger.source, Schedule):
        return OF_MOMENT
    return (*OF_ITEM, "key", "number", "items") if gathers(trigger) else (*OF_ITEM, "key")


def gathers(trigger: Trigger) -> bool:
    """Whether a run is given several items, whose templates are filled in when all of them are there."""
    return trigger.batch is not None or trigger.debounce is not None


def facts_of_item(at: float) -> dict[str, Any]:
    """What templates know of an item that came at this time, beside what is in it."""
    return {"at": say_time(at), "scheduled": False}


def facts_of(moment: Moment, zone: ZoneInfo, number: int = 1, last_success: float | None = None) -> dict[str, Any]:
    """What templates know of a moment: times by the clock of its zone, with their offset."""
    return {
        "at": say_time(moment.nominal, zone),
        "previous": None if moment.previous is None else say_time(moment.previous, zone),
        "next": None if moment.next is None else say_time(moment.next, zone),
        "number": number,
        "id": f"{moment.nominal:.3f}",
        "last_success": None if last_success is None else say_time(last_success, zone),
        "scheduled": True,
    }


class _Broken(Exception):
    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part


def polled_item(trigger: Trigger, id: str, data: Any) -> Any:
    """What templates call `item` of what a source gave."""
    return {"id": id, "data": data} if isinstance(trigger.source, Poll) else data


def map_item(
    trigger: Trigger, item: Any, facts: dict[str, Any], *, id: str = "", budget: Budget | None = None
) -> Mapped | Filtered | Poison:
    """Map one item. `id` is what its source calls it; `facts` are those of `trigger` that are known by now."""
    budget = budget or Budget()
    known = {**facts, "name": trigger.name, "id": id, "item": item}
    try:
        source = trigger.source
        if isinstance(source, Event) and source.match and not _matches(source.match, item, budget):
            return Filtered()
        if trigger.filter is not None and not _lets_pass(trigger.filter, item, known, budget):
            return Filtered()
        if isinstance(source, Webhook) and source.id:
            known["id"] = id = _render_text(source.id, "id", {"item": item, "trigger": known}, budget)
        key = _render_text(trigger.key, "key", {"item": item, "trigger": known}, budget) if trigger.key else ""
        known["key"] = key
        if gathers(trigger):
            return Mapped(id, key, None)
        return Mapped(id, key, _render_inputs(trigger, {"item": item, "trigger": known}, budget))
    except _Broken as broken:
        return Poison(broken.part, str(broken))


def map_window(
    trigger: Trigger,
    items: Sequence[Any],
    facts: dict[str, Any],
    budget: Budget | None = None,
    *,
    at_hand: AtHand | None = None,
) -> dict[str, Any] | Poison:
    """The inputs of one run for all items of a window; of a debounced one that keeps the last, for that. With `at_hand`, items may be
    references to blobs; raises NotAtHand for one that must be loaded first."""
    kept = list(items)
    if trigger.debounce is not None and trigger.debounce.keep == "last":
        kept = kept[-1:]
    known = {**facts, "name": trigger.name, "items": kept, "item": kept[-1] if kept else None}
    names = {"trigger": known, "items": kept, "item": known["item"]}
    try:
        return _render_inputs(trigger, names, budget or Budget(), at_hand)
    except _Broken as broken:
        return Poison(broken.part, str(broken))


def map_moment(trigger: Trigger, facts: dict[str, Any], budget: Budget | None = None) -> dict[str, Any] | Poison:
    """The inputs of a run that a moment starts, or a person: there is no item."""
    try:
        return _render_inputs(trigger, {"trigger": {**facts, "name": trigger.name}}, budget or Budget())
    except _Broken as broken:
        return Poison(broken.part, str(broken))


def map_answer(body: Any, names: dict[str, Any], budget: Budget | None = None) -> Any:
    """What a sender is answered, or Poison."""
    try:
        return _render(body, "answer", names, budget or Budget())
    except _Broken as broken:
        return Poison(broken.part, str(broken))


def _lets_pass(condition: dict[str, Any], item: Any, known: dict[str, Any], budget: Budget) -> bool:
    try:
        return passes(condition, item, {key: value for key, value in known.items() if key != "item"}, budget)
    except BadFilter as error:
        raise _Broken("filter", str(error)) from None


def _matches(expression: str, item: Any, budget: Budget) -> bool:
    """Whether an event matches. What has no payload is tried out by hand, and is nothing that was sent."""
    try:
        return matches_event(expression, item.get("payload") if isinstance(item, dict) else None, budget)
    except BadFilter as error:
        raise _Broken("event.match", str(error)) from None


def _render(value: Any, part: str, names: dict[str, Any], budget: Budget, at_hand: AtHand | None = None) -> Any:
    namespace = Namespace(_NOBODY, extra=names, at_hand=NOTHING if at_hand is None else at_hand)
    namespace.budget = budget
    try:
        for _, text in templates(value, ()):
            if any(type(one) is Secret for one in get_template(text).parts):
                raise _Broken(part, "a secret is no part of what a run is given; name it in the workflow")
        return render(value, namespace)
    except NotAtHand as error:
        if at_hand is not None:
            raise
        raise _Broken(part, str(error)) from None
    except (TemplateError, OverBudget) as error:
        raise _Broken(part, str(error)) from None
    except RecursionError:
        raise _Broken(part, "the item is nested too deep") from None


def _render_inputs(
    trigger: Trigger, names: dict[str, Any], budget: Budget, at_hand: AtHand | None = None
) -> dict[str, Any]:
    rendered: dict[str, Any] = _render(trigger.inputs, "inputs", names, budget, at_hand)
    return rendered


def _render_text(template: str, part: str, names: dict[str, Any], budget: Budget) -> str:
    value = _render(template, part, names, budget)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        got = "nothing" if value is None or value == "" else _SHAPES.get(type(value), "something else")
        hint = ', or give a value for such items: {{ … | default("none", true) }}' if got == "nothing" else ""
        raise _Broken(
            part, f"the {part} must be text or a number, and this item gives {got}; change its template{hint}"
        )
    if len(value) > LONGEST_ID or "\0" in value:
        raise _Broken(part, f"the {part} has more than {LONGEST_ID} characters, or a NUL")
    return value
