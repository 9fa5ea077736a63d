"""The sources of a trigger, one struct each: what they are called, and how they are written.

A schedule has moments, a webhook is called, a table, a folder, a stream and a custom source are polled, runs and events
are waited for. It must not know cron lines, time zones or templates: `perdure.triggers` checks those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from perdure.model.durations import read_duration
from perdure.model.fields import Fields, as_fields
from perdure.model.problems import describe

MAX_LINES = 100
"""The most cron lines of a schedule, and the most cron lines it leaves out."""
MAX_DAYS = 10_000
"""The most days that a schedule leaves out, and the most times that it lists."""
SHORTEST_EVERY = 1
MAX_COLUMNS = 8
RUN_STATES = ("completed", "failed", "cancelled", "rolled_back")
SCHEMES = ("standard", "github", "stripe", "slack", "hmac", "bearer", "none")
IDENTITIES = ("path", "version", "content")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = rf"{DAY}(?:[T ][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?"
_DAY, _TIME = re.compile(rf"{DAY}\Z"), re.compile(rf"{TIME}\Z")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}\Z")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}(?:\.[A-Za-z_][A-Za-z0-9_$]{0,62})?\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_HELD = re.compile(r"\{\{\s*secrets\.[A-Za-z_][A-Za-z0-9_]{0,127}\s*\}\}\Z")

SCHEDULE_KEYS = frozenset(
    ("cron", "every", "offset", "at", "calendar", "timezone", "except", "jitter", "from", "until", "max_firings")
)
CALENDAR_KEYS = frozenset({"minute", "hour", "day", "month", "weekday"})
WEBHOOK_KEYS = frozenset({"verify", "id", "answer"})
VERIFY_KEYS = frozenset({"scheme", "secret", "header", "prefix", "encoding", "timestamp_header", "signed", "id_header"})
ANSWER_KEYS = frozenset({"wait", "body"})
TABLE_KEYS = frozenset({"database", "table", "cursor", "every", "settle", "reread", "notify", "from"})
FOLDER_KEYS = frozenset({"url", "match", "settle", "identity", "every", "order", "from"})
STREAM_KEYS = frozenset({"redis", "key", "from"})
RUNS_KEYS = frozenset({"workflow", "state", "tag"})
EVENT_KEYS = frozenset({"name", "key", "match"})
POLL_KEYS = frozenset({"type", "config", "every", "from"})
BEGINNINGS = ("start", "end", "cursor")
_HMAC_KEYS = ("header", "prefix", "encoding", "timestamp_header", "signed", "id_header")
ENCODINGS = ("hex", "base64")


class _Source(msgspec.Struct, frozen=True, tag_field="kind"):
    """What starts runs. Its tag is the key it is written under."""


class Schedule(_Source, frozen=True, tag="schedule", rename={"from_": "from"}):
    """Exactly one of cron, every and at is given; a calendar is a cron line. Times without an offset are local."""

    cron: tuple[str, ...] = ()
    every: int = 0
    """Seconds; 0: not this kind."""
    offset: int = 0
    at: tuple[str, ...] = ()
    timezone: str = "UTC"
    except_days: tuple[str, ...] = ()
    except_cron: tuple[str, ...] = ()
    jitter: int | float = 0
    from_: str = ""
    until: str = ""
    max_firings: int = 0
    """0: no limit."""


_BODY = "{body}"
"""What is signed if nothing else is said."""


class Verify(msgspec.Struct, frozen=True):
    """How a delivery proves where it comes from. All but the scheme and the secret are of `hmac`."""

    scheme: str
    secret: str = ""
    """The name of the secret, never the secret."""
    header: str = ""
    prefix: str = ""
    encoding: str = "hex"
    timestamp_header: str = ""
    signed: str = _BODY
    id_header: str = ""


class Answer(msgspec.Struct, frozen=True):
    wait: int | float = 0
    body: Any = None


class Webhook(_Source, frozen=True, tag="webhook"):
    verify: Verify
    id: str = ""
    answer: Answer | None = None


class Table(_Source, frozen=True, tag="table", rename={"from_": "from"}):
    database: str
    table: str
    cursor: tuple[str, ...]
    every: int | float = 10
    settle: int | float | None = None
    """Seconds; None: until every transaction that could still write an earlier row has ended."""
    reread: int | float = 0
    notify: str = ""
    from_: str = ""
    """start, end, or with another source cursor; empty: end, and another source must say it."""


class Folder(_Source, frozen=True, tag="folder", rename={"from_": "from"}):
    url: str
    match: str = "*"
    settle: int | float = 10
    identity: str = "version"
    every: int | float = 30
    order: str = ""
    from_: str = ""
    """start, end, or with another source cursor; empty: end, and another source must say it."""


class Stream(_Source, frozen=True, tag="stream", rename={"from_": "from"}):
    redis: str
    key: str
    from_: str = ""
    """start, end, or with another source cursor; empty: end, and another source must say it."""


class Runs(_Source, frozen=True, tag="runs"):
    workflow: str
    state: tuple[str, ...] = ("completed",)
    tag: dict[str, str] = {}


class Event(_Source, frozen=True, tag="event"):
    name: str
    match: str = ""
    key: str = ""
    """Only events with this key; empty: whichever they have."""


class Poll(_Source, frozen=True, tag="poll", rename={"from_": "from"}):
    type: str
    config: dict[str, Any] = {}
    every: int | float = 30
    from_: str = ""


Source = Schedule | Webhook | Table | Folder | Stream | Runs | Event | Poll


def read_source(trigger: Fields, kind: str, elsewhere: Mapping[str, str] | None = None) -> Source | None:
    """The source written under the key `kind`; None when it is wrong, and that is reported. `elsewhere` is of keys that are not its own."""
    known, reader = READERS[kind]
    what, path = f"{kind} of {trigger.what}", (*trigger.path, kind)
    fields = as_fields(trigger.data[kind], path, what, trigger.problems, known, elsewhere=elsewhere)
    if fields is None:
        return None
    before = trigger.problems.errors
    source = reader(fields)
    return source if trigger.problems.errors == before else None


def _needs(fields: Fields, *keys: str) -> None:
    for key in keys:
        if not fields.has(key):
            fields.error("missing_key", "", f"{fields.what} has no '{key}'; it needs one")


def _given(**values: Any) -> dict[str, Any]:
    """The values that were given: a struct has defaults for the others."""
    return {key: value for key, value in values.items() if value is not None}


def _matched(fields: Fields, key: str, pattern: re.Pattern[str], wanted: str) -> str | None:
    value = fields.text(key)
    if value is not None and pattern.match(value) is None:
        fields.error("wrong_value", key, f"'{key}' of {fields.what} must be {wanted}, got {describe(value)}")
        return None
    return value


# -- schedules ---------------------------------------------------------------------------------------------------------


def _read_schedule(fields: Fields) -> Schedule:
    kinds = [key for key in ("cron", "every", "at", "calendar") if fields.has(key)]
    if len(kinds) != 1:
        said = f"has {' and '.join(kinds)}" if kinds else "says no time"
        fields.error(
            "conflicting_keys" if kinds else "missing_key",
            kinds[1] if kinds else "",
            f"{fields.what} {said}; give exactly one of cron, every, at and calendar",
        )
    if fields.has("offset") and not fields.has("every"):
        fields.error("misplaced_key", "offset", f"'offset' of {fields.what} shifts 'every', and there is none")
    lines = _read_lines(fields, "cron", MAX_LINES)
    if fields.has("calendar"):
        line = _read_calendar(fields)
        lines = () if line is None else (line,)
    every = read_duration(fields, "every", SHORTEST_EVERY, whole=True)
    longest = every - 1 if every else 10**9
    days, crons = _read_exceptions(fields)
    return Schedule(
        **_given(
            cron=lines,
            every=every,
            offset=read_duration(fields, "offset", 0, longest, whole=True),
            at=_read_times(fields),
            timezone=fields.text("timezone"),
            except_days=days,
            except_cron=crons,
            jitter=read_duration(fields, "jitter", 0, 86_400),
            from_=_matched(fields, "from", _TIME, "a day or a time such as 2026-01-31T18:00"),
            until=_matched(fields, "until", _TIME, "a day or a time such as 2026-01-31T18:00"),
            max_firings=fields.integer("max_firings", 1, 10**9),
        )
    )


def _listed(fields: Fields, key: str, most: int) -> list[tuple[tuple[str | int, ...], Any]]:
    """The values of a key that may hold one or a list, each with its path."""
    value = fields.data.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        return [((*fields.path, key), value)]
    if not value:
        fields.error("wrong_value", key, f"'{key}' of {fields.what} is empty; leave it out or fill it in")
    if len(value) > most:
        fields.error("too_large", key, f"'{key}' of {fields.what} has {len(value)} values; at most {most} are accepted")
        return []
    return [((*fields.path, key, index), one) for index, one in enumerate(value)]


def _read_lines(fields: Fields, key: str, most: int) -> tuple[str, ...] | None:
    found = []
    for path, line in _listed(fields, key, most):
        if isinstance(line, str) and line.strip():
            found.append(" ".join(line.split()))
        else:
            wanted = "a cron line such as '30 2 * * 1-5'"
            fields.problems.error(
                "wrong_type", path, f"'{key}' of {fields.what} must be {wanted}, got {describe(line)}"
            )
    return tuple(dict.fromkeys(found)) if fields.has(key) else None


def _read_times(fields: Fields) -> tuple[str, ...] | None:
    found = []
    for path, value in _listed(fields, "at", MAX_DAYS):
        if isinstance(value, str) and _TIME.match(value):
            found.append(value)
        else:
            message = f"'at' of {fields.what} must hold times such as 2026-12-24T18:00, got {describe(value)}"
            fields.problems.error("wrong_value", path, message)
    return tuple(dict.fromkeys(found)) if fields.has("at") else None


def _read_exceptions(fields: Fields) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    days: dict[str, None] = {}
    crons: dict[str, None] = {}
    for path, value in _listed(fields, "except", MAX_DAYS + MAX_LINES):
        if isinstance(value, str) and _DAY.match(value):
            days[value] = None
        elif isinstance(value, dict):
            inner = Fields(value, path, f"except of {fields.what}", fields.problems, ("cron",))
            _needs(inner, "cron")
            crons.update(dict.fromkeys(_read_lines(inner, "cron", MAX_LINES) or ()))
        else:
            message = (
                f"'except' of {fields.what} must hold days such as 2026-12-25 or {{cron: …}}, got {describe(value)}"
            )
            fields.problems.error("wrong_value", path, message)
    if len(crons) > MAX_LINES or len(days) > MAX_DAYS:
        most = f"at most {MAX_DAYS} days and {MAX_LINES} cron lines are accepted"
        fields.error("too_large", "except", f"'except' of {fields.what} has too much; {most}")
    return tuple(days) or None, tuple(crons) or None


def _read_calendar(fields: Fields) -> str | None:
    """The cron line of a calendar. Minute and hour are 0 when they are left out, the others any."""
    what = f"calendar of {fields.what}"
    problems = fields.problems
    inner = as_fields(fields.data["calendar"], (*fields.path, "calendar"), what, problems, CALENDAR_KEYS)
    if inner is None:
        return None
    before = problems.errors
    if not inner.data:
        inner.error("wrong_value", "", f"{what} is empty; write for example {{weekday: [mon, fri], hour: 9}}")
    if inner.has("day") and inner.has("weekday"):
        message = f"{what} has day and weekday, which cron joins by 'or'; give one of them, or write the cron line"
        inner.error("conflicting_keys", "weekday", message)
    parts = (
        _read_part(inner, "minute", 0, 59, (), "0"),
        _read_part(inner, "hour", 0, 23, (), "0"),
        _read_part(inner, "day", 1, 31, (), "*"),
        _read_part(inner, "month", 1, 12, MONTHS, "*"),
        _read_part(inner, "weekday", 0, 6, WEEKDAYS, "*"),
    )
    return " ".join(parts) if problems.errors == before else None


def _read_part(fields: Fields, key: str, low: int, high: int, names: Collection[str], default: str) -> str:
    numbers = set()
    for path, value in _listed(fields, key, 60):
        number = value
        if isinstance(value, str) and value.lower()[:3] in names and value.isalpha():
            number = list(names).index(value.lower()[:3]) + low
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            wanted = f"{low} to {high}" + (f" or {', '.join(names)}" if names else "")
            message = f"'{key}' of {fields.what} must be {wanted}, or a list of them, got {describe(value)}"
            fields.problems.error("wrong_value", path, message)
        else:
            numbers.add(number)
    return ",".join(str(number) for number in sorted(numbers)) or default


# -- webhooks ----------------------------------------------------------------------------------------------------------


def _read_webhook(fields: Fields) -> Webhook:
    _needs(fields, "verify")
    verify = None
    if fields.has("verify"):
        what = f"verify of {fields.what}"
        inner = as_fields(fields.data["verify"], (*fields.path, "verify"), what, fields.problems, VERIFY_KEYS)
        verify = None if inner is None else _read_verify(inner)
    answer = None
    if fields.has("answer"):
        what = f"answer of {fields.what}"
        inner = as_fields(fields.data["answer"], (*fields.path, "answer"), what, fields.problems, ANSWER_KEYS)
        if inner is not None:
            answer = Answer(read_duration(inner, "wait", 0, 60) or 0, inner.data.get("body"))
    return Webhook(**_given(verify=verify or Verify("none"), id=fields.text("id"), answer=answer))


def _read_verify(fields: Fields) -> Verify:
    _needs(fields, "scheme")
    scheme = fields.choice("scheme", SCHEMES)
    secret = _matched(fields, "secret", _SECRET, "the name of a secret")
    if scheme not in ("none", None):
        _needs(fields, "secret")
    elif scheme == "none" and secret is not None:
        fields.error("misplaced_key", "secret", f"'secret' of {fields.what} has no meaning with scheme none")
    if scheme == "hmac":
        _needs(fields, "header")
    else:
        for key in _HMAC_KEYS:
            if scheme is not None and fields.has(key):
                fields.error("misplaced_key", key, f"'{key}' of {fields.what} is of scheme hmac; {scheme} has its own")
    headers = {key: _matched(fields, key, _HEADER, "a header") for key in ("header", "timestamp_header", "id_header")}
    signed = fields.text("signed")
    if signed is not None or scheme == "hmac":
        _check_signed(fields, _BODY if signed is None else signed)
    return Verify(
        **_given(
            scheme=scheme or "none",
            secret=secret,
            **{key: value.lower() for key, value in headers.items() if value is not None},
            prefix=fields.text("prefix", empty=True),
            encoding=fields.choice("encoding", ENCODINGS),
            signed=signed,
        )
    )


_RUN_TOGETHER = re.compile(r"\}\{|\}[0-9]|[0-9]\{")
"""Parts of what is signed that cannot be told apart."""


def _check_signed(fields: Fields, signed: str) -> None:
    places = re.findall(r"\{[^{}]*\}|[{}]", signed)
    odd = [place for place in places if place not in ("{body}", "{timestamp}", "{id}")]
    for place, header in (("{timestamp}", "timestamp_header"), ("{id}", "id_header")):
        if (place in places) != fields.has(header):
            say = f"has {place} and no '{header}'" if place in places else f"has '{header}' and no {place}"
            fields.error("missing_key", "signed", f"'signed' of {fields.what} {say}: what is not signed proves nothing")
    if _RUN_TOGETHER.search(signed):
        message = f"'signed' of {fields.what} needs a mark between its parts, such as a dot: where one ends is signed by that alone"
        fields.error("wrong_value", "signed", message)
    if odd or places.count("{body}") != 1:
        message = f"'signed' of {fields.what} must hold {{body}} once, and may hold {{timestamp}} and {{id}}"
        fields.error("wrong_value", "signed", message)


# -- what is polled ----------------------------------------------------------------------------------------------------


def _read_address(fields: Fields, key: str) -> str | None:
    """An address that is written out, or one secret: never put together, so that no item decides where a call goes."""
    value = fields.text(key)
    if value is not None and "{" in value and _HELD.match(value) is None:
        message = f"'{key}' of {fields.what} must be an address, or {{{{ secrets.NAME }}}} alone"
        fields.error("wrong_value", key, message)
        return None
    return value


def _read_beginning(fields: Fields) -> str | None:
    return fields.choice("from", BEGINNINGS)


def _read_table(fields: Fields) -> Table:
    _needs(fields, "database", "table", "cursor")
    columns = []
    for path, column in _listed(fields, "cursor", MAX_COLUMNS):
        if isinstance(column, str) and _COLUMN.match(column):
            columns.append(column)
        else:
            message = f"'cursor' of {fields.what} must hold names of columns, got {describe(column)}"
            fields.problems.error("wrong_value", path, message)
    if len(set(columns)) != len(columns):
        fields.error("wrong_value", "cursor", f"'cursor' of {fields.what} names a column twice")
    settle = None if fields.data.get("settle") == "transactions" else read_duration(fields, "settle", 0, 86_400)
    reread = read_duration(fields, "reread", 0, 86_400)
    return Table(
        **_given(
            database=_read_address(fields, "database") or "",
            table=_matched(fields, "table", _TABLE, "the name of a table") or "",
            cursor=tuple(columns),
            every=read_duration(fields, "every", 1, 86_400),
            settle=settle,
            reread=reread,
            notify=_matched(fields, "notify", _COLUMN, "the name of a channel"),
            from_=_read_beginning(fields),
        )
    )


def _read_folder(fields: Fields) -> Folder:
    _needs(fields, "url")
    return Folder(
        **_given(
            url=_read_address(fields, "url") or "",
            match=fields.text("match"),
            settle=read_duration(fields, "settle", 0, 86_400),
            identity=fields.choice("identity", IDENTITIES),
            every=read_duration(fields, "every", 1, 86_400),
            order=fields.choice("order", ("name",)),
            from_=_read_beginning(fields),
        )
    )


def _read_stream(fields: Fields) -> Stream:
    _needs(fields, "redis", "key")
    return Stream(
        **_given(
            redis=_read_address(fields, "redis") or "", key=fields.text("key") or "", from_=_read_beginning(fields)
        )
    )


def _read_runs(fields: Fields) -> Runs:
    _needs(fields, "workflow")
    states = []
    for path, state in _listed(fields, "state", 10):
        if state in RUN_STATES:
            states.append(state)
        else:
            message = f"'state' of {fields.what} must hold {', '.join(RUN_STATES)}, got {describe(state)}"
            fields.problems.error("wrong_value", path, message)
    tags = fields.mapping("tag") or {}
    for name, value in tags.items():
        if not isinstance(value, str):
            message = f"'tag' of {fields.what} must hold strings, got {describe(value)}"
            fields.problems.error("wrong_type", (*fields.path, "tag", name), message)
    return Runs(**_given(workflow=fields.name("workflow") or "", state=tuple(states) or None, tag=tags or None))


def _read_event(fields: Fields) -> Event:
    _needs(fields, "name")
    return Event(**_given(name=fields.name("name") or "", match=fields.text("match"), key=fields.text("key")))


def _read_poll(fields: Fields) -> Poll:
    _needs(fields, "type")
    return Poll(
        **_given(
            type=fields.name("type") or "",
            config=fields.mapping("config"),
            every=read_duration(fields, "every", 1, 86_400),
            from_=_read_beginning(fields),
        )
    )


READERS: dict[str, tuple[frozenset[str], Callable[[Fields], Source]]] = {
    "schedule": (SCHEDULE_KEYS, _read_schedule),
    "webhook": (WEBHOOK_KEYS, _read_webhook),
    "table": (TABLE_KEYS, _read_table),
    "folder": (FOLDER_KEYS, _read_folder),
    "stream": (STREAM_KEYS, _read_stream),
    "runs": (RUNS_KEYS, _read_runs),
    "event": (EVENT_KEYS, _read_event),
    "poll": (POLL_KEYS, _read_poll),
}
