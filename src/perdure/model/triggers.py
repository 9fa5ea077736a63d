"""A trigger: what starts runs by itself, how many at once, and with which inputs.

Owns the keys of a trigger and its limits; its source is read in `trigger_sources.py`. What needs a time zone, a cron
line or a template to be understood is checked by `perdure.triggers.declarations`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from perdure.model.conditions import read_condition
from perdure.model.durations import read_duration
from perdure.model.fields import Fields, as_fields
from perdure.model.problems import Path, Problems, describe
from perdure.model.trigger_sources import READERS, Schedule, Source, read_source

MAX_TRIGGERS = 1000
"""The most triggers of one file."""
MAX_WAITING = 10_000
MAX_OPEN = 10_000
MAX_BATCH = 1000
CATCHUPS = ("none", "latest", "all")
OVERLAPS = ("skip", "buffer_one", "buffer", "cancel", "terminate", "allow")
POISONS = ("park", "stop")
KEPT = ("all", "last")
FILTERS = ("cel", "jsonpath", "schema_validation", "composite")

_WORKFLOW = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(?:@[A-Za-z0-9_.-]{1,128})?\Z")

OWN_KEYS = frozenset(
    {
        *("name", "description", "workflow", "catchup", "overlap", "inputs", "filter", "key", "limits", "batch"),
        *("debounce", "on_poison", "pause_after_failures"),
    }
)
TRIGGER_KEYS = OWN_KEYS | READERS.keys()
_BESIDE = dict.fromkeys(OWN_KEYS, "beside the source, not in it")
CATCHUP_KEYS = frozenset({"mode", "within"})
LIMIT_KEYS = frozenset({"open", "per_key", "buffer", "rate"})
RATE_KEYS = frozenset({"limit", "per"})
BATCH_KEYS = frozenset({"items", "within"})
DEBOUNCE_KEYS = frozenset({"quiet", "at_most", "keep"})
_OF_ITEMS = ("filter", "key", "batch", "debounce")
"""The keys that speak of items: a schedule has moments, and no item."""


class Catchup(msgspec.Struct, frozen=True):
    mode: str = "latest"
    within: int | float = 86_400


class Rate(msgspec.Struct, frozen=True):
    limit: int
    per: int | float


class Limits(msgspec.Struct, frozen=True):
    open: int = 100
    per_key: int = 1
    buffer: int = 1000
    rate: Rate | None = None


class Batch(msgspec.Struct, frozen=True):
    items: int
    within: int | float


class Debounce(msgspec.Struct, frozen=True):
    quiet: int | float
    at_most: int | float
    keep: str = "all"


class Trigger(msgspec.Struct, frozen=True):
    """A trigger in canonical form. `msgspec.to_builtins` and `msgspec.convert` lead to plain data and back."""

    name: str
    workflow: str
    source: Source
    description: str = ""
    catchup: Catchup = Catchup()
    overlap: str = "buffer"
    inputs: dict[str, Any] = {}
    filter: dict[str, Any] | None = None
    key: str = ""
    limits: Limits = Limits()
    batch: Batch | None = None
    debounce: Debounce | None = None
    on_poison: str = "park"
    pause_after_failures: int = 0
    """0: never."""

    @property
    def kind(self) -> str:
        return str(type(self.source).__struct_config__.tag)


class Listed(msgspec.Struct, frozen=True):
    path: Path
    written: Any
    workflow: str = ""
    """The workflow whose definition it stands in; empty: the trigger names its own."""


def read_listed(data: Any, problems: Problems) -> list[Listed]:
    """The triggers of a file, as they are written: it holds one, a list, or a workflow that has some."""
    if isinstance(data, dict) and "nodes" in data:
        return list_of_workflow(data, problems)
    if not isinstance(data, list):
        return [Listed((), data)]
    return [Listed((index,), one) for index, one in enumerate(_count(data, (), problems))]


def list_of_workflow(data: dict[str, Any], problems: Problems) -> list[Listed]:
    """The triggers of a definition."""
    found, name = data.get("triggers"), data.get("name")
    if found is None:
        return []
    if not isinstance(found, list):
        message = f"'triggers' of the workflow must be a list, got {describe(found)}; begin each with '- name: NAME'"
        problems.error("wrong_type", ("triggers",), message)
        return []
    if not isinstance(name, str):
        problems.error("missing_key", (), "a workflow with triggers needs a 'name': they start it by its name")
        return []
    return [Listed(("triggers", index), one, name) for index, one in enumerate(_count(found, ("triggers",), problems))]


def _count(found: list[Any], path: Path, problems: Problems) -> list[Any]:
    if not found and not path:
        problems.error("wrong_value", path, "the list of triggers is empty")
    if len(found) > MAX_TRIGGERS:
        problems.error("too_large", path, f"there are {len(found)} triggers; at most {MAX_TRIGGERS} are accepted")
        return []
    return found


def read_trigger(data: Any, path: Path, problems: Problems, workflow: str = "") -> Trigger | None:
    """The trigger, or None when it is wrong, and every problem of it is reported. `workflow` is that of the definition
    it stands in."""
    before = problems.errors
    name = data.get("name") if isinstance(data, dict) else None
    what = f"trigger '{name[:128]}'" if isinstance(name, str) else f"trigger {path[-1] + 1}" if path else "the trigger"  # type: ignore[operator]
    fields = as_fields(data, path, what, problems, TRIGGER_KEYS, elsewhere=_find_places(data))
    if fields is None:
        return None
    for key in ("name",) if workflow else ("name", "workflow"):
        if not fields.has(key):
            fields.error("missing_key", "", f"{what} has no '{key}'; it needs one")
    kinds = [key for key in READERS if fields.has(key)]
    if len(kinds) != 1:
        said = f"has {' and '.join(kinds)}" if kinds else "has no source"
        code, key = ("conflicting_keys", kinds[1]) if kinds else ("missing_key", "")
        fields.error(code, key, f"{what} {said}; give exactly one of {', '.join(READERS)}")
    sources = [read_source(fields, kind, _BESIDE) for kind in kinds]
    parts = _read_parts(fields, "schedule" in kinds)
    if workflow:
        named = parts.setdefault("workflow", workflow)
        if named.partition("@")[0] != workflow:
            message = f"{what} stands in workflow '{workflow}' and starts no other; leave 'workflow' out, or write {workflow}@ALIAS"
            fields.error("wrong_value", "workflow", message)
    if problems.errors > before or not sources or sources[0] is None:
        return None
    return Trigger(source=sources[0], **parts)


def _find_places(data: Any) -> dict[str, str]:
    """Where keys stand that are those of a source: of the one that is written, or where none is, of the only one that has them."""
    places: dict[str, str] = {}
    if not isinstance(data, dict) or TRIGGER_KEYS.issuperset(data):
        return places
    written = [kind for kind in READERS if data.get(kind) is not None]
    for key in {key for known, _ in READERS.values() for key in known} - TRIGGER_KEYS:
        kinds = [kind for kind in written or READERS if key in READERS[kind][0]]
        if len(kinds) == 1:
            places[key] = f"in '{kinds[0]}'"
    return places


def _read_parts(fields: Fields, is_schedule: bool) -> dict[str, Any]:
    """What is the same for every source."""
    workflow = fields.text("workflow")
    if workflow is not None and _WORKFLOW.match(workflow) is None:
        message = f"'workflow' of {fields.what} must be NAME, NAME@VERSION or NAME@ALIAS, got {describe(workflow)}"
        fields.error("wrong_value", "workflow", message)
    for key in _OF_ITEMS:
        if is_schedule and fields.has(key):
            fields.error("misplaced_key", key, f"'{key}' of {fields.what} has no meaning: a schedule has no items")
    if not is_schedule and fields.has("catchup"):
        fields.error("misplaced_key", "catchup", f"'catchup' of {fields.what} is for schedules; others miss nothing")
    overlap = fields.choice("overlap", OVERLAPS) or ("skip" if is_schedule else "buffer")
    failures = fields.integer("pause_after_failures", 1, 1_000_000)
    if failures is not None and overlap == "allow":
        message = (
            f"'pause_after_failures' of {fields.what} needs to be told how runs end, and with overlap: allow nobody is"
        )
        fields.error("conflicting_keys", "pause_after_failures", message)
    if fields.has("batch") and fields.has("debounce"):
        fields.error("conflicting_keys", "debounce", f"{fields.what} has batch and debounce; keep one of them")
    parts = {
        "name": fields.name("name"),
        "workflow": workflow,
        "description": fields.text("description", empty=True),
        "catchup": _read_catchup(fields),
        "overlap": overlap,
        "inputs": fields.mapping("inputs"),
        "filter": _read_filter(fields),
        "key": fields.text("key"),
        "limits": _read_limits(fields, is_schedule),
        "batch": _read_batch(fields),
        "debounce": _read_debounce(fields),
        "on_poison": fields.choice("on_poison", POISONS),
        "pause_after_failures": failures,
    }
    return {key: value for key, value in parts.items() if value is not None}


def _inner(fields: Fields, key: str, known: frozenset[str]) -> Fields | None:
    if not fields.has(key):
        return None
    return as_fields(fields.data[key], (*fields.path, key), f"{key} of {fields.what}", fields.problems, known)


def _read_catchup(fields: Fields) -> Catchup | None:
    if isinstance(fields.data.get("catchup"), str):
        mode = fields.choice("catchup", CATCHUPS)
        return None if mode is None else Catchup(mode)
    inner = _inner(fields, "catchup", CATCHUP_KEYS)
    if inner is None:
        return None
    within = read_duration(inner, "within", 1)
    return Catchup(inner.choice("mode", CATCHUPS) or "latest", 86_400 if within is None else within)


def _read_filter(fields: Fields) -> dict[str, Any] | None:
    if not fields.has("filter"):
        return None
    path, what = (*fields.path, "filter"), f"filter of {fields.what}"
    condition = read_condition(fields.data["filter"], path, what, fields.problems)
    if condition is not None:
        _check_filter(condition, path, what, fields.problems)
    return condition


def _check_filter(condition: dict[str, Any], path: Path, what: str, problems: Problems) -> None:
    kind = condition["type"]
    if kind not in FILTERS:
        why = f"{what} is of type {kind}; before there is a run it may be of {', '.join(FILTERS)}"
        problems.error("wrong_value", path, why)
    elif "schema_ref" in condition:
        problems.error(
            "misplaced_key", (*path, "schema_ref"), f"{what} must hold its schema; there is no run to load it"
        )
    for index, inner in enumerate(condition.get("conditions", ()) if kind == "composite" else ()):
        if inner is not None:
            _check_filter(inner, (*path, "conditions", index), what, problems)


def _read_limits(fields: Fields, is_schedule: bool) -> Limits:
    usual = Limits(open=1 if is_schedule else 100)
    inner = _inner(fields, "limits", LIMIT_KEYS)
    if inner is None:
        return usual
    if inner.has("per_key") and not fields.has("key") and not is_schedule:
        inner.error("missing_key", "per_key", f"'per_key' of {inner.what} counts by 'key', and there is none")
    rate = None
    measured = _inner(inner, "rate", RATE_KEYS)
    if measured is not None:
        limit, per = measured.integer("limit", 1, 1_000_000), read_duration(measured, "per", 0.001)
        for key in ("limit", "per"):
            if not measured.has(key):
                measured.error("missing_key", "", f"{measured.what} has no '{key}'; write {{limit: 50, per: 1s}}")
        rate = None if limit is None or per is None else Rate(limit, per)
    return Limits(
        inner.integer("open", 1, MAX_OPEN) or usual.open,
        inner.integer("per_key", 1, MAX_OPEN) or usual.per_key,
        inner.integer("buffer", 1, MAX_WAITING) or usual.buffer,
        rate,
    )


def _read_batch(fields: Fields) -> Batch | None:
    inner = _inner(fields, "batch", BATCH_KEYS)
    if inner is None:
        return None
    for key in ("items", "within"):
        if not inner.has(key):
            inner.error("missing_key", "", f"{inner.what} has no '{key}'; write {{items: 100, within: 5s}}")
    items, within = inner.integer("items", 1, MAX_BATCH), read_duration(inner, "within", 0.001, 86_400)
    return None if items is None or within is None else Batch(items, within)


def _read_debounce(fields: Fields) -> Debounce | None:
    inner = _inner(fields, "debounce", DEBOUNCE_KEYS)
    if inner is None:
        return None
    if not inner.has("quiet"):
        inner.error("missing_key", "", f"{inner.what} has no 'quiet'; write {{quiet: 10s, at_most: 1m}}")
    quiet = read_duration(inner, "quiet", 0.001, 86_400)
    at_most = read_duration(inner, "at_most", quiet or 0.001, 7 * 86_400)
    keep = inner.choice("keep", KEPT) or "all"
    if quiet is None:
        return None
    return Debounce(quiet, 6 * quiet if at_most is None else at_most, keep)


def is_schedule(trigger: Trigger) -> bool:
    return isinstance(trigger.source, Schedule)
