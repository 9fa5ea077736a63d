"""YAML events to plain data, in one pass.

A small, predictable YAML: the core schema of version 1.2 without octal and hexadecimal numbers. Only true and false are
booleans, keys are always text, dates stay text, and a number with a leading zero stays text, because it is a code and
not a quantity. Anchors, aliases, merge keys and tags are refused: they hide copies, and copies of copies are bombs.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from perdure.model.problems import Problems

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_A_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_TEMPLATE = re.compile(r"\{\{[^{}\n]*\}\}")

_MISSING = object()


class _Refused(Exception):
    pass


def resolve(text: str) -> Any:
    """The value of an unquoted scalar. Raises ValueError for a number that cannot be kept."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "-+.0123456789":
        if _INTEGER.match(text):
            if len(text) > 21 or not -(2**63) <= int(text) < 2**64:
                raise ValueError(f"integer {text[:24]}… is beyond 64 bits; quote it to make it text")
            return int(text)
        if _FLOAT.match(text):
            value = float(text)
            if math.isinf(value):
                raise ValueError(f"number {text[:24]} is too large; quote it to make it text")
            return value
        if _NOT_A_NUMBER.match(text):
            raise ValueError(f"{text} is not a number JSON knows; quote it to make it text")
    return text


def events(text: str) -> Any:
    """The event source of both readers. The caller must end it with `dispose()`."""
    return _Loader(text)


def read_yaml(text: str, problems: Problems, *, max_depth: int, max_values: int) -> Any:
    before = problems.errors
    data: Any = None
    try:
        loader = events(text)
    except yaml.YAMLError as error:
        _report_syntax(error, problems)
        return None
    try:
        data = _Builder(text, problems, max_depth, max_values).build(loader)
    except yaml.YAMLError as error:
        _report_syntax(error, problems)
    except _Refused:
        pass
    finally:
        loader.dispose()
    return data if problems.errors == before else None


def _report_syntax(error: yaml.YAMLError, problems: Problems) -> None:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or "not well-formed"
    context = getattr(error, "context", None)
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (None, None)
    message = f"not YAML: {context + ': ' if context else ''}{what}; check indentation, quotes and brackets"
    problems.error("syntax", (), message, line, column)


class _Builder:
    def __init__(self, text: str, problems: Problems, max_depth: int, max_values: int) -> None:
        self._text = text
        self._problems = problems
        self._max_depth = max_depth
        self._max_values = max_values

    def _refuse(self, event: Any, code: str, message: str, *, final: bool = False) -> None:
        mark = event.start_mark
        self._problems.error(code, (), message, mark.line + 1, mark.column + 1)
        if final or self._problems.full:
            raise _Refused

    def _hint(self, mark: Any) -> str:
        """The hint for a template without quotes, which YAML reads as two mappings: the mark is at the inner one."""
        line = "".join(self._text.split("\n")[mark.line : mark.line + 1])
        found = _TEMPLATE.match(line, max(mark.column - 1, 0))
        return f'; put quotes around it: "{found[0][:80]}"' if found else ""

    def build(self, loader: Any) -> Any:
        get = loader.get_event
        scalar, mapping, sequence = yaml.ScalarEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent
        mapping_end, sequence_end = yaml.MappingEndEvent, yaml.SequenceEndEvent
        words, first_of_number = _WORDS, "-+.0123456789"
        root: Any = None
        documents = 0
        count = 0
        stack: list[tuple[Any, Any]] = []  # (container, key waiting in it)
        container: Any = None
        key: Any = _MISSING  # the key that waits for its value, in a mapping
        while True:
            event = get()
            kind = type(event)
            if kind is scalar:
                if event.anchor is not None or event.tag is not None:
                    self._check_features(event)
                value: Any = event.value
                if "\0" in value:
                    self._refuse(event, "not_utf8", "a string holds the character NUL; remove it")
                if type(container) is dict and key is _MISSING:
                    if value == "<<" or value in container:
                        self._check_key(event, container)
                    key = value
                    continue
                if event.implicit[0]:
                    if value in words:
                        value = words[value]
                    elif value[0] in first_of_number:
                        value = self._resolve(event)
            elif kind is mapping or kind is sequence:
                self._check_start(event, type(container) is dict and key is _MISSING, len(stack))
                stack.append((container, key))
                container = {} if kind is mapping else []
                key = _MISSING
                continue
            elif kind is mapping_end or kind is sequence_end:
                value = container
                container, key = stack.pop()
            elif kind is yaml.AliasEvent:
                self._refuse(event, "yaml_feature", f"alias '*{event.anchor}' is not accepted; write the value out")
                if type(container) is dict and key is _MISSING:
                    key = f"*{event.anchor}"
                    continue
                value = None
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    message = "a second document ('---') is not accepted; one file, one workflow"
                    self._refuse(event, "yaml_feature", message, final=True)
                continue
            elif kind is yaml.StreamEndEvent:
                return root
            else:
                continue
            count += 1
            if count > self._max_values:
                self._refuse(event, "too_large", f"the definition has more than {self._max_values} values", final=True)
            if container is None:
                root = value
            elif key is _MISSING:
                container.append(value)
            else:
                container[key] = value
                key = _MISSING

    def _check_key(self, event: Any, container: dict[str, Any]) -> None:
        key = event.value
        if key == "<<" and event.implicit[0]:
            self._refuse(event, "yaml_feature", "merge key '<<' is not accepted; write the keys out")
        if key in container:
            self._refuse(event, "duplicate_key", f"key {key[:60]!r} is given twice; remove one of them")

    def _check_start(self, event: Any, is_key: bool, depth: int) -> None:
        """Check the start of a mapping or a list."""
        if event.anchor is not None or event.tag is not None:
            self._check_features(event)
        if is_key:
            message = f"a mapping or list as a key is not accepted{self._hint(event.start_mark)}"
            self._refuse(event, "yaml_feature", message, final=True)
        if depth >= self._max_depth:
            message = (
                f"values are nested more than {self._max_depth} deep; move the inner part into a blob or flatten it"
            )
            self._refuse(event, "too_deep", message, final=True)

    def _resolve(self, event: Any) -> Any:
        try:
            return resolve(event.value)
        except ValueError as error:
            self._refuse(event, "number_out_of_range", str(error))
            return event.value

    def _check_features(self, event: Any) -> None:
        if event.anchor is not None:
            self._refuse(
                event,
                "yaml_feature",
                f"anchor '&{event.anchor}' is not accepted; write the value out where it is needed",
            )
        if event.tag is not None:
            self._refuse(event, "yaml_feature", f"tag '{event.tag}' is not accepted; write the plain value")
