"""Reading one mapping of a definition: known keys, types, ranges, aliases.

Every part of a definition is read through `Fields`, so that a wrong key or type is reported in the same words everywhere
and reading goes on with the rest. Null means absent. It must not know what any key means.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from perdure.model.problems import Path, Problems, describe

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_ADDRESS = re.compile(r"sha256:[0-9a-f]{64}\Z")

YEAR_SECONDS = 366 * 86_400
YEAR_MS = YEAR_SECONDS * 1000


def plain_number(value: int | float) -> int | float:
    """The number with 2.0 as 2: they are the same in every field of a definition (not inside a config)."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Fields:
    """One mapping of a definition. `what` names it in messages: `node 'fetch'`, `retry of node 'fetch'`."""

    __slots__ = ("data", "path", "problems", "what")

    def __init__(
        self,
        data: dict[str, Any],
        path: Path,
        what: str,
        problems: Problems,
        known: Collection[str],
        otherwise: str = "",
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        """`otherwise` is the way out for an unknown key that is close to no known one, `elsewhere` says of keys where they stand."""
        self.data = data
        self.path = path
        self.what = what
        self.problems = problems
        if isinstance(known, frozenset) and known.issuperset(data):
            return
        for key in data:
            if key not in known:
                if elsewhere and key in elsewhere:
                    hint = f"; it stands {elsewhere[key]}"
                else:
                    hint = problems.suggest(key, known) or f"; {otherwise or 'known keys: ' + _listing(known)}"
                problems.error("unknown_key", (*path, key), f"unknown key '{key[:80]}' in {what}{hint}")

    def has(self, key: str) -> bool:
        return self.data.get(key) is not None

    def error(self, code: str, key: str, message: str) -> None:
        self.problems.error(code, (*self.path, key) if key else self.path, message)

    def wrong_type(self, key: str, wanted: str) -> None:
        self.error("wrong_type", key, f"'{key}' of {self.what} must be {wanted}, got {describe(self.data[key])}")

    def one_of(self, *keys: str) -> str | None:
        """The first of several spellings that is present; two spellings that say different things are a problem."""
        first = None
        for key in keys:
            if self.data.get(key) is None:
                continue
            if first is None:
                first = key
            elif self.data[key] != self.data[first]:
                self.conflict(first, key)
        return first

    def conflict(self, key: str, other: str) -> None:
        self.error(
            "conflicting_keys", other, f"'{other}' and '{key}' of {self.what} say different things; keep one of them"
        )

    def text(self, key: str, *, empty: bool = False) -> str | None:
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.wrong_type(key, "a string")
            return None
        if not value and not empty:
            self.error("wrong_value", key, f"'{key}' of {self.what} is empty; leave it out or fill it in")
            return None
        return value

    def name(self, key: str) -> str | None:
        value = self.text(key)
        if value is not None and not NAME.match(value):
            self.error(
                "wrong_value",
                key,
                f"'{key}' of {self.what} may hold letters, digits, '_', '-' and '.', got {describe(value)}",
            )
            return None
        return value

    def choice(self, key: str, choices: Collection[str]) -> str | None:
        value = self.text(key)
        if value is not None and value not in choices:
            hint = self.problems.suggest(value, choices) or "; expected one of " + _listing(choices)
            self.error("wrong_value", key, f"'{key}' of {self.what} is {describe(value)}{hint}")
            return None
        return value

    def flag(self, key: str) -> bool | None:
        value = self.data.get(key)
        if value is None or isinstance(value, bool):
            return value
        self.wrong_type(key, "true or false")
        return None

    def integer(self, key: str, low: int, high: int) -> int | None:
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong_type(key, "a whole number")
            return None
        if not low <= value <= high:
            self.error("wrong_value", key, f"expected '{key}' of {self.what} between {low} and {high}, got {value}")
            return None
        return value

    def number(self, key: str, low: float, high: float, *, above: bool = False) -> int | float | None:
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong_type(key, "a number")
            return None
        if not low <= value <= high or (above and value == low):
            edge = f"above {low}" if above else f"between {low} and"
            limit = f"{edge} and at most {high}" if above else f"{edge} {high}"
            self.error("wrong_value", key, f"expected '{key}' of {self.what} {limit}, got {value}")
            return None
        return plain_number(value)

    def seconds(self, key: str) -> int | float | None:
        return self.number(key, 0, 10 * YEAR_SECONDS, above=True)

    def mapping(self, key: str) -> dict[str, Any] | None:
        value = self.data.get(key)
        if value is None or isinstance(value, dict):
            return value
        self.wrong_type(key, "a mapping")
        return None

    def items(self, key: str) -> list[Any] | None:
        value = self.data.get(key)
        if value is None or isinstance(value, list):
            return value
        if isinstance(value, tuple):
            return list(value)
        hint = f" (write [{value}])" if isinstance(value, str) and len(value) < 60 else ""
        self.wrong_type(key, "a list" + hint)
        return None

    def texts(self, key: str) -> list[str] | None:
        """A list of strings whose order and repetition mean nothing: sorted, each once."""
        values = self.items(key)
        if values is None:
            return None
        good = []
        for index, value in enumerate(values):
            if isinstance(value, str) and value:
                good.append(value)
            else:
                self.problems.error(
                    "wrong_type",
                    (*self.path, key, index),
                    f"'{key}' of {self.what} must hold only non-empty strings, got {describe(value)}",
                )
        return sorted(set(good))

    def address(self, key: str) -> str | None:
        """A content address, with or without the cas:// scheme."""
        value = self.text(key)
        if value is None:
            return None
        bare = value.removeprefix("cas://")
        if not _ADDRESS.match(bare):
            self.error(
                "invalid_reference",
                key,
                f"'{key}' of {self.what} must be sha256: and 64 hexadecimal digits, got {describe(value)}; "
                "`perdure blobs put FILE` prints it",
            )
            return None
        return bare


def as_fields(
    value: Any,
    path: Path,
    what: str,
    problems: Problems,
    known: Collection[str],
    otherwise: str = "",
    elsewhere: Mapping[str, str] | None = None,
) -> Fields | None:
    if isinstance(value, dict):
        return Fields(value, path, what, problems, known, otherwise, elsewhere)
    problems.error("wrong_type", path, f"{what} must be a mapping, got {describe(value)}")
    return None


def _listing(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))
