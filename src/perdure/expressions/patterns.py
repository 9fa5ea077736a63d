"""Regular expressions, through RE2: the only file that compiles one a user wrote.

RE2 takes time linear in the text, but times the size of the compiled pattern, and compiling costs memory. So patterns
are short, their memory is small, and a search that could take too long is refused before it begins: `MAX_STEPS` bounds
pattern size times text length, about 10 ns each at worst.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

from perdure.plain_text import cut

MAX_PATTERN = 1000
MAX_STEPS = 5_000_000
_MAX_MEMORY = 1 << 20
_CACHED = 100
_SHOWN = 100


class PatternError(Exception):
    """A pattern cannot be used, or a text cannot be searched with it. The text of the error is for people."""


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_compiled", "groups", "names", "size", "text")

    def __init__(self, text: str, compiled: Any) -> None:
        self.text = text
        self._compiled = compiled
        self.groups: int = compiled.groups
        self.size: int = compiled.programsize
        self.names: dict[str, int] = dict(compiled.groupindex)

    def steps_over(self, text: str) -> int:
        """The cost of a search in steps of a `Budget`; a step of RE2 takes 10 ns at worst."""
        return len(text) * self.size // 25

    def is_found_in(self, text: str, steps: int = MAX_STEPS) -> bool:
        """Whether the pattern occurs anywhere in the text; `^` and `$` tie it down."""
        self._check(text, steps)
        try:
            return self._compiled.search(text) is not None
        except UnicodeError:
            raise PatternError("the text is not valid Unicode") from None

    def is_all_of(self, text: str, steps: int = MAX_STEPS) -> bool:
        self._check(text, steps)
        try:
            return self._compiled.fullmatch(text) is not None
        except UnicodeError:
            raise PatternError("the text is not valid Unicode") from None

    def find(self, text: str, most: int, steps: int = MAX_STEPS) -> list[Any]:
        """Up to `most` matches, as match objects of the library."""
        self._check(text, steps)
        found = []
        try:
            for match in self._compiled.finditer(text):
                found.append(match)
                if len(found) == most:
                    break
        except UnicodeError:
            raise PatternError("the text is not valid Unicode") from None
        return found

    def _check(self, text: str, steps: int) -> None:
        if len(text) * self.size > steps:
            raise PatternError(
                f"pattern {_show(self.text)} could take too long over a text of {len(text):,} characters; "
                "repeat less in it, or search a shorter text"
            )


@lru_cache(maxsize=_CACHED)
def compile_pattern(text: str, captures: bool = False) -> Pattern:
    """The compiled pattern; raises PatternError. Without `captures` groups only group, which is faster."""
    if len(text) > MAX_PATTERN:
        raise PatternError(f"a pattern has {len(text):,} characters, {MAX_PATTERN:,} are allowed")
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.never_capture = not captures
    try:
        return Pattern(text, re2.compile(text, options))
    except UnicodeError:
        raise PatternError("the pattern is not valid Unicode") from None
    except re2.error as error:
        reason = error.args[0] if error.args else "it is not valid"
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(
            f"pattern {_show(text)}: {cut(reason, _SHOWN)} (RE2 syntax: no look-around, no references back)"
        ) from None


def _show(text: str) -> str:
    return repr(cut(text, _SHOWN))
