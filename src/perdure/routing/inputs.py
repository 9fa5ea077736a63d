"""The inputs of a run and the schema of its workflow: defaults, and keys that the schema does not know.

Pure functions of both. Whoever starts a run asks here, so that what is recorded is what nodes will see.
"""

from __future__ import annotations

import copy
import difflib
from typing import Any

_DEEPEST = 32


def apply_defaults(schema: Any, value: Any) -> Any:
    """The value with the defaults of the schema where it says nothing; the same object when there are none to add."""
    return _apply(schema, {} if value is None and _adds(schema) else value, schema, 0)


def _adds(schema: Any) -> bool:
    return bool(_apply(schema, {}, schema, 0))


def _apply(schema: Any, value: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return value
    for part in (_follow(schema.get("$ref"), root), *_list(schema.get("allOf"))):
        value = _apply(part, value, root, depth + 1)
    if isinstance(value, dict):
        return _apply_to_object(schema, value, root, depth)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        made = [_apply(schema["items"], item, root, depth + 1) for item in value]
        return value if all(one is other for one, other in zip(made, value, strict=True)) else made
    return value


def _apply_to_object(schema: dict[str, Any], value: dict[str, Any], root: Any, depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    added: dict[str, Any] = {}
    for name, part in properties.items() if isinstance(properties, dict) else ():
        if name in value:
            made = _apply(part, value[name], root, depth + 1)
            if made is not value[name]:
                added[name] = made
        else:
            default = _default(part, root, 0)
            if default is not _NONE:
                added[name] = _apply(part, copy.deepcopy(default), root, depth + 1)
    return {**value, **added} if added else value


_NONE = object()


def _default(schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return _NONE
    return schema["default"] if "default" in schema else _default(_follow(schema.get("$ref"), root), root, depth + 1)


def _follow(ref: Any, root: Any) -> Any:
    """What a reference inside the schema names; outside ones are refused when the workflow is registered."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    found = root
    for part in ref.removeprefix("#").strip("/").split("/") if ref != "#" else ():
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def find_unknown(schema: Any, value: Any) -> list[str]:
    """Inputs that the schema says nothing about, a sentence for each. They are accepted: the schema is open."""
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return []
    properties = schema.get("properties")
    opened = not {"additionalProperties", "unevaluatedProperties", "patternProperties", "$ref", "allOf"}.isdisjoint(
        schema
    )
    if not isinstance(properties, dict) or opened or not {"anyOf", "oneOf", "if"}.isdisjoint(schema):
        return []
    said = []
    for name in value:
        if name not in properties:
            close = difflib.get_close_matches(name, list(properties), n=1)
            known = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(properties) or 'none'}"
            said.append(f"the workflow has no input {name!r}; {known}")
    return said
