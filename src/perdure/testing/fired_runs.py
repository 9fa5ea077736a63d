"""A trigger in virtual time: the runs that a schedule starts in a year, or that a delivery starts, in milliseconds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from perdure.errors import PerdureError
from perdure.kernel import events as e
from perdure.kernel.triggers.mailbox import Item
from perdure.model.problems import Problems
from perdure.model.reader import Format, read
from perdure.model.trigger_sources import Schedule, Webhook
from perdure.model.triggers import Trigger
from perdure.plain import NotData, to_data
from perdure.simulation.clock import EPOCH
from perdure.simulation.stage.stubs import check_names
from perdure.simulation.stage.user_stage import Setting
from perdure.simulation.stage.user_triggers import Pushed, TriggerStage
from perdure.simulation.story import tell
from perdure.spelling import list_known, suggest
from perdure.testing.definitions import FORMATS, Definition, importing, load
from perdure.testing.scripted_run import Run, off_loop, raise_failure
from perdure.triggers.calendar import read_time
from perdure.triggers.declarations import read_data, read_text
from perdure.triggers.zones import get_zone, say_time


class Declared(Protocol):
    """A trigger that was declared in Python."""

    @property
    def target(self) -> Any: ...
    def definition(self) -> dict[str, Any]: ...


Triggers = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Declared | Trigger
"""A path, YAML or JSON text (more than one line of it), data, what `perdure.schedule` and the like return, or a trigger. A
workflow that has triggers is one too."""
Time = str | datetime | float
"""`2026-03-29T02:30` by the clock of the schedule's zone, or with an offset; or seconds since 1970."""


class TriggerInvalid(PerdureError):
    """The trigger cannot be tested so."""

    code = "trigger_invalid"


class Skipped(msgspec.Struct, frozen=True):
    """A moment or an item that started no run, or several moments in a row."""

    reason: str
    """`overlap`, `superseded`, `catchup`, `paused`, `duplicate`, `limit`: those of the journal."""
    at: str = ""
    """The moment, the first of them where there are several, by the clock of its zone."""
    id: str = ""
    count: int = 1


class ParkedItem(msgspec.Struct, frozen=True):
    id: str
    code: str
    message: str


class Fired:
    """What a trigger did: the runs that it started, in order, and what became of everything else."""

    def __init__(self, world: TriggerStage) -> None:
        source = world.trigger.source
        self._zone = get_zone(source.timezone if isinstance(source, Schedule) else "UTC")
        self._lines = world.lines or []
        found = world.events()
        items: dict[int, Item] = {}
        for event in found:
            if isinstance(event, e.TriggerReceived):
                items.update({item.number: item for item in event.items})
        started = [one.run_id for event in found if isinstance(event, e.TriggerStarted) for one in event.starts]
        self.runs: tuple[Run, ...] = tuple(Run(world, name) for name in started if name in world.store.runs)
        """The runs, in the order in which they were started."""
        self.skipped: tuple[Skipped, ...] = tuple(
            one for event in found if isinstance(event, e.TriggerSkipped) for one in self._list(event, items)
        )
        self.parked: tuple[ParkedItem, ...] = tuple(
            ParkedItem(items[event.number].id, event.error.code, event.error.message)
            for event in found
            if isinstance(event, e.TriggerParked)
        )
        """Items that could not be mapped, or whose inputs did not fit."""
        self.filtered: tuple[Any, ...] = tuple(world.filtered)
        """Items that the filter did not let pass."""
        self.waiting: int = len(world.mailbox.waiting)
        """How many items still wait for their run to start."""

    def _list(self, event: e.TriggerSkipped, items: Mapping[int, Item]) -> list[Skipped]:
        if event.numbers:
            return [Skipped(event.reason, self._say(items[n].nominal), items[n].id) for n in event.numbers]
        return [Skipped(event.reason, self._say(event.since), count=event.count)]

    def _say(self, at: float | None) -> str:
        return "" if at is None else say_time(int(at), self._zone)

    def history(self) -> list[str]:
        """The history of the trigger and its runs, line by line."""
        return tell(self._lines)

    def __repr__(self) -> str:
        return f"<Fired {len(self.runs)} runs, {len(self.skipped)} skipped, {len(self.parked)} parked>"


def run_schedule(
    trigger: Triggers,
    *,
    since: Time,
    until: Time,
    workflows: Sequence[Definition] = (),
    stubs: Mapping[str, Any] | None = None,
    real: bool | Collection[str] = False,
    name: str = "",
    seed: int = 0,
) -> Fired:
    """Let a schedule run from `since` until `until`, in virtual time. What is open then goes on to its end.

    `workflows` has the workflow that the trigger names, unless the trigger stands in it, and those that it starts. `stubs` and `real` are those of `run`.
    `name` chooses a trigger where there are several.
    """
    found = _read(trigger, name)
    source = found.source
    if not isinstance(source, Schedule):
        raise TriggerInvalid(f"trigger {found.name} is a {found.kind} and has no moments; use deliver")
    begin, end = _seconds(since, source), _seconds(until, source)
    if begin >= end:
        raise TriggerInvalid(f"since {since} does not come before until {until}")
    workflows = [*_workflow_of(trigger), *workflows]
    setting = _make_setting(found, workflows, stubs, real)
    return _play(TriggerStage(setting, found, since=begin, until=end, seed=seed), workflows)


