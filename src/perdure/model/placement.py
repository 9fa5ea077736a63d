"""Problems found after compiling name nodes by id (`nodes.fetch.config.url`); here they get their place in the text.

Reads the text again, and only when there is something to report. Must not know what the problems are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.model.positions import Positions
from perdure.model.problems import Path, Problem, Problems, format_path
from perdure.model.reader import Format, read

_NODE = re.compile(r'nodes(?:\.([A-Za-z_][A-Za-z0-9_-]*)|\[("(?:[^"\\]|\\.)*")\])')
_PART = re.compile(r'\.([^.\[\]]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')


def place(problems: Sequence[Problem], text: str | bytes, format: Format | None) -> tuple[Problem, ...]:
    """The same problems in order of place, with paths by index, lines and columns, like the compiler's own."""
    if not problems:
        return ()
    data, plain, found = read(text, format, Problems())
    indexes = find_indexes(data)
    paths = [_as_written(read_path(problem.path, indexes), data) for problem in problems]
    places = Positions(plain, found).find(path for path in paths if path)
    placed = []
    for problem, path in zip(problems, paths, strict=True):
        line, column = places.get(path, (None, None)) if path else (None, None)
        shown = format_path(path) if path else problem.path
        placed.append(msgspec.structs.replace(problem, path=shown, line=line, column=column))
    return tuple(sorted(placed, key=lambda problem: (problem.line or 0, problem.column or 0)))


def _as_written(path: Path, data: Any) -> Path:
    """The path as the text has it: the type of a node may stand under its other name."""
    if len(path) < 3 or path[-1] != "type":
        return path
    found = data
    for part in path[:-1]:
        try:
            found = found[part]
        except (KeyError, IndexError, TypeError):
            return path
    spelled = isinstance(found, dict) and found.get("type") is None and found.get("handler") is not None
    return (*path[:-1], "handler") if spelled else path


def find_indexes(data: Any) -> dict[str, int]:
    nodes = data.get("nodes") if isinstance(data, dict) else None
    indexes: dict[str, int] = {}
    for index, node in enumerate(nodes if isinstance(nodes, list) else ()):
        name = (node.get("id") or node.get("node_id")) if isinstance(node, dict) else None
        if isinstance(name, str):
            indexes.setdefault(name, index)
    return indexes


def read_path(text: str, indexes: dict[str, int]) -> Path:
    """The path that a text means, or () when it is not understood: the problem then keeps its words and has no line."""
    node = _NODE.match(text)
    path: list[str | int] = []
    position = 0
    if node is not None:
        name = node[1] or msgspec.json.decode(node[2])  # in quotes: it is no identifier, which is a problem of its own
        if name not in indexes:
            return ()
        path, position = ["nodes", indexes[name]], node.end()
    elif not text.startswith("["):
        text = f".{text}"
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            return ()
        path.append(part[1] if part[1] is not None else int(part[2]) if part[2] else msgspec.json.decode(part[3]))
        position = part.end()
    return tuple(path)
