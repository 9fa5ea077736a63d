"""Paths and values as templates and CEL write them. Must not know handles."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from perdure.sdk.errors import BuildError

Parts = tuple[str | int, ...]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLAIN = re.compile(r"[\w.\-]+(?:\[[^\[\]]*\]|\.\w+)*\Z")
_CEL_WORDS = frozenset(
    "as break const continue else false for function if import in let loop namespace null package return true var void "
    "while".split()
)


def template_path(base: str, parts: Parts) -> str:
    for part in parts:
        if isinstance(part, int):
            base += f"[{part}]"
        elif _NAME.match(part):
            base += f".{part}"
        else:
            base += f"[{template_literal(part)}]"
    return base


def cel_path(base: str, parts: Parts) -> str:
    for part in parts:
        if isinstance(part, int):
            if part < 0:
                raise BuildError("a condition cannot count from the end of a list; do it in a task")
            base += f"[{part}]"
        elif _NAME.match(part) and part not in _CEL_WORDS:
            base += f".{part}"
        else:
            base += f"[{cel_literal(part)}]"
    return base


def template_literal(value: Any) -> str:
    return _literal(value, "none")


def cel_literal(value: Any) -> str:
    return _literal(value, "null")


def _literal(value: Any, nothing: str) -> str:
    match value:
        case None:
            return nothing
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(_literal(item, nothing) for item in value)}]"
        case dict() if all(isinstance(key, str) for key in value):
            pairs = (f"{json.dumps(key, ensure_ascii=False)}: {_literal(item, nothing)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
    raise BuildError(f"a value of type {type(value).__name__} cannot be written into a condition or a template")


def as_operand(text: str) -> str:
    """The text in a form behind which a filter or a path can be put."""
    return text if _PLAIN.match(text) else f"({text})"
