"""Text to plain data: JSON and YAML, refusing what cannot be a definition before any work is done on it.

Owns the limits on size and depth and the rules of both formats. It must not know what a workflow is. Lines are not
kept while reading; `positions.py` looks them up when there is something to report (PROTOCOL 32).
"""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from typing import Any, Literal

from perdure.model.extremes import WHY, has_many, value_has_many
from perdure.model.problems import Path, Problems
from perdure.model.yaml_reader import read_yaml

Format = Literal["json", "yaml"]

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 5_000_000

INT_MIN, INT_MAX = -(2**63), 2**64 - 1

# The closing quote is optional, so that a match never fails: text full of unclosed quotes stays linear.
_JSON_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
ODD_TEXT = re.compile("[\x00\ud800-\udfff]")
"""NUL and halves of surrogate pairs: what no database keeps as text."""
_ODD_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(set(range(256)) - _STEPS.keys())


def read(text: str | bytes, format: Format | None, problems: Problems) -> tuple[Any, str, Format]:
    """The data, the decoded text and the format it was read as. On an error the data is None."""
    plain = _decode(text, problems)
    if plain is None:
        return None, "", format or "json"
    if format is None:
        format = "json" if plain.lstrip()[:1] in ("{", "[") else "yaml"
    if not plain.strip():
        problems.error("empty_workflow", (), "the definition is empty; a workflow needs at least `name` and `nodes`")
        return None, plain, format
    if format == "yaml":
        data = _read_yaml(plain, problems)
        many = value_has_many(data)
    else:
        many = has_many(plain.encode())
        data = None if many else read_json(plain, problems)
    if many:
        problems.error("number_out_of_range", (), WHY)
        return None, plain, format
    return data, plain, format


def _decode(text: str | bytes, problems: Problems) -> str | None:
    if len(text) > MAX_BYTES:
        problems.error("too_large", (), f"the definition has {len(text)} bytes; at most {MAX_BYTES} are accepted")
        return None
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            problems.error(
                "not_utf8", (), f"the definition is not valid UTF-8 at byte {error.start}; save the file as UTF-8"
            )
            return None
    text = text.removeprefix("\ufeff")
    odd = ODD_TEXT.search(text)
    if odd is not None:
        before = text[: odd.start()]
        problems.error(
            "not_utf8",
            (),
            f"character U+{ord(odd[0]):04X} is not accepted; remove it",
            before.count("\n") + 1,
            odd.start() - (before.rfind("\n") + 1) + 1,
        )
        return None
    return text


def _read_yaml(text: str, problems: Problems) -> Any:
    return read_yaml(text, problems, max_depth=MAX_DEPTH, max_values=MAX_VALUES)


class _Odd(Exception):
    """The text holds what the fast path does not explain; the slow scan in `positions.py` names it and its place."""


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(items)
    if len(data) != len(items):
        raise _Odd
    return data


def _integer(digits: str) -> int:
    if len(digits) < 19:
        return int(digits)
    if len(digits) > 21 or not INT_MIN <= int(digits) <= INT_MAX:
        raise _Odd
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _Odd
    return value


def _constant(name: str) -> Any:
    raise _Odd


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_integer, parse_float=_float, parse_constant=_constant)


def read_json(text: str, problems: Problems) -> Any:
    brackets = _JSON_STRING.sub("", text).encode().translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH:
        problems.error(
            "too_deep",
            (),
            f"values are nested more than {MAX_DEPTH} deep; move the inner part into a blob or flatten it",
        )
        return None
    if text.count(",") + text.count(":") > 2 * MAX_VALUES:
        problems.error(
            "too_large", (), f"the definition has more than {MAX_VALUES} values; split it into child workflows"
        )
        return None
    if _ODD_ESCAPE.search(text) is not None:
        # Almost always a real problem; the scan below decides (a surrogate pair is fine).
        from perdure.model.positions import explain_json

        if explain_json(text, problems):
            return None
    try:
        return _decoder.decode(text.strip())
    except json.JSONDecodeError as error:
        return _report_syntax(text, error, problems)
    except (_Odd, RecursionError):
        from perdure.model.positions import explain_json

        if not explain_json(text, problems):
            problems.error("syntax", (), "the text is not well-formed JSON; check brackets and commas")
        return None


def _report_syntax(text: str, error: json.JSONDecodeError, problems: Problems) -> None:
    offset = error.pos + len(text) - len(text.lstrip())
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    here = text[offset : offset + 40]
    rest = here.lstrip()
    if rest[:2] in ("//", "/*") or rest[:1] == "#":
        yaml = (
            "write the definition in YAML"
            if rest[:1] == "#"
            else "write the definition in YAML, where they begin with '#'"
        )
        what = f"JSON has no comments; remove this one, or {yaml}"
    elif rest[:1] in ("}", "]"):
        what = f"{error.msg}; is there a comma too many before this bracket?"
    elif not rest:
        what = f"{error.msg}; the text ends too early, a bracket or quote is not closed"
    else:
        what = f"{error.msg}, found {rest.split(chr(10))[0][:20]!r}"
    problems.error("syntax", (), f"not JSON: {what}", line, column)


def check_data(data: Any, problems: Problems) -> bool:
    """Check the same limits for data from Python. Cycles end at the depth limit, shared bombs at the count."""
    before = problems.errors
    stack: list[tuple[Any, Path]] = [(data, ())]
    count = 0
    while stack:
        value, path = stack.pop()
        count += 1
        if count > MAX_VALUES:
            problems.error(
                "too_large", (), f"the definition has more than {MAX_VALUES} values; split it into child workflows"
            )
            return False
        if isinstance(value, str):
            if ODD_TEXT.search(value) is not None:
                problems.error("not_utf8", path, "a string holds NUL or half a surrogate pair; remove it")
        elif value is None or isinstance(value, bool):
            pass
        elif isinstance(value, int):
            if not INT_MIN <= value <= INT_MAX:
                problems.error("number_out_of_range", path, "an integer is beyond 64 bits; write it as a string")
        elif isinstance(value, float):
            if not math.isfinite(value):
                problems.error(
                    "number_out_of_range", path, f"{value} is not a number JSON knows; write null or a string"
                )
        elif len(path) >= MAX_DEPTH:
            problems.error(
                "too_deep", path[:8], f"values are nested more than {MAX_DEPTH} deep (or contain themselves)"
            )
            return False
        elif isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str):
                    problems.error("not_plain_data", path, f"key {key!r:.60} is not a string")
                    continue
                if ODD_TEXT.search(key) is not None:
                    problems.error("not_utf8", path, "a key holds NUL or half a surrogate pair; remove it")
                    continue
                stack.append((item, (*path, key)))
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                stack.append((item, (*path, index)))
        else:
            problems.error(
                "not_plain_data",
                path,
                f"a {type(value).__name__} is not JSON data; use strings, numbers, lists and mappings",
            )
        if problems.full:
            return False
    return problems.errors == before
