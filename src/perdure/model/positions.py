"""Where in the text a path stands, looked up only when there is something to report.

Keeping the line of every value would cost more than the compile; reading the text a second time costs nothing when all
is well. Owns the event scan of both formats; must not know what a workflow is.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from perdure.model.problems import Path, Problems, format_path
from perdure.model.yaml_reader import events as yaml_events

Place = tuple[int, int]  # line and column, both from 1
_Event = tuple[str, str, int, int]  # "{" "[" "end" or "scalar"; text of the scalar; line; column

_TOKEN = re.compile(r'[\s,:]*+(?:([\[\]{}])|("[^"\\]*+(?:\\.[^"\\]*+)*+"?)|([^\s,:\[\]{}"]+))', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Positions:
    def __init__(self, text: str, format: str) -> None:
        self._text = text
        self._format = format

    def find(self, paths: Iterable[Path]) -> dict[Path, Place]:
        """The place of each path, or of the longest part of it that exists."""
        wanted: dict[Any, Any] = {}
        every = list(paths)
        for path in every:
            branch = wanted
            for part in path:
                branch = branch.setdefault(part, {})
        if self._format == "json":
            events: Iterator[_Event] = (
                (kind, _json_text(token), line, column) for kind, token, line, column in _json_events(self._text)
            )
        else:
            events = _yaml_events(self._text)
        known: dict[Path, Place] = {}
        try:
            _locate(events, wanted, known)
        except yaml.YAMLError:
            pass  # The text up to the error has been looked at; the error itself carries its own line.
        places: dict[Path, Place] = {}
        for path in every:
            for length in range(len(path), -1, -1):
                if path[:length] in known:
                    places[path] = known[path[:length]]
                    break
        return places


def _locate(events: Iterator[_Event], wanted: dict[Any, Any], known: dict[Path, Place]) -> None:
    # A frame: whether it is a mapping, the wanted parts below it (None: nothing), its path, next index and waiting key.
    stack: list[list[Any]] = []
    for kind, text, line, column in events:
        if kind == "end":
            if stack:
                stack.pop()
            if not stack:
                return
            continue
        below: dict[Any, Any] | None = wanted
        path: Path = ()
        if stack:
            frame = stack[-1]
            if frame[0] and frame[4] is None:
                frame[4] = (text, line, column)
                continue
            if frame[0]:
                part: str | int = frame[4][0]
                place = (frame[4][1], frame[4][2])
                frame[4] = None
            else:
                part = frame[3]
                place = (line, column)
                frame[3] += 1
            below = frame[1].get(part) if frame[1] else None
            if below is not None:
                path = (*frame[2], part)
                known.setdefault(path, place)
        else:
            known[()] = (line, column)
            if not wanted:
                return
        if kind != "scalar":
            stack.append([kind == "{", below, path, 0, None])


def _yaml_events(text: str) -> Iterator[_Event]:
    loader = yaml_events(text)
    try:
        while True:
            event = loader.get_event()
            kind = type(event)
            if kind is yaml.StreamEndEvent:
                return
            mark = event.start_mark
            if kind is yaml.ScalarEvent:
                yield "scalar", event.value, mark.line + 1, mark.column + 1
            elif kind is yaml.MappingStartEvent:
                yield "{", "", mark.line + 1, mark.column + 1
            elif kind is yaml.SequenceStartEvent:
                yield "[", "", mark.line + 1, mark.column + 1
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                yield "end", "", mark.line + 1, mark.column + 1
    finally:
        loader.dispose()


def _json_events(text: str) -> Iterator[_Event]:
    newlines = [match.start() for match in re.finditer("\n", text)]
    for match in _TOKEN.finditer(text):
        bracket, string, word = match.groups()
        offset = match.end() - len(bracket or string or word)
        row = bisect_right(newlines, offset - 1) if newlines else 0
        column = offset - (newlines[row - 1] + 1 if row else 0) + 1
        if bracket:
            yield ("end" if bracket in "]}" else bracket), "", row + 1, column
        else:
            yield "scalar", string or word, row + 1, column


def _json_text(token: str) -> str:
    """The value of a JSON string; surrogate halves are left in, for the caller to see."""
    if not token.startswith('"'):
        return token
    body = token[1:-1] if len(token) > 1 and token.endswith('"') else token[1:]

    def expand(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return _SHORT.get(match[2], match[2])

    return _ESCAPE.sub(expand, body) if "\\" in body else body


def explain_json(text: str, problems: Problems) -> bool:
    """Report what the fast reader refused without saying where: repeated keys, odd numbers, broken characters."""
    before = problems.errors
    stack: list[list[Any]] = []  # is it a mapping, keys seen, waiting key, path, next index
    for kind, token, line, column in _json_events(text):
        if kind == "end":
            if stack:
                stack.pop()
            continue
        value = _json_text(token)
        path: Path = ()
        if stack:
            frame = stack[-1]
            if frame[0] and frame[2] is None:
                if value in frame[1]:
                    where = format_path(frame[3]) or "the top level"
                    problems.error(
                        "duplicate_key",
                        (*frame[3], value),
                        f"key {value[:60]!r} is given twice in {where}; remove one",
                        line,
                        column,
                    )
                frame[1].add(value)
                frame[2] = value
                _explain_scalar(token, value, (*frame[3], value), line, column, problems)
                continue
            path = (*frame[3], frame[2] if frame[0] else frame[4])
            frame[2] = None
            frame[4] += 1
        if kind == "scalar":
            _explain_scalar(token, value, path, line, column, problems)
        else:
            stack.append([kind == "{", set(), None, path, 0])
        if problems.full:
            break
    return problems.errors > before


def _explain_scalar(token: str, value: str, path: Path, line: int, column: int, problems: Problems) -> None:
    if token.startswith('"'):
        if "\\u" not in token:
            return
        if "\0" in value:
            problems.error("not_utf8", path, "a string holds the character NUL; remove it", line, column)
            return
        try:
            value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            problems.error(
                "not_utf8", path, "a string holds half a surrogate pair; write the whole character", line, column
            )
        return
    if token in ("NaN", "Infinity", "-Infinity"):
        message = f"{token} is not a number JSON knows; write null or a string"
    elif re.fullmatch(r"-?[0-9]+", token):
        if len(token) <= 21 and -(2**63) <= int(token) < 2**64:
            return
        message = f"integer {token[:24]}… is beyond 64 bits; write it as a string"
    elif re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", token) and math.isinf(float(token)):
        message = f"number {token[:24]} is too large; write it as a string"
    else:
        return
    problems.error("number_out_of_range", path, message, line, column)
