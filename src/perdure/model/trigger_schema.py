"""Triggers as a JSON Schema (draft 2020-12), for editors. Made from the tables by which they are read.

What is accepted fits here; what fits may still be refused, for its cron lines, zones and templates.
"""

from __future__ import annotations

from collections.abc import Collection

from perdure.model import definition_schema as base
from perdure.model import trigger_sources as sources
from perdure.model import triggers
from perdure.model.definition_schema import Schema
from perdure.model.durations import PATTERN


def describe_triggers() -> Schema:
    """The schema of a file that holds one trigger, or a list of them."""
    many = {"type": "array", "minItems": 1, "maxItems": triggers.MAX_TRIGGERS, "items": base._ref("trigger")}
    return {
        "$schema": base.DIALECT,
        "title": "Triggers of Perdure",
        "anyOf": [base._ref("trigger"), many],
        "$defs": {"trigger": _trigger(), "condition": base._condition(), "duration": _DURATION},
    }


def describe_own() -> dict[str, Schema]:
    """The definitions that the schema of a workflow needs for its triggers, which start that workflow."""
    return {"trigger": _trigger(["name"]), "duration": _DURATION}


_DURATION: Schema = {
    "anyOf": [{"type": "string", "pattern": f"^{PATTERN}$"}, {"type": "number", "minimum": 0}],
    "description": "90s, 15m, 2h, 1d, or seconds",
}
_DURATION_REF: Schema = base._ref("duration")
_DAY: Schema = {"type": "string", "pattern": f"^{sources.DAY}$"}
_TIME: Schema = {"type": "string", "pattern": f"^{sources.TIME}$"}
_BEGINNING: Schema = {
    "enum": list(sources.BEGINNINGS),
    "description": "what is there at first, only what comes later, or where the source before it stood",
}


def _some(schema: Schema, most: int) -> Schema:
    """One value, or a list of them."""
    return {"anyOf": [schema, {"type": "array", "minItems": 1, "maxItems": most, "items": schema}]}


def _trigger(required: Collection[str] = ("name", "workflow")) -> Schema:
    whole, said, mapping = base._whole, base._said, base._mapping
    rate = mapping(triggers.RATE_KEYS, {"limit": whole(1, 1_000_000), "per": _DURATION_REF}, triggers.RATE_KEYS)
    limits = {
        "open": said(whole(1, triggers.MAX_OPEN), "runs at once"),
        "per_key": whole(1, triggers.MAX_OPEN),
        "buffer": said(whole(1, triggers.MAX_WAITING), "items that wait"),
        "rate": rate,
    }
    catchup = {"mode": {"enum": list(triggers.CATCHUPS)}, "within": _DURATION_REF}
    batch = {"items": whole(1, triggers.MAX_BATCH), "within": _DURATION_REF}
    debounce = {"quiet": _DURATION_REF, "at_most": _DURATION_REF, "keep": {"enum": list(triggers.KEPT)}}
    own = {
        "name": base._NAME,
        "description": {"type": "string"},
        "workflow": said(base._TEXT, "NAME, NAME@VERSION or NAME@ALIAS, looked up at every start"),
        "catchup": {"anyOf": [{"enum": list(triggers.CATCHUPS)}, mapping(triggers.CATCHUP_KEYS, catchup)]},
        "overlap": {"enum": list(triggers.OVERLAPS), "description": "when a run of it is still open"},
        "inputs": said(base._MAPPING, "inputs of the run, with templates"),
        "filter": said(base._ref("condition"), "items that do not pass start nothing"),
        "key": said(base._TEXT, "order is kept per key"),
        "limits": mapping(triggers.LIMIT_KEYS, limits),
        "batch": mapping(triggers.BATCH_KEYS, batch, triggers.BATCH_KEYS),
        "debounce": mapping(triggers.DEBOUNCE_KEYS, debounce, ["quiet"]),
        "on_poison": {"enum": list(triggers.POISONS), "description": "an item that cannot be mapped"},
        "pause_after_failures": said(whole(1, 1_000_000), "failed runs in a row"),
    }
    kinds = {"schedule": _schedule(), "webhook": _webhook(), **_polled()}
    schema = mapping(triggers.TRIGGER_KEYS, {**own, **kinds}, required)
    one = [{"required": [kind], "properties": {kind: {"not": {"type": "null"}}}} for kind in kinds]
    return {**schema, "oneOf": one}


