"""How much work a JSON Schema can make of one value, found when it is compiled.

The validator cannot be stopped once it runs, and it runs where runs are decided. It is quick for each keyword, but
definitions that use each other twice double with every step, and a thousand alternatives are tried for every element.
"""

from __future__ import annotations

from typing import Any

from perdure.routing.patterns import compile_pattern

MAX_STEPS = 6_000_000
"""Keywords times values, about 10 ns each."""
MAX_PATTERN_STEPS = 5_000_000
_FREE = 20
"""As much as reading the value costs anyway."""
_MAX_DEPTH = 200

# Keywords whose schemas look at the same value as the schema they are in.
_SAME_LISTS = ("allOf", "anyOf", "oneOf")
_SAME = ("not", "if", "then", "else")
_SAME_NAMED = ("dependentSchemas", "dependencies")
# Those that look at values inside it. Each value inside has one name, so of `properties` only one applies.
_INSIDE = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "items", "additionalItems"),
    *("unevaluatedItems", "contains"),
)
_MAX = 10**12  # what doubles, stops here


class TooCostly(Exception):
    """A schema that is refused for the work it makes. Its text is for people."""


class Cost:
    """What decides how long a check takes."""

    __slots__ = ("has_alternatives", "patterns", "width")

    def __init__(self, schema: Any) -> None:
        """Raises TooCostly and PatternError."""
        measure = _Measure(schema)
        self.width = measure.width(schema)
        """Keywords looked at for one value, at worst."""
        self.patterns = measure.patterns
        self.has_alternatives = measure.has_alternatives

    def check(self, value: Any) -> None:
        """Raises TooCostly when the check of this value could take too long."""
        if self.width <= _FREE and not self.patterns:
            return
        count, text = _size(value)
        if self.width > _FREE and count * self.width > MAX_STEPS:
            raise TooCostly(f"checking {count:,} values against it could take too long; check a part of them")
        if text * self.patterns > MAX_PATTERN_STEPS:
            raise TooCostly(f"its patterns could take too long over {text:,} characters; use simpler ones")


class _Measure:
    def __init__(self, root: Any) -> None:
        self._root = root
        self.patterns = 0
        self.has_alternatives = False
        self._done: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()

    def width(self, schema: Any) -> int:
        return max(self._measure(schema, 0))

    def _measure(self, schema: Any, depth: int) -> tuple[int, int]:
        """Keywords for the value itself, and for any one value inside it. What refers to itself is counted once: the
        validator notices."""
        if type(schema) is not dict or id(schema) in self._open:
            return 1, 0
        found = self._done.get(id(schema))
        if found is not None:
            return found
        if depth > _MAX_DEPTH:
            raise TooCostly(f"it is nested more than {_MAX_DEPTH} deep")
        self._open.add(id(schema))
        here, inside = len(schema) + 1 + _count(schema.get("enum")) + _count(schema.get("const")), 0
        for one in self._same(schema):
            more_here, more_inside = self._measure(one, depth + 1)
            here, inside = here + more_here, inside + more_inside
        for one in self._inside(schema):
            inside += max(self._measure(one, depth + 1))
        named = [max(self._measure(one, depth + 1)) for one in _values(schema.get("properties"))]
        inside += max(named, default=0)
        self._measure_patterns(schema)
        self.has_alternatives |= "anyOf" in schema or "oneOf" in schema
        self._open.discard(id(schema))
        result = self._done[id(schema)] = (min(here, _MAX), min(inside, _MAX))
        return result

    def _same(self, schema: dict[str, Any]) -> list[Any]:
        found = [one for key in _SAME_LISTS for one in _items(schema.get(key))]
        found += [schema[key] for key in _SAME if key in schema]
        found += [one for key in _SAME_NAMED for one in _values(schema.get(key))]
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(key), str):
                found.append(self._resolve(schema[key]))
        return found

    def _inside(self, schema: dict[str, Any]) -> list[Any]:
        found = [schema[key] for key in _INSIDE if type(schema.get(key)) is dict]
        found += _items(schema.get("prefixItems")) + _items(schema.get("items"))
        return found + list(_values(schema.get("patternProperties")))

    def _measure_patterns(self, schema: dict[str, Any]) -> None:
        texts = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
        properties = schema.get("patternProperties")
        texts += properties if isinstance(properties, dict) else []
        for text in texts:
            self.patterns += compile_pattern(text).size

    def _resolve(self, reference: str) -> Any:
        """Into the same document; what cannot be found is left to the validator."""
        if not reference.startswith("#"):
            return self._root
        target: Any = self._root
        for part in reference[1:].split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and part in target:
                target = target[part]
            elif isinstance(target, list) and part.isdigit() and int(part) < len(target):
                target = target[int(part)]
            else:
                return self._root
        return target


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _count(value: Any) -> int:
    return 0 if value is None else _size(value)[0]


def count_values(value: Any, most: int) -> int:
    """How many values there are, or more than `most`."""
    count = 0
    stack = [value]
    while stack and count <= most:
        value = stack.pop()
        count += 1
        if type(value) is list:
            count += max(0, len(value) - most - 1)
            stack += value[: most + 1]
        elif type(value) is dict:
            stack += value.values()
    return count


def _size(value: Any) -> tuple[int, int]:
    """How many values, and characters of text, keys included."""
    count = text = 0
    stack = [value]
    while stack:
        value = stack.pop()
        count += 1
        kind = type(value)
        if kind is str:
            text += len(value)
        elif kind is list:
            stack += value
        elif kind is dict:
            text += sum(map(len, value))
            stack += value.values()
    return count, text
