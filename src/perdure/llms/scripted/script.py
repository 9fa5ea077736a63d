"""Scripts: which request gets which answer, and what goes wrong on the way.

    rules:
      - when: {contains: refund, model: "gpt-*"}
        say: We refund within a week.
      - when: {turn: 1}
        calls: [{name: lookup, arguments: {id: 7}}]
      - times: 2
        status: 429
        retry_after: 1
      - data: {label: bug}
        faults: [split, crlf]

The first rule that fits, and has not been used `times` often, answers. Without one the server says what it was told, or gives
the smallest value that fits the schema that was asked for.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from perdure.errors import PerdureError
from perdure.llms.misfits import find_misfits
from perdure.plain_text import cut

MAX_SCRIPT = 1024 * 1024
MOST_PROBLEMS = 20

Fault = Literal[
    "split",  # every byte is a chunk of its own
    "crlf",  # lines end with CR LF
    "comments",  # with comments between events
    "no_usage",
    "missing_ids",
    "duplicate_ids",
    "truncated_arguments",
    "invalid_arguments",
    "bad_utf8",
    "huge",  # one token of a megabyte
    "empty_choices",
    "cut",  # the connection ends in the middle of an event
    "silence_before",  # nothing comes, not even headers
    "error_between",  # an error is reported in the middle of the answer
    "silence_between",  # nothing comes after the first token
    "pings",  # only comments come, for ever
    "endless",  # the answer does not end
    "not_json",
    "packed",  # gzip, though nobody asked for it
    "redirect",
]


class ScriptInvalid(PerdureError):
    code = "script_invalid"


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    contains: str = ""
    """A text that the last message of the user has."""
    anywhere: str = ""
    """A text that stands anywhere in the request."""
    model: str = "*"
    turn: int | None = None
    """How many messages of the model the request has, plus one."""


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] = {}


class ScriptedUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As Perdure counts: `input` is all input."""

    input: int = 12
    cached: int = 0
    written: int = 0
    output: int = 5
    reasoning: int = 0


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    when: When = When()
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None
    say: str | None = None
    data: Any = None
    """A value that is said as JSON."""
    calls: tuple[ScriptedCall, ...] = ()
    thinking: str = ""
    usage: ScriptedUsage | None = None
    finish: Literal["stop", "length", "filtered", "refused"] = "stop"
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] = 200
    error: str = "scripted"
    """The type of the error that goes with a status."""
    retry_after: float | Literal["date"] | None = None
    """Seconds; or `date`: a date two seconds ahead."""
    headers: dict[str, str] = {}
    delay_ms: Annotated[int, msgspec.Meta(ge=0, le=600_000)] = 0
    faults: tuple[Fault, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: tuple[Rule, ...] = ()


class Asked(msgspec.Struct, frozen=True):
    """A request, as scripts see it, whatever its wire format."""

    model: str
    last: str
    """The last text of the user."""
    turn: int
    schema: Any
    stream: bool
    text: str
    """The whole request."""


class Script:
    def __init__(self, rules: tuple[Rule, ...] = ()) -> None:
        self._rules = rules
        self._used = [0] * len(rules)

    def answer(self, asked: Asked) -> Rule:
        for number, rule in enumerate(self._rules):
            if (rule.times is None or self._used[number] < rule.times) and _fits(rule.when, asked):
                self._used[number] += 1
                return rule
        if asked.schema is not None:
            return Rule(data=smallest(asked.schema))
        return Rule(say=f"You said: {asked.last}")


def _fits(when: When, asked: Asked) -> bool:
    return (
        when.contains in asked.last
        and when.anywhere in asked.text
        and fnmatchcase(asked.model, when.model)
        and when.turn in (None, asked.turn)
    )


def read_script(content: Any, name: str = "the script") -> Script:
    """The script. Raises ScriptInvalid with everything that is wrong."""
    try:
        return Script(msgspec.convert(content, _File).rules)
    except msgspec.ValidationError as error:
        told = find_misfits(_File, content, "") or [cut(str(error), 300)]
        told = [one.removeprefix(": ") for one in told]
        some = told[0] if len(told) == 1 else "".join(f"\n  {one}" for one in told[:MOST_PROBLEMS])
        raise ScriptInvalid(f"{name}: {some}".replace(": \n", ":\n")) from None


def load_script(path: str) -> Script:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_SCRIPT + 1)
        if len(data) > MAX_SCRIPT:
            raise ScriptInvalid(f"{path} has more than {MAX_SCRIPT:,} bytes")
        content = yaml.safe_load(data)
    except OSError as error:
        raise ScriptInvalid(f"cannot read {path}: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        where = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 1}"
        raise ScriptInvalid(f"{path} is not YAML that can be read: {error.problem}{where}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        raise ScriptInvalid(f"{path} is not YAML that can be read") from None
    return read_script(content or {}, path)


def smallest(schema: Any, depth: int = 0) -> Any:
    """A small value that fits most schemas people write."""
    if not isinstance(schema, dict) or depth > 20:
        return None
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return smallest(schema[key][0], depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            properties = schema.get("properties") or {}
            return {
                name: smallest(properties.get(name, {}), depth + 1) for name in schema.get("required") or properties
            }
        case "array":
            return [
                smallest(schema.get("items", {}), depth + 1) for _ in range(min(int(schema.get("minItems", 0)), 100))
            ]
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "text".ljust(min(int(schema.get("minLength", 0)), 10_000), "x")
