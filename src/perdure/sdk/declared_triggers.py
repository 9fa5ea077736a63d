"""`perdure.schedule`, `perdure.on_webhook`, `perdure.on_event`: triggers declared beside the workflow that they start.

A declaration is data, the same that a YAML file would hold: nothing is started by it. `perdure workflows push`, `perdure dev` and `perdure
triggers apply FILE.py` apply what a file declares.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack

from perdure.sdk.errors import BuildError
from perdure.sdk.options import check_names
from perdure.sdk.single import as_workflow
from perdure.sdk.tasks import Task
from perdure.sdk.workflows import Workflow, plain

Duration = str | float | timedelta
"""`"15m"`, seconds, or a timedelta."""
When = str | date | datetime
"""`"2026-12-24T18:00"` by the clock of the schedule's zone, or a date or datetime."""
Target = Workflow[..., Any] | Task[..., Any] | str
"""A workflow, a task, or the name of one that is registered: `report`, `report@3`, `report@stable`."""

_DECLARED = "__perdure_triggers__"
"""Where a module keeps what it declares."""


class TriggerOptions(TypedDict, total=False):
    """What every trigger may have; docs/reference/triggers.md says what each means."""

    name: str
    description: str
    inputs: Mapping[str, Any]
    overlap: Literal["skip", "buffer_one", "buffer", "cancel", "terminate", "allow"]
    limits: Mapping[str, Any]
    on_poison: Literal["park", "stop"]
    pause_after_failures: int


class ItemOptions(TriggerOptions, total=False):
    """What a trigger may have that is given items."""

    filter: str | Mapping[str, Any]
    key: str
    batch: Mapping[str, Any]
    debounce: Mapping[str, Any]


class Declared:
    """A declared trigger."""

    def __init__(self, workflow: str, data: dict[str, Any], line: int, target: Workflow[..., Any] | None) -> None:
        self.workflow = workflow
        self.data = data
        """What `triggers:` of a definition would hold."""
        self.line = line
        self.target = target
        """The workflow, unless it was named."""

    @property
    def name(self) -> str:
        return str(self.data["name"])

    def definition(self) -> dict[str, Any]:
        """The trigger as a file of triggers would hold it."""
        return {"workflow": self.workflow, **self.data}

    def __repr__(self) -> str:
        return f"<perdure trigger {self.name} of {self.workflow}>"


def schedule(
    workflow: Target,
    *,
    cron: str | Sequence[str] | None = None,
    every: Duration | None = None,
    at: When | Sequence[When] | None = None,
    calendar: Mapping[str, Any] | None = None,
    offset: Duration | None = None,
    timezone: str | None = None,
    leave_out: Sequence[When | Mapping[str, Any]] | None = None,
    jitter: Duration | None = None,
    begin: When | None = None,
    until: When | None = None,
    max_firings: int | None = None,
    catchup: Literal["none", "latest", "all"] | Mapping[str, Any] | None = None,
    **options: Unpack[TriggerOptions],
) -> Declared:
    """Run a workflow at moments of a calendar: `perdure.schedule(report, cron="30 2 * * *", timezone="Europe/Oslo")`.

    Give one of `cron`, `every`, `at` and `calendar`. `leave_out` is `except` of a file, and `begin` its `from`.
    """
    source = {
        "cron": cron,
        "every": every,
        "at": at,
        "calendar": calendar,
        "offset": offset,
        "timezone": timezone,
        "except": leave_out,
        "jitter": jitter,
        "from": begin,
        "until": until,
        "max_firings": max_firings,
    }
    about = dict(options) if catchup is None else {"catchup": catchup, **options}
    return _declare("perdure.schedule", workflow, "schedule", source, about, TriggerOptions, ("catchup",))


def on_webhook(
    workflow: Target,
    *,
    scheme: str = "standard",
    secret: str | None = None,
    verify: Mapping[str, Any] | None = None,
    id: str | None = None,
    answer: Mapping[str, Any] | None = None,
    **options: Unpack[ItemOptions],
) -> Declared:
    """Run a workflow for every delivery that is genuine: `perdure.on_webhook(take_order, scheme="github", secret="ORDERS")`.

    `secret` is the name of a secret. `verify` instead of both has the further keys of scheme `hmac`.
    """
    how = {"scheme": scheme, "secret": secret} if verify is None else dict(verify)
    source = {"verify": {key: value for key, value in how.items() if value is not None}, "id": id, "answer": answer}
    return _declare("perdure.on_webhook", workflow, "webhook", source, dict(options), ItemOptions)


def on_event(workflow: Target, event: str, *, match: str | None = None, **options: Unpack[ItemOptions]) -> Declared:
    """Run a workflow for every event of a name: `perdure.on_event(ship, "order.paid", match="event.amount > 100")`."""
    return _declare("perdure.on_event", workflow, "event", {"name": event, "match": match}, dict(options), ItemOptions)


def declared_in(module: Any) -> list[Declared]:
    """What a module declares, in the order of its lines."""
    return sorted(getattr(module, _DECLARED, ()), key=lambda declared: declared.line)


def _declare(
    called: str,
    target: Target,
    kind: str,
    source: Mapping[str, Any],
    options: dict[str, Any],
    known: type,
    more: Collection[str] = (),
) -> Declared:
    check_names(options, {*known.__annotations__, *more}, called)
    if not isinstance(target, str | Workflow | Task):
        raise BuildError(f"{called} is for a workflow, a task or a name, got {type(target).__name__}")
    workflow = as_workflow(target) if isinstance(target, Task) else target
    name = workflow if isinstance(workflow, str) else workflow.name
    data = {
        "name": name.partition("@")[0],
        **options,
        kind: {key: one for key, one in source.items() if one is not None},
    }
    frame = sys._getframe(2)
    declared = Declared(name, _plain(data, called), frame.f_lineno, None if isinstance(workflow, str) else workflow)
    if isinstance(target, Workflow) and target.function.__module__ == frame.f_globals.get("__name__"):
        target.add_trigger(declared.data)  # a definition does not depend on who else was imported
    frame.f_globals.setdefault(_DECLARED, []).append(declared)
    return declared


def _plain(value: Any, called: str) -> Any:
    """The declaration as JSON: times as they are written, durations in seconds."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one, called) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, called) for one in value]
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    return plain(value, f"an option of {called}")