def _schedule() -> Schema:
    line: Schema = {"type": "string", "pattern": r"\S", "description": "minute hour day month weekday"}
    left_out = {"anyOf": [_DAY, base._mapping(("cron",), {"cron": _some(line, sources.MAX_LINES)}, ["cron"])]}

    def numbers(low: int, high: int, names: tuple[str, ...] = ()) -> Schema:
        word = {"type": "string", "pattern": r"^[A-Za-z]{3,9}$"}
        return _some({"anyOf": [base._whole(low, high), word]} if names else base._whole(low, high), 60)

    calendar = {
        "minute": numbers(0, 59),
        "hour": numbers(0, 23),
        "day": numbers(1, 31),
        "month": numbers(1, 12, sources.MONTHS),
        "weekday": numbers(0, 6, sources.WEEKDAYS),
    }
    keys = {
        "cron": _some(line, sources.MAX_LINES),
        "every": _DURATION_REF,
        "offset": _DURATION_REF,
        "at": _some(_TIME, sources.MAX_DAYS),
        "calendar": base._mapping(sources.CALENDAR_KEYS, calendar),
        "timezone": base._said(base._TEXT, "IANA zone, such as Europe/Oslo; UTC without one"),
        "except": _some(left_out, sources.MAX_DAYS + sources.MAX_LINES),
        "jitter": _DURATION_REF,
        "from": _TIME,
        "until": _TIME,
        "max_firings": base._whole(1, 10**9),
    }
    return base._mapping(sources.SCHEDULE_KEYS, keys)


def _webhook() -> Schema:
    verify = {
        "scheme": {"enum": list(sources.SCHEMES)},
        "secret": base._said(base._TEXT, "the name of the secret"),
        "header": base._TEXT,
        "prefix": {"type": "string"},
        "encoding": {"enum": list(sources.ENCODINGS)},
        "timestamp_header": base._TEXT,
        "signed": base._TEXT,
        "id_header": base._TEXT,
    }
    keys = {
        "verify": base._mapping(sources.VERIFY_KEYS, verify, ["scheme"]),
        "id": base._said(base._TEXT, "a template for the id of a delivery"),
        "answer": base._mapping(sources.ANSWER_KEYS, {"wait": _DURATION_REF, "body": {}}),
    }
    return base._mapping(sources.WEBHOOK_KEYS, keys, ["verify"])


def _polled() -> dict[str, Schema]:
    text = base._TEXT
    table = {
        "database": text,
        "table": text,
        "cursor": _some(text, sources.MAX_COLUMNS),
        "every": _DURATION_REF,
        "settle": {"anyOf": [{"const": "transactions"}, _DURATION_REF]},
        "reread": _DURATION_REF,
        "notify": text,
        "from": _BEGINNING,
    }
    folder = {
        "url": text,
        "match": text,
        "settle": _DURATION_REF,
        "identity": {"enum": list(sources.IDENTITIES)},
        "every": _DURATION_REF,
        "order": {"enum": ["name"]},
        "from": _BEGINNING,
    }
    runs = {
        "workflow": base._NAME,
        "state": _some({"enum": list(sources.RUN_STATES)}, 10),
        "tag": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    stream = {"redis": text, "key": text, "from": _BEGINNING}
    poll = {"type": base._NAME, "config": base._MAPPING, "every": _DURATION_REF, "from": _BEGINNING}
    return {
        "table": base._mapping(sources.TABLE_KEYS, table, ["cursor", "database", "table"]),
        "folder": base._mapping(sources.FOLDER_KEYS, folder, ["url"]),
        "stream": base._mapping(sources.STREAM_KEYS, stream, ["key", "redis"]),
        "runs": base._mapping(sources.RUNS_KEYS, runs, ["workflow"]),
        "event": base._mapping(sources.EVENT_KEYS, {"name": base._NAME, "key": text, "match": text}, ["name"]),
        "poll": base._mapping(sources.POLL_KEYS, poll, ["type"]),
    }
