"""How much work a CEL expression can make of given data, estimated before it runs.

The library stops after 10,000 iterations, but one iteration may compare or join everything there is, `map` and `filter` copy
their list for every element, and a chain of `map(x, x + x)` doubles. Its evaluation cannot be interrupted and holds the
coordinator, so what might take long is refused. The estimate errs on the high side; a plain condition over an output that
fits in an event is far below the limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MAX_STEPS = 3_000_000
"""About 0.1 µs each."""
_ITERATIONS = 10_000  # the library's own limit
_MACROS = frozenset({"all", "exists", "exists_one", "map", "filter"})

# Text and comments are skipped whole, so that brackets and names in them do not count.
WORD = re.compile(
    r"""
    (?P<skip> //[^\n]*+
      | (?:[bB]?[rR]|[rR][bB]) (?: '''(?:[^'\\]|\\.|'(?!''))*+''' | \"""(?:[^"\\]|\\.|"(?!""))*+\"""
                                 | '[^'\n]*+' | "[^"\n]*+" )
      | [bB]? (?: '''(?:[^'\\]|\\.|'(?!''))*+''' | \"""(?:[^"\\]|\\.|"(?!""))*+\"""
                | '(?:[^'\\\n]|\\.)*+' | "(?:[^"\\\n]|\\.)*+" )
      | `[^`\n]*+` )
  | (?P<name> (?:\.\s*+)?[A-Za-z_]\w*+ )
  | (?P<open> [(\[{] )
  | (?P<close> [)\]}] )
  | (?P<comma> , )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_GAP = re.compile(r"(?:\s|//[^\n]*+)*+")


class Shape:
    """What of an expression decides its cost."""

    __slots__ = ("copies", "depth", "growth", "inside", "length", "matches", "outside", "widest")

    def __init__(self, expression: str) -> None:
        self.length = len(expression)
        self.depth = 0  # of comprehensions inside each other
        self.growth = 1  # how often an element can come to hold itself
        self.copies = False  # map or filter
        self.matches = False
        self.widest = 1  # elements of a list in the expression
        self.inside: list[tuple[str, ...]] = []  # paths that are read once per iteration
        self.outside: list[tuple[str, ...]] = []
        self._scan(expression)

    def _scan(self, expression: str) -> None:
        brackets: list[_Macro | None] = []
        macro: str = ""  # the name of a comprehension, just before its bracket
        expects_name = False
        path: list[str] | None = None
        end = 0  # of the last name
        for match in WORD.finditer(expression):
            kind, word = match.lastgroup, match[0]
            if word.startswith("//"):
                continue
            if kind == "open":
                brackets.append(_Macro() if macro and word == "(" else None)
                if word == "(" and path is not None and len(path) > 1 and match.start() == end:
                    path.pop()  # the name of a method, not of a field
                expects_name = brackets[-1] is not None
                self.copies |= expects_name and macro in ("map", "filter")
                self.depth = max(self.depth, sum(bracket is not None for bracket in brackets))
            elif kind == "close":
                closed = brackets.pop() if brackets else None
                if closed is not None:
                    self.growth = min(self.growth * max(1, closed.mentions), MAX_STEPS)
            elif kind == "comma":
                self.widest += 1
            macro = ""
            if kind != "name":
                if kind != "open":
                    expects_name = False
                path = None
                continue
            if word[0] == ".":
                field = word[1:].strip()
                end = _GAP.match(expression, match.end()).end()  # type: ignore[union-attr]
                if path is not None:
                    path.append(field)
                macro = field if field in _MACROS else ""
                self.matches |= field == "matches"
                continue
            self.matches |= word == "matches"
            inner = [bracket for bracket in brackets if bracket is not None]
            if expects_name and inner:
                inner[-1].variable = word
                expects_name = False
                continue
            owner = next((bracket for bracket in reversed(inner) if bracket.variable == word), None)
            if owner is not None:
                owner.mentions += 1
                path = None
                continue
            path = [word]
            (self.inside if inner else self.outside).append(path)  # type: ignore[arg-type]

    def estimate(self, variables: Mapping[str, Any]) -> int:
        """Steps this may take over these values."""
        if not self.depth and len(self.outside) <= 50 and not self.matches:
            return 0
        if not self.depth:
            return sum(self._measure(find(variables, path))[0] for path in self.outside)
        size, widest = self.length, self.widest
        for path in self.outside:
            found_size, found_widest = self._measure(find(variables, path))
            size += found_size
            widest = max(widest, found_widest)
        read = 0
        for path in self.inside:
            found_size, found_widest = self._measure(find(variables, path))
            read += found_size
            widest = max(widest, found_widest)
        widest *= self.growth
        again = min(widest ** (self.depth - 1), _ITERATIONS)
        steps = size * self.growth * again + min(widest * again, _ITERATIONS) * read * self.growth
        if self.copies:
            steps += min(widest, _ITERATIONS) ** 2 // 2 * again
        return int(steps)

    def _measure(self, value: Any) -> tuple[int, int]:
        """Steps to look at all of a value, and the length of the longest list in it."""
        steps, widest = 1, 0
        stack = [value]
        while stack and steps <= MAX_STEPS:
            value = stack.pop()
            kind = type(value)
            if kind is str:
                steps += 1 + (len(value) if self.matches else len(value) >> 4)
            elif kind is list or kind is dict:
                steps += 1
                widest = max(widest, len(value))
                stack.extend(value.values() if kind is dict else value)
            else:
                steps += 1
        return steps, widest


class _Macro:
    __slots__ = ("mentions", "variable")

    def __init__(self) -> None:
        self.variable = ""
        self.mentions = 0


def find(variables: Mapping[str, Any], path: list[str] | tuple[str, ...]) -> Any:
    """As far down as the path leads through objects; an index or a method on the way stops it, which counts more."""
    value: Any = variables
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            break
        value = value[part]
    return None if value is variables else value
