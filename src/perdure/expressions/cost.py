"""How much work a CEL expression can make of given data, estimated before it runs.

The library stops after 10,000 iterations, but one iteration may compare or join everything there is, `map` and `filter`
copy their list for every element, a chain of `map(x, x + x)` doubles, and `matches` compiles its pattern every time.
Its evaluation cannot be interrupted and holds the coordinator, so an expression that might take long is refused. The
estimate errs on the high side; a plain condition over an output that fits in an event is far below the limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MAX_STEPS = 1_000_000
"""How many steps an evaluation may take. A step is at worst 0.1 µs; most take a tenth of that."""
_ITERATIONS = 10_000  # the library's own limit
_MACROS = frozenset({"all", "exists", "exists_one", "map", "filter"})

# Text and comments are skipped whole, so that brackets and names in them do not count.
SKIPPED = r"""
        //[^\n]*+
      | (?:[bB]?[rR]|[rR][bB]) (?: '''(?:[^'\\]|\\.|'(?!''))*+''' | \"""(?:[^"\\]|\\.|"(?!""))*+\"""
                                 | '[^'\n]*+' | "[^"\n]*+" )
      | [bB]? (?: '''(?:[^'\\]|\\.|'(?!''))*+''' | \"""(?:[^"\\]|\\.|"(?!""))*+\"""
                | '(?:[^'\\\n]|\\.)*+' | "(?:[^"\\\n]|\\.)*+" )
      | `[^`\n]*+`
    """
WORD = re.compile(
    rf"""
    (?P<skip> {SKIPPED} )
  | (?P<name> (?:\.\s*+)?[A-Za-z_]\w*+ )
  | (?P<open> [(\[{{] )
  | (?P<close> [)\]}}] )
  | (?P<comma> , )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_LITERAL = re.compile(r"""\s*+\(\s*+[rR]?('[^'\n]*+'|"[^"\n]*+")\s*+\)""")
_REPEATED = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")
_WIDE = re.compile(r"\.|\[\^|\\[DWSB]|[^\x00-\x7f]")
_CODED = re.compile(r"\\[xXuU0-7]")  # could be any character once it is unescaped
_ANY_PATTERN = 500_000  # RE2 gives up on larger ones
_ANY_TEXT = 1 << 40
_CHARACTERS_A_STEP = 4096  # pairs of them, in a search that finds only the beginning, but finds it everywhere
_GAP = re.compile(r"(?:\s|//[^\n]*+)*+")


class Shape:
    """The properties of an expression that decide its cost."""

    __slots__ = (
        "contains",
        "contains_inside",
        "copies",
        "depth",
        "growth",
        "inside",
        "length",
        "outside",
        "patterns",
        "patterns_inside",
        "widest",
    )

    def __init__(self, expression: str) -> None:
        self.length = len(expression)
        self.depth = 0  # of comprehensions inside each other
        self.growth = 1  # how often an element can come to hold itself
        self.copies = False  # map or filter
        self.patterns = 0  # steps to compile the patterns of `matches` once
        self.patterns_inside = 0  # the same for patterns inside a comprehension
        self.contains = 0  # characters that `contains` looks for outside comprehensions; _ANY_TEXT: of any value
        self.contains_inside = 0
        self.widest = 1  # commas in the expression bound the elements of its lists
        self.inside: list[tuple[str, ...]] = []  # paths that are read once per iteration
        self.outside: list[tuple[str, ...]] = []
        self._scan(expression)

    def _scan(self, expression: str) -> None:
        brackets: list[_Macro | None] = []
        macro: str = ""  # the name of a comprehension, just before its bracket
        expects_name = False
        path: list[str] | None = None
        end = 0  # where the last name ends
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
                if field == "matches":
                    self._add_pattern(_LITERAL.match(expression, match.end()), any(brackets))
                elif field == "contains":
                    self._add_search(_LITERAL.match(expression, match.end()), any(brackets))
                continue
            if word == "matches":  # as a function, with the pattern second
                self._add_pattern(None, any(brackets))
            elif word == "contains":
                self._add_search(None, any(brackets))
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

    def _add_pattern(self, literal: re.Match[str] | None, inside: bool) -> None:
        steps = _ANY_PATTERN if literal is None else _measure_pattern(literal[1])
        if inside:
            self.patterns_inside += steps
        else:
            self.patterns += steps

    def _add_search(self, literal: re.Match[str] | None, inside: bool) -> None:
        length = _ANY_TEXT if literal is None else len(literal[1])
        if inside:
            self.contains_inside = min(self.contains_inside + length, _ANY_TEXT)
        else:
            self.contains = min(self.contains + length, _ANY_TEXT)

    def _measure_search(self, variables: Mapping[str, Any], iterations: int) -> int:
        """The steps of `contains`, which may compare every character of one text with every one of the other."""
        wanted = max(self.contains, self.contains_inside)
        if not wanted:
            return 0
        longest = max((_longest_text(reach(variables, path)) for path in (*self.outside, *self.inside)), default=0)
        longest = max(longest, self.length)
        steps = longest * min(wanted, longest) // _CHARACTERS_A_STEP
        return steps * (iterations if self.contains_inside else 1)

    def estimate(self, variables: Mapping[str, Any]) -> int:
        """How many steps the expression may take over these values."""
        if not self.depth:
            steps = self.patterns + self._measure_search(variables, 1)
            if len(self.outside) <= 50 and not self.patterns:
                return steps
            return steps + sum(self._measure(reach(variables, path))[0] for path in self.outside)
        size, widest = self.length, self.widest
        for path in self.outside:
            found_size, found_widest = self._measure(reach(variables, path))
            size += found_size
            widest = max(widest, found_widest)
        read = 0
        for path in self.inside:
            found_size, found_widest = self._measure(reach(variables, path))
            read += found_size
            widest = max(widest, found_widest)
        widest *= self.growth
        again = min(widest ** (self.depth - 1), _ITERATIONS)
        steps = self.patterns + size * self.growth * again
        steps += min(widest * again, _ITERATIONS) * (read * self.growth + self.patterns_inside)
        steps += self._measure_search(variables, min(widest * again, _ITERATIONS))
        if self.copies:
            steps += min(widest, _ITERATIONS) ** 2 // 2 * again
        return int(steps)

    def _measure(self, value: Any) -> tuple[int, int]:
        """Steps to look at all of a value, and the length of the longest list in it."""
        plain = not self.patterns and not self.patterns_inside
        steps, widest = 1, 0
        stack = [value]
        while stack and steps <= MAX_STEPS:
            value = stack.pop()
            kind = type(value)
            if kind is str:
                steps += 1 + (len(value) >> 4 if plain else len(value))
            elif kind is list or kind is dict:
                steps += 1
                widest = max(widest, len(value))
                stack.extend(value.values() if kind is dict else value)
            else:
                steps += 1
        return steps, widest


def _longest_text(value: Any) -> int:
    """The length of all texts of a value together, since `+` may have joined them."""
    length = 0
    stack = [value]
    while stack:
        value = stack.pop()
        kind = type(value)
        if kind is str:
            length += len(value)
        elif kind is list:
            stack.extend(value)
        elif kind is dict:
            stack.extend(value.values())
    return length


def _measure_pattern(pattern: str) -> int:
    """Steps to compile a regular expression: its length, times what it repeats, times the size of its classes."""
    if _CODED.search(pattern):
        return _ANY_PATTERN
    times = 1
    for least, most in _REPEATED.findall(pattern):
        times *= max(1, int(most or least))
    if "\\p" in pattern or "\\P" in pattern or "(?" in pattern:
        weight = 3000
    else:
        weight = 30 if _WIDE.search(pattern) else 6
    return min(200 + len(pattern) * min(times, 1000) * weight, _ANY_PATTERN)


class _Macro:
    __slots__ = ("mentions", "variable")

    def __init__(self) -> None:
        self.variable = ""
        self.mentions = 0


def reach(variables: Mapping[str, Any], path: list[str] | tuple[str, ...]) -> Any:
    """The value as far down as the path leads through objects; what stops at an index or a method counts for more."""
    value: Any = variables
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            break
        value = value[part]
    return None if value is variables else value
