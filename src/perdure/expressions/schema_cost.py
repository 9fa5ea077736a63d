"""How much work a JSON Schema can make of one value, found when it is compiled.

The validator cannot be stopped once it runs, and it runs where runs are decided. It is quick for each keyword, but
definitions that use each other twice double with every step, a definition that leads back to itself by two ways doubles
with every level of the value, and a thousand alternatives are tried for every element.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.expressions.patterns import compile_pattern

MOST_WEIGHT = 40_000
"""How heavy a schema may be: to compile so much takes some 60 ms, in which no other thread has a turn."""
LIGHT = 1_000
"""The weight up to which a schema is compiled on the loop: some 10 ms."""
_OF_A_LETTER = 4
"""What a letter of a pattern weighs at most, before it is compiled: `\\p{L}` becomes hundreds of steps."""
_OF_A_PATTERN, _A_STEP = 8, 4
"""What a pattern weighs, and how many steps or letters of it weigh one more."""
_FREE = 20
"""How many keywords per value are free: checking them costs no more than reading the value does anyway."""
_MAX_DEPTH = 200
_SHORT_FRACTION, _LONG_FRACTION = 300, 4_000  # steps of a `multipleOf`

# Keywords whose schemas look at the same value as the schema they are in.
_SAME_LISTS = ("allOf", "anyOf", "oneOf")
_SAME = ("not", "if", "then", "else")
_SAME_NAMED = ("dependentSchemas", "dependencies")
# Keywords whose schemas look at values inside it. Each such value has one name, so of `properties` only one applies.
_IN_OBJECTS = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_IN_ARRAYS = ("items", "additionalItems", "unevaluatedItems", "contains")
_MAX = 10**12  # whatever doubles stops here


def is_light(schema: Any) -> bool:
    """Whether a schema is compiled and looked through in no time. Found by looking at a few of its values."""
    left, stack = LIGHT, [schema]
    while stack:
        value = stack.pop()
        left -= 1
        if type(value) is list:
            left -= len(value)
            stack += value[: max(0, left)]
        elif type(value) is dict:
            left -= len(value)
            for key, one in value.items() if left >= 0 else ():
                stack.append(one)
                if key == "pattern" and type(one) is str:
                    left -= _OF_A_LETTER * len(one)
                elif key == "patternProperties" and type(one) is dict:
                    left -= _OF_A_LETTER * sum(map(len, one))
        if left < 0:
            return False
    return True


class TooCostly(Exception):
    """A schema is refused for the work it makes. The text of the error is for people."""


class Cost:
    """The properties of a schema that decide how long a check takes."""

    __slots__ = ("growth", "has_alternatives", "patterns", "width")

    def __init__(self, schema: Any) -> None:
        """Measure a schema. Raises TooCostly and PatternError."""
        values = count_values(schema, MOST_WEIGHT)
        measure = _Measure(schema, values)
        self.width = measure.width(schema)
        """How many keywords are looked at for one value, at worst."""
        self.growth = measure.growth
        """In how many ways a schema leads back to itself for one value inside: each level multiplies the work by it."""
        self.patterns = measure.patterns
        self.has_alternatives = measure.has_alternatives

    def check(self, value: Any, most: int) -> int:
        """How many steps (keywords times values, about 10 ns each) the check of this value may take. Raises TooCostly
        if it could take more than `most`."""
        if self.width <= _FREE and not self.patterns and self.growth <= 1:
            return 0
        count, text = _size(value)
        if self.growth > 1:
            if (steps := _weigh(value, self.growth, most // self.width) * self.width) > most:
                raise TooCostly(
                    "it leads back to itself by more than one way, and the value is too deep for that; "
                    "let one way lead back, or check a part of the value"
                )
        elif (steps := count * self.width) > most and self.width > _FREE:
            raise TooCostly(f"checking {count:,} values against it could take too long; check a part of them")
        if text * self.patterns > most:
            raise TooCostly(f"its patterns could take too long over {text:,} characters; use simpler ones")
        return steps + text * self.patterns


class _Work(msgspec.Struct, frozen=True):
    """Work for the value itself, and for any value inside it if it is an object, or if it is an array."""

    keywords: tuple[int, int, int] = (1, 0, 0)
    ways: tuple[int, int, int] = (0, 0, 0)
    """Ways that lead back to a schema around this one."""

    def plus(self, other: _Work) -> _Work:
        return _Work(_add(self.keywords, other.keywords), _add(self.ways, other.ways))

    def inside(self, place: int) -> _Work:
        """The same work, as seen from the object (1) or the array (2) that holds the value."""
        keywords, ways = max(self.keywords), max(self.ways)
        return _Work((0, keywords, 0), (0, ways, 0)) if place == 1 else _Work((0, 0, keywords), (0, 0, ways))


def _add(left: tuple[int, int, int], right: tuple[int, int, int]) -> tuple[int, int, int]:
    return min(left[0] + right[0], _MAX), min(left[1] + right[1], _MAX), min(left[2] + right[2], _MAX)


class _Measure:
    def __init__(self, root: Any, weight: int) -> None:
        self._root = root
        self._weight = 0
        self._add(weight)
        self.patterns = 0
        self.growth = 1
        self.has_alternatives = False
        self._done: dict[int, _Work] = {}
        self._open: set[int] = set()

    def width(self, schema: Any) -> int:
        return max(self._measure(schema, 0).keywords)

    def _measure(self, schema: Any, depth: int) -> _Work:
        """The work of a schema. Where it leads back to one being measured, only the way is counted, not its work."""
        if type(schema) is not dict:
            return _Work()
        if id(schema) in self._open:
            return _Work(ways=(1, 0, 0))
        known = self._done.get(id(schema))
        if known is not None:
            return known
        if depth > _MAX_DEPTH:
            raise TooCostly(f"it is nested more than {_MAX_DEPTH} deep")
        self._open.add(id(schema))
        here = len(schema) + 1 + _count(schema.get("enum")) + _count(schema.get("const"))
        work = _Work(keywords=(here + _weigh_division(schema.get("multipleOf")), 0, 0))
        for one in self._same(schema):
            work = work.plus(self._measure(one, depth + 1))
        for place, inner in ((1, self._in_objects(schema)), (2, self._in_arrays(schema))):
            for one in inner:
                work = work.plus(self._measure(one, depth + 1).inside(place))
        named = [self._measure(one, depth + 1) for one in _values(schema.get("properties"))]
        work = work.plus(
            _Work(
                keywords=(0, max((max(one.keywords) for one in named), default=0), 0),
                ways=(0, max((max(one.ways) for one in named), default=0), 0),
            )
        )
        self.growth = max(self.growth, *work.ways[1:])
        self._measure_patterns(schema)
        self.has_alternatives |= "anyOf" in schema or "oneOf" in schema
        self._open.discard(id(schema))
        self._done[id(schema)] = work
        return work

    def _same(self, schema: dict[str, Any]) -> list[Any]:
        found = [one for key in _SAME_LISTS for one in _items(schema.get(key))]
        found += [schema[key] for key in _SAME if key in schema]
        found += [one for key in _SAME_NAMED for one in _values(schema.get(key))]
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(key), str):
                found.append(self._resolve(schema[key]))
        return found

    def _in_objects(self, schema: dict[str, Any]) -> list[Any]:
        found = [schema[key] for key in _IN_OBJECTS if type(schema.get(key)) is dict]
        return found + list(_values(schema.get("patternProperties")))

    def _in_arrays(self, schema: dict[str, Any]) -> list[Any]:
        found = [schema[key] for key in _IN_ARRAYS if type(schema.get(key)) is dict]
        return found + _items(schema.get("prefixItems")) + _items(schema.get("items"))

    def _measure_patterns(self, schema: dict[str, Any]) -> None:
        texts = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
        properties = schema.get("patternProperties")
        texts += properties if isinstance(properties, dict) else []
        for text in texts:
            size = compile_pattern(text).size
            self.patterns += size
            self._add(_OF_A_PATTERN + (size + len(text)) // _A_STEP)

    def _add(self, weight: int) -> None:
        """Count what makes the schema heavy. Raises TooCostly."""
        self._weight += weight
        if self._weight > MOST_WEIGHT:
            raise TooCostly(
                f"it has too many parts: {MOST_WEIGHT:,} values are allowed, and patterns count for many; divide it"
            )

    def _resolve(self, reference: str) -> Any:
        """The target of a reference in the same document; one that cannot be found is left to the validator."""
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


def _weigh_division(divisor: Any) -> int:
    """Steps of a division: none by a whole divisor; by a fraction, numbers are divided with all their digits."""
    if type(divisor) is not float or divisor.is_integer():
        return 0
    return _SHORT_FRACTION if abs(divisor) > 1e-12 else _LONG_FRACTION


def _weigh(value: Any, growth: int, most: int) -> int:
    """The number of values, each counted as often as `growth` multiplies it at its depth; or more than `most`."""
    weight, factor = 0, 1
    level = [value]
    while level and weight <= most:
        weight += factor * len(level)
        factor = min(factor * growth, _MAX)
        level = [
            one
            for container in level
            for one in (container if type(container) is list else container.values() if type(container) is dict else ())
        ]
    return weight


def count_values(value: Any, most: int) -> int:
    """How many values there are; if more than `most`, some number above it."""
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
    """How many values there are, and how many characters of text, keys included."""
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
