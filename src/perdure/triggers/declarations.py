"""Triggers as they are written, to triggers or every problem at once: the entrance for files and requests.

Shapes are read by the model; here is checked what needs a calendar, a time zone, a template or an expression. It needs
no database: whether the workflow exists is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.budget import Budget, OverBudget
from perdure.expressions import cel
from perdure.expressions.templates import find_mistake
from perdure.model.compilation import Compiled, Locator, finish, too_costly
from perdure.model.positions import Positions
from perdure.model.problems import DefinitionError, Path, Problem, Problems
from perdure.model.reader import Format, check_data, read
from perdure.model.references import BadExpression, find_in_template, templates
from perdure.model.trigger_sources import Event, Schedule
from perdure.model.triggers import Trigger, read_listed, read_trigger
from perdure.triggers.calendar import (
    LOOK_STEPS,
    BadSchedule,
    BadTime,
    check_schedule,
    compile_schedule,
    read_day,
    read_time,
)
from perdure.triggers.cron import BadLine, Cron
from perdure.triggers.item_filters import EVENT_NAMES, find_mistakes
from perdure.triggers.mapping import FACTS, OF_ITEM, ROOTS, list_facts
from perdure.triggers.zones import UnknownZone, get_zone

_TEMPLATE_STEPS, _LETTER_STEPS = 100, 4
_PART_STEPS = 100  # a cron line, a time, a day


class Read(msgspec.Struct, frozen=True):
    """The triggers of a text, none of them when one has an error."""

    triggers: tuple[Trigger, ...]
    problems: tuple[Problem, ...]
    written: tuple[dict[str, Any], ...] = ()
    """The triggers as they are written, each with the workflow that it starts."""
    places: tuple[Path, ...] = ()
    """Where each of them stands."""

    def get_triggers(self) -> tuple[Trigger, ...]:
        """The triggers, or DefinitionError with every problem."""
        if any(problem.severity == "error" for problem in self.problems):
            raise DefinitionError(self.problems)
        return self.triggers


def read_text(text: str | bytes, now: float, *, format: Format | None = None, budget: Budget | None = None) -> Read:
    """Read one trigger, or a list of them, in YAML or JSON. `now` is the time from which a schedule must have moments."""
    problems = Problems(budget)
    if not text.strip():
        problems.error("missing_key", (), "there is no trigger; one needs a name, a workflow and a source")
        return Read((), finish(problems, None))
    data, plain, found = read(text, format, problems)
    if problems.errors:
        return Read((), finish(problems, None))
    return _read(data, now, problems, Positions(plain, found))


def read_data(data: Any, now: float, *, budget: Budget | None = None) -> Read:
    """Read triggers that are data already."""
    problems = Problems(budget)
    if not check_data(data, problems):
        return Read((), finish(problems, None))
    return _read(data, now, problems, None)


def find_problems(compiled: Compiled, now: float, budget: Budget | None = None) -> tuple[Problem, ...]:
    """What the compiler cannot see in the triggers of a definition: calendars, time zones, templates, expressions."""
    found = compiled.definition if compiled.draft is None else {"triggers": compiled.draft.triggers}
    if not found or not found.get("triggers"):
        return ()
    name = compiled.draft.ir.name if compiled.draft is not None else found["name"]
    return read_data({"name": name, "nodes": [], "triggers": found["triggers"]}, now, budget=budget).problems


def _read(data: Any, now: float, problems: Problems, positions: Locator | None) -> Read:
    triggers: list[Trigger] = []
    whole: list[dict[str, Any]] = []
    places: list[Path] = []
    names: dict[str, Path] = {}
    try:
        for listed in read_listed(data, problems):
            path, written = listed.path, listed.written
            trigger = read_trigger(written, path, problems, listed.workflow)
            if trigger is None:
                continue
            if trigger.name in names:
                message = f"trigger '{trigger.name}' is already there; give one of the two another name (name)"
                problems.error("duplicate_id", (*path, "name"), message)
            names[trigger.name] = path
            for place, code, said in find_more(trigger, written, now, problems.budget):
                report = problems.warning if code == "no_more_moments" else problems.error
                report(code, (*path, *place), f"trigger '{trigger.name}': {said}")
            triggers.append(trigger)
            whole.append({**written, "workflow": trigger.workflow})
            places.append(path)
    except OverBudget:
        return Read((), (too_costly(),))
    if problems.errors:
        return Read((), finish(problems, positions))
    return Read(tuple(triggers), finish(problems, positions), tuple(whole), tuple(places))


def find_more(trigger: Trigger, written: Any, now: float, budget: Budget) -> Iterator[tuple[Path, str, str]]:
    """What is wrong with a trigger that only a calendar, a template or an expression shows: where, the code, and the words."""
    source = trigger.source
    if isinstance(source, Schedule):
        yield from _check_schedule(source, written["schedule"], now, budget)
    if trigger.filter is not None:
        for place, said in find_mistakes(trigger.filter):
            yield ("filter", *place), "bad_condition", said
    if isinstance(source, Event) and source.match and (said_here := cel.check(source.match, EVENT_NAMES)):
        yield ("event", "match"), "bad_condition", said_here
    if isinstance(source, Event) and trigger.workflow and "{{" in source.key:
        said = "the key of an event is fixed here: there is no run whose values a template could read"
        yield ("event", "key"), "wrong_value", said
    facts = list_facts(trigger)
    yield from _check_templates(written.get("inputs"), ("inputs",), _roots(facts), facts, budget)
    yield from _check_templates(written.get("key"), ("key",), _roots(OF_ITEM), OF_ITEM, budget)
    webhook = written.get("webhook")
    if isinstance(webhook, dict):
        yield from _check_templates(webhook.get("id"), ("webhook", "id"), _roots(OF_ITEM), OF_ITEM, budget)
        answer = webhook.get("answer")
        if isinstance(answer, dict):
            roots = ("run", *_roots(OF_ITEM))
            yield from _check_templates(answer.get("body"), ("webhook", "answer", "body"), roots, ("name",), budget)


def _roots(facts: tuple[str, ...]) -> tuple[str, ...]:
    """The names that templates begin with, where `trigger` has these facts: some stand there by themselves as well."""
    return tuple(one for one in ROOTS if one == "trigger" or one in facts)


def _check_templates(
    value: Any, path: Path, roots: tuple[str, ...], facts: tuple[str, ...], budget: Budget
) -> Iterator[tuple[Path, str, str]]:
    for place, text in templates(value, path):
        budget.spend(_TEMPLATE_STEPS + _LETTER_STEPS * len(text))
        mistake = find_mistake(text)
        if mistake is not None:
            yield place, "bad_template", mistake
            continue
        try:
            references = find_in_template(text, ())
        except BadExpression as error:
            yield place, "bad_template", str(error)
            continue
        for reference in references:
            root = reference.node or reference.root
            if root == "secrets":
                yield place, "bad_reference", "a secret is no part of what a run is given; name it in the workflow"
            elif root not in roots:
                more = "; only with batch or debounce are there several items" if root == "items" else ""
                said = f"there is no '{root[:80]}' here; a template reads {', '.join(roots)}{more}"
                yield place, "bad_reference", said
            elif root == "trigger" and reference.path and reference.path[0] not in facts:
                name = str(reference.path[0])[:80]
                where = " here" if name in FACTS else ""
                yield place, "bad_reference", f"there is no 'trigger.{name}'{where}; it has {', '.join(facts)}"


def _check_schedule(
    schedule: Schedule, written: dict[str, Any], now: float, budget: Budget
) -> Iterator[tuple[Path, str, str]]:
    """Every part by itself, so that each problem has its place; then whether there is a moment at all."""
    try:
        zone = get_zone(schedule.timezone)
    except UnknownZone as error:
        yield ("schedule", "timezone"), "wrong_value", str(error)
        zone = get_zone("UTC")
    wrong = False
    for path, kind, text in _written_parts(written):
        budget.spend(_PART_STEPS)
        try:
            if kind == "cron":
                Cron(" ".join(text.split()), zone)
            elif kind == "day":
                read_day(text)
            else:
                read_time(text, zone)
        except (BadLine, BadTime) as error:
            wrong = True
            said = f"cron line {text[:60]!r}: {error}" if kind == "cron" else str(error)
            yield ("schedule", *path), "wrong_value", said
    if wrong:
        return
    if zone.key == schedule.timezone:
        look = Budget(LOOK_STEPS)
        found = _look(schedule, now, look)
        budget.spend(LOOK_STEPS - look.steps)
        if found is not None:
            yield found


def _look(schedule: Schedule, now: float, budget: Budget) -> tuple[Path, str, str] | None:
    try:
        compile_schedule(schedule)
        if not check_schedule(schedule, now, budget):
            return ("schedule",), "no_more_moments", "the schedule has no moment from now on"
    except BadLine as error:  # of a calendar
        return ("schedule", "calendar"), "wrong_value", str(error)
    except BadSchedule as error:
        return ("schedule",), "bad_schedule", error.message
    return None


def _written_parts(written: dict[str, Any]) -> Iterator[tuple[Path, str, str]]:
    for path, line in _each(written.get("cron"), ("cron",)):
        yield path, "cron", line
    for path, time in _each(written.get("at"), ("at",)):
        yield path, "time", time
    for key in ("from", "until"):
        if written.get(key) is not None:
            yield (key,), "time", written[key]
    for path, one in _each(written.get("except"), ("except",)):
        if isinstance(one, dict):
            for inner, line in _each(one["cron"], (*path, "cron")):
                yield inner, "cron", line
        else:
            yield path, "day", one


def _each(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, list):
        yield from (((*path, index), one) for index, one in enumerate(value))
    elif value is not None:
        yield path, value