def deliver(
    trigger: Triggers,
    *items: Any,
    workflows: Sequence[Definition] = (),
    stubs: Mapping[str, Any] | None = None,
    real: bool | Collection[str] = False,
    name: str = "",
    seed: int = 0,
) -> Fired:
    """Push items to a trigger, in virtual time, and let its runs end.

    An item is what templates read as `item`: {body, headers, query} for a webhook, each of which may be left out. `Pushed(item,
    id=…, at=…)` says what its sender calls it, and when it comes. Signatures are not asked for: nothing was sent.
    """
    found = _read(trigger, name)
    if isinstance(found.source, Schedule):
        raise TriggerInvalid(f"trigger {found.name} is a schedule and takes no items; use run_schedule")
    pushes = [_pushed(found, item) for item in items]
    workflows = [*_workflow_of(trigger), *workflows]
    setting = _make_setting(found, workflows, stubs, real)
    return _play(TriggerStage(setting, found, pushes=pushes, seed=seed), workflows)


def _play(world: TriggerStage, workflows: Sequence[Definition]) -> Fired:
    with importing(*workflows):
        off_loop(world.run)
    try:
        raise_failure(world)
        return Fired(world)
    finally:
        world.loop.close()


def _pushed(trigger: Trigger, item: Any) -> Pushed:
    pushed = item if isinstance(item, Pushed) else Pushed(item)
    try:
        data = to_data(pushed.item)
    except NotData as error:
        raise TriggerInvalid(f"an item of {trigger.name} is not JSON: {error}") from error
    if isinstance(trigger.source, Webhook):
        if not isinstance(data, dict) or data.keys() - {"body", "headers", "query"}:
            raise TriggerInvalid(f"an item of webhook {trigger.name} is {{body, headers, query}}; write {{'body': …}}")
        headers = {key.lower(): value for key, value in data.get("headers", {}).items()}
        data = {"body": data.get("body"), "headers": headers, "query": data.get("query", {})}
    return msgspec.structs.replace(pushed, item=data)


def _read(trigger: Triggers, name: str) -> Trigger:
    """The trigger, or DefinitionError with every problem. Its workflow has one version here, whatever the trigger wants."""
    found = _choose(trigger, name)
    return msgspec.structs.replace(found, workflow=found.workflow.partition("@")[0])


def _choose(trigger: Triggers, name: str) -> Trigger:
    if isinstance(trigger, Trigger):
        return trigger
    if hasattr(trigger, "definition"):
        found = read_data(trigger.definition(), EPOCH).get_triggers()
    elif isinstance(trigger, str | Path):
        text, kind = _read_file(trigger)
        found = read_text(text, EPOCH, format=kind).get_triggers()
    else:
        found = read_data(to_data(trigger), EPOCH).get_triggers()
    if not found:
        raise TriggerInvalid("the workflow has no triggers")
    names = [one.name for one in found]
    if name and name not in names:
        raise TriggerInvalid(f"there is no trigger {name!r}; {suggest(name, names, list_known(names))}")
    if not name and len(names) > 1:
        raise TriggerInvalid(f"there are {len(names)} triggers; choose one with name=: {', '.join(names[:10])}")
    return next(one for one in found if name in ("", one.name))


def _read_file(source: str | Path) -> tuple[str | bytes, Format | None]:
    if isinstance(source, str) and "\n" in source:
        return source, None
    path = Path(source)
    return path.read_bytes(), FORMATS.get(path.suffix.lower())


def _workflow_of(trigger: Triggers) -> list[Definition]:
    """The workflow that comes with a trigger: the one that it was declared for, or that it stands in."""
    if isinstance(trigger, Trigger):
        return []
    if hasattr(trigger, "target"):
        return [] if trigger.target is None else [trigger.target]
    if isinstance(trigger, str | Path):
        data, _, _ = read(*_read_file(trigger), Problems())
        return [trigger] if isinstance(data, dict) and "nodes" in data else []
    return [trigger] if isinstance(trigger, Mapping) and "nodes" in trigger else []


def _seconds(time: Time, schedule: Schedule) -> float:
    zone = get_zone(schedule.timezone)
    if isinstance(time, str):
        return float(read_time(time, zone).at)
    if isinstance(time, datetime):
        return (time if time.tzinfo is not None else time.replace(tzinfo=zone)).astimezone(UTC).timestamp()
    return float(time)


def _make_setting(
    trigger: Trigger, workflows: Sequence[Definition], stubs: Mapping[str, Any] | None, real: bool | Collection[str]
) -> Setting:
    children = [child for one in workflows for child in getattr(one, "children", tuple)()]
    compiled = [load(one) for one in (*workflows, *children)]
    target, names = trigger.workflow, [ir.name for ir in compiled]
    if target not in names:
        hint = f"workflows= has {', '.join(names)}" if names else "give workflows=[…]"
        raise TriggerInvalid(f"trigger {trigger.name} starts {target}, which is not there; {hint}")
    check_names(stubs or {}, compiled)
    compiled.sort(key=lambda ir: ir.name != target)
    return Setting(
        workflows=tuple(compiled),
        inputs=None,
        stubs=dict(stubs or {}),
        real=real if isinstance(real, bool) else frozenset(real),
    )
