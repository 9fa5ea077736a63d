"""The steps that read something out of text: regex_extract (RE2) and parse_date."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from perdure.expressions.namespace import describe_type
from perdure.expressions.patterns import Pattern, PatternError, compile_pattern
from perdure.pipeline.errors import PipelineError
from perdure.pipeline.table_rows import Row, as_table, reader, value_of
from perdure.plain_text import cut

Step = dict[str, Any]

MAX_STEPS = 50_000_000
"""How many steps of RE2 a whole table may take: half a second at worst."""
MAX_MATCHES = 10_000
_LAST_SECOND = 253_402_300_799  # of the year 9999


def regex_extract(value: Any, step: Step) -> Any:
    """What `pattern` finds in `field` of each row: named groups become fields, otherwise the first group (or all of the
    match) goes `into` one. `all: true` gives lists. Without `field` the input is the text."""
    try:
        pattern = compile_pattern(step["pattern"], captures=True)
    except PatternError as error:
        raise PipelineError(str(error), "bad_pattern") from None
    every = bool(step.get("all"))
    left = MAX_STEPS
    if "field" not in step:
        if type(value) is not str:
            raise PipelineError(f"without `field` the input must be text; it is {describe_type(value)}")
        return _extract(pattern, value, every, left)
    read, into = reader(step["field"]), step.get("into") or step["field"]
    result = []
    for number, row in enumerate(as_table(value)):
        text = value_of(read(row))
        if text is not None and type(text) is not str:
            raise PipelineError(f"row {number}: field {step['field']!r} is {describe_type(text)}, not text")
        found = _extract(pattern, text or "", every, left)
        left -= len(text or "") * pattern.size
        result.append({**row, **found} if pattern.names and not every else {**row, into: found})
    return result


def _extract(pattern: Pattern, text: str, every: bool, steps: int) -> Any:
    try:
        matches = pattern.find(text, MAX_MATCHES if every else 1, steps)
    except PatternError as error:
        raise PipelineError(str(error), "bad_pattern") from None
    if every:
        return [_read(pattern, match) for match in matches]
    if matches:
        return _read(pattern, matches[0])
    return dict.fromkeys(pattern.names) if pattern.names else None


def _read(pattern: Pattern, match: Any) -> Any:
    if pattern.names:
        return {name: match.group(number) for name, number in pattern.names.items()}
    return match.group(1 if pattern.groups else 0)


def parse_date(value: Any, step: Step) -> list[Row]:
    """Turn `field` of each row into a time: ISO 8601 in UTC, or seconds with `as: epoch`.

    It reads ISO 8601 and seconds since 1970, or `format` as strptime has it; a time without a zone is in `timezone`.
    """
    read, into = reader(step["field"]), step.get("into") or step["field"]
    zone = _get_zone(step.get("timezone", "UTC"))
    as_epoch, lenient = step.get("as", "iso") == "epoch", step.get("on_error", "fail") == "null"
    result = []
    for number, row in enumerate(as_table(value)):
        raw = value_of(read(row))
        moment = None
        if raw is not None:
            try:
                moment = _parse(raw, step.get("format"), zone)
            except (ValueError, OverflowError, TypeError):
                if not lenient:
                    raise PipelineError(
                        f"row {number}: field {step['field']!r} is no such date; give its `format`, or on_error: 'null'",
                        "bad_date",
                    ) from None
        result.append({**row, into: _write(moment, as_epoch)})
    return result


def _get_zone(name: str) -> Any:
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # unknown, a folder, a path
        raise PipelineError(
            f"there is no time zone {cut(name, 60)!r}; write UTC or Europe/Oslo", "bad_config"
        ) from None


def _parse(raw: Any, format: str | None, zone: Any) -> datetime:
    if type(raw) is int or type(raw) is float:
        if not abs(raw) <= _LAST_SECOND:
            raise ValueError
        return datetime.fromtimestamp(raw, UTC)
    if type(raw) is not str:
        raise TypeError
    text = raw.strip()[:100]
    if format in (None, "iso"):
        moment = datetime.fromisoformat(text)
    else:
        moment = datetime.strptime(text, format or "")  # noqa: DTZ007  the zone comes next
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)).astimezone(UTC)


def _write(moment: datetime | None, as_epoch: bool) -> Any:
    if moment is None:
        return None
    return moment.timestamp() if as_epoch else moment.isoformat().replace("+00:00", "Z")
