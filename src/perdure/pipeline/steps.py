"""The steps there are, what each takes, and running them in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from perdure.expressions.json_schema import check as check_schema
from perdure.expressions.leaves import has_leaf
from perdure.expressions.operators import COMPARISONS
from perdure.expressions.patterns import PatternError, compile_pattern
from perdure.pipeline import tables, texts
from perdure.pipeline.errors import PipelineError
from perdure.plain_text import cut
from perdure.spelling import suggest

MAX_STEPS = 50
AGGREGATES = ("count", "count_distinct", "sum", "avg", "min", "max", "first", "last", "list")

Path = tuple[str | int, ...]
Step = dict[str, Any]


class Means(msgspec.Struct, frozen=True):
    """What the node or the agent that runs a pipeline lends it."""

    jq: Callable[[str, Any], Awaitable[Any]]
    http: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
    """Takes the config of an `http` node, gives its output; the egress rules hold."""
    in_thread: Callable[..., Awaitable[Any]]


async def run_pipeline(steps: list[Step], value: Any, means: Means) -> Any:
    """The result of the last step. Raises PipelineError, and what `means` raises."""
    mistakes = [f"pipeline{_show(path)}: {message}" for path, message in check_steps(steps)]
    if mistakes:
        raise PipelineError("; ".join(mistakes[:5]), "bad_config")
    for number, step in enumerate(steps):
        name = step["step"]
        try:
            if name == "http_request":
                value = await _request(step, means)
            elif name == "jq_transform":
                value = await means.jq(step["program"], value)
            else:
                value = await means.in_thread(_TABLE_STEPS[name], value, step)
        except PipelineError as error:
            raise PipelineError(
                f"step {number + 1}, {name}: {error.message}", error.code, retryable=error.retryable
            ) from None
    return value


async def _request(step: Step, means: Means) -> Any:
    """The body of the answer, or what `path` leads to in it."""
    config = {key: value for key, value in step.items() if key not in ("step", "params", "path")}
    if "://" not in config["url"]:
        config["url"] = f"https://{config['url']}"  # as the reference documents write it
    if "params" in step:
        config["query"] = {**config.get("query", {}), **step["params"]}
    value = (await means.http(config))["body"]
    for part in step.get("path", "").split(".") if step.get("path") else ():
        if type(value) is not dict or part not in value:
            raise PipelineError(f"the answer has no {cut(step['path'], 80)!r}", "bad_response")
        value = value[part]
    return value


_TABLE_STEPS: dict[str, Callable[[Any, Step], Any]] = {
    "table_sort": tables.table_sort,
    "table_filter": tables.table_filter,
    "table_select": tables.table_select,
    "top_k": tables.top_k,
    "groupby": tables.groupby,
    "join": tables.join,
    "regex_extract": texts.regex_extract,
    "parse_date": texts.parse_date,
}


# -- what each step takes ----------------------------------------------------------------------------------------------

_TEXT = {"type": "string", "minLength": 1, "maxLength": 200}
_ORDER = {"enum": ["asc", "desc", "ascending", "descending"]}
_NAMES = {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 100}
_TEXTS: dict[str, Any] = {"anyOf": [_TEXT, _NAMES]}

_HTTP_KEYS = (
    *("method", "headers", "query", "json", "form", "body", "auth"),
    *("expect_status", "timeout", "max_bytes", "response", "follow_redirects"),
)

SCHEMAS: dict[str, dict[str, Any]] = {
    "http_request": {
        "required": ["url"],
        "properties": {
            "url": {"type": "string", "minLength": 1},
            "params": {"type": "object"},
            "path": _TEXT,
            # These are held to the schema of the `http` node, which makes the call.
            **{key: {} for key in _HTTP_KEYS},
        },
    },
    "table_sort": {
        "required": ["field"],
        "properties": {
            "field": {
                "anyOf": [
                    _TEXT,
                    {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": 20,
                        "items": {
                            "anyOf": [
                                _TEXT,
                                {
                                    "type": "object",
                                    "required": ["field"],
                                    "properties": {"field": _TEXT, "order": _ORDER},
                                    "additionalProperties": False,
                                },
                            ]
                        },
                    },
                ]
            },
            "order": _ORDER,
        },
    },
    "table_filter": {"required": ["condition"], "properties": {"condition": {"$ref": "#/$defs/condition"}}},
    "table_select": {
        "required": ["fields"],
        "properties": {"fields": {"anyOf": [_NAMES, {"type": "object", "additionalProperties": _TEXT}]}},
    },
    "top_k": {
        "required": ["k"],
        "properties": {"k": {"type": "integer", "minimum": 0}, "field": _TEXT, "order": _ORDER},
    },
    "groupby": {
        "required": ["by"],
        "properties": {
            "by": _TEXTS,
            "aggregates": {
                "type": "object",
                "maxProperties": 100,
                "additionalProperties": {
                    "type": "object",
                    "required": ["function"],
                    "properties": {"function": {"enum": list(AGGREGATES)}, "field": _TEXT},
                    "additionalProperties": False,
                },
            },
        },
    },
    "join": {
        "required": ["with", "on"],
        "properties": {
            "with": {"type": ["array", "object"]},
            "on": {"anyOf": [_TEXT, _NAMES, {"type": "object", "minProperties": 1, "additionalProperties": _TEXT}]},
            "how": {"enum": ["inner", "left", "right", "outer"]},
            "suffix": {"type": "string", "minLength": 1, "maxLength": 50},
        },
    },
    "jq_transform": {"required": ["program"], "properties": {"program": {"type": "string", "minLength": 1}}},
    "regex_extract": {
        "required": ["pattern"],
        "properties": {
            "pattern": {"type": "string", "minLength": 1},
            "field": _TEXT,
            "into": _TEXT,
            "all": {"type": "boolean"},
        },
    },
    "parse_date": {
        "required": ["field"],
        "properties": {
            "field": _TEXT,
            "into": _TEXT,
            "format": {"type": "string", "minLength": 1, "maxLength": 100},
            "timezone": {"type": "string", "minLength": 1, "maxLength": 60},
            "as": {"enum": ["iso", "epoch"]},
            "on_error": {"enum": ["fail", "null"]},
        },
    },
}
_CONDITION: dict[str, Any] = {
    "type": ["object", "array"],
    "items": {"$ref": "#/$defs/condition"},
    "properties": {
        "field": _TEXT,
        "operator": {"enum": [*COMPARISONS, "exists"]},
        "value": {},
        "all": {"type": "array", "items": {"$ref": "#/$defs/condition"}},
        "any": {"type": "array", "items": {"$ref": "#/$defs/condition"}},
        "not": {"$ref": "#/$defs/condition"},
    },
    "additionalProperties": False,
}
NAMES = tuple(SCHEMAS)


@cache
def _schema(name: str) -> dict[str, Any]:
    schema = SCHEMAS[name]
    properties = {"step": {"const": name}, **schema["properties"]}
    return {
        "type": "object",
        "required": schema["required"],
        "properties": properties,
        "additionalProperties": False,
        "$defs": {"condition": _CONDITION},
    }


def check_steps(steps: Any, is_open: Callable[[Any], bool] = lambda value: False) -> Iterator[tuple[Path, str]]:
    """Everything that is wrong with a pipeline. Values that `is_open` accepts become known later, and are skipped."""
    if not isinstance(steps, list) or not steps:
        yield (), "a pipeline is a list of at least one step"
        return
    if len(steps) > MAX_STEPS:
        yield (), f"a pipeline has {len(steps)} steps, {MAX_STEPS} are allowed"
        return
    for number, step in enumerate(steps):
        for path, message in _check_step(step, is_open):
            yield (number, *path), message


def _check_step(step: Any, is_open: Callable[[Any], bool]) -> Iterable[tuple[Path, str]]:
    name = step.get("step") if isinstance(step, dict) else None
    if not isinstance(name, str) or name not in SCHEMAS:
        return [((), f"a step needs `step`, the name of one; {suggest(str(name or ''), NAMES)}")]
    if has_leaf(step, is_open):
        unknown = [key for key in step if key != "step" and key not in SCHEMAS[name]["properties"]]
        missing = [key for key in SCHEMAS[name]["required"] if key not in step]
        return [((key,), f"{name} takes no {cut(key, 80)!r}") for key in unknown] + [
            ((), f"{name} needs {key!r}") for key in missing
        ]
    problems = check_schema(_schema(name), step)
    if problems:
        return [((), f"{name}: {problem}") for problem in problems[:5]]
    return [((), f"{name}: {message}") for message in _check_more(name, step)]


def _check_more(name: str, step: Step) -> Iterator[str]:
    """Mistakes that a schema cannot find."""
    if name == "regex_extract":
        try:
            compile_pattern(step["pattern"], captures=True)
        except PatternError as error:
            yield str(error)
    elif name == "table_filter":
        yield from _check_condition(step["condition"])
    elif name == "groupby":
        for key, aggregate in step.get("aggregates", {}).items():
            if "field" not in aggregate and aggregate["function"] != "count":
                yield f"aggregate {key!r} needs a `field`"


def _check_condition(condition: Any, depth: int = 0) -> Iterator[str]:
    if depth > 20:
        yield "conditions are nested more than 20 deep"
    elif isinstance(condition, list):
        for inner in condition:
            yield from _check_condition(inner, depth + 1)
    elif len([key for key in ("field", "all", "any", "not") if key in condition]) != 1:
        yield "a condition has exactly one of field, all, any and not"
    elif "field" in condition:
        if condition.get("operator", "==") == "matches":
            try:
                compile_pattern(str(condition.get("value")))
            except PatternError as error:
                yield str(error)
    else:
        inner = condition.get("all") or condition.get("any") or [condition.get("not")]
        yield from _check_condition([one for one in inner if one is not None], depth + 1)


def _show(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
