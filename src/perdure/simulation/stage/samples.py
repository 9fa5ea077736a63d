"""A value that fits a JSON Schema, for inputs and outputs that a test does not give. Simple schemas only."""

from __future__ import annotations

import math
from typing import Any

_DEEPEST = 20
_FORMATS = {
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "date-time": "2026-01-02T03:04:05Z",
    "duration": "PT1H",
    "email": "ann@example.com",
    "idn-email": "ann@example.com",
    "hostname": "example.com",
    "idn-hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/x",
    "uri-reference": "/x",
    "iri": "https://example.com/x",
    "iri-reference": "/x",
    "uri-template": "https://example.com/{x}",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "json-pointer": "/x",
    "relative-json-pointer": "0",
    "regex": "x",
}
"""Text for each `format` that is asserted."""


def sample(schema: Any, depth: int = 0) -> Any:
    """The most obvious value: the default, an example, or the least that the schema asks for."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return {}
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("oneOf", "anyOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key] and "type" not in schema:
            return sample(schema[key][0], depth + 1)
    kind = schema.get("type", "object")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "string":
            if (made := _FORMATS.get(str(schema.get("format")))) is not None:
                return made
            return "x" * max(int(schema.get("minLength", 1)), 1)
        case "integer":
            return math.ceil(_least(schema, 1))
        case "number":
            return _least(schema, 0.5)
        case "boolean":
            return True
        case "array":
            return [sample(schema.get("items", {}), depth + 1) for _ in range(int(schema.get("minItems", 1)))]
        case "null":
            return None
    known = schema.get("properties", {})
    return {name: sample(known.get(name, {}), depth + 1) for name in schema.get("required", ())}


def _least(schema: dict[str, Any], gap: float) -> float:
    if "exclusiveMinimum" in schema:
        return float(schema["exclusiveMinimum"] + gap)
    return float(schema.get("minimum", min(1, schema.get("maximum", 1))))
