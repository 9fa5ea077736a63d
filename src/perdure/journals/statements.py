"""SQL in files, one per query: read once, and reduced to the lines that a call asks for.

A line that ends in `-- if name` belongs to the query only when that parameter is given, and one that ends in `-- unless
name` only when it is not, so the planner sees exactly what was
asked and can choose an index for it. Nothing else is ever put into a query: values are always bound.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

_CONDITION = re.compile(r"--\s*(if|unless) (\w+)\s*$")


class Statements:
    """The queries of one adapter: the files in the folder `queries` of its package."""

    def __init__(self, package: str) -> None:
        self._folder = resources.files(package) / "queries"
        self._texts: dict[str, str] = {}
        self._chosen: dict[tuple[str, frozenset[str]], str] = {}

    def names(self) -> list[str]:
        return sorted(file.name.removesuffix(".sql") for file in self._folder.iterdir() if file.name.endswith(".sql"))

    def text(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = (self._folder / f"{name}.sql").read_text(encoding="utf-8")
        return text

    def query(self, name: str, parameters: Mapping[str, object]) -> str:
        """The text of a query, without the lines whose parameter is None or absent."""
        key = (name, frozenset(key for key, value in parameters.items() if value is not None))
        chosen = self._chosen.get(key)
        if chosen is None:
            chosen = self._chosen[key] = _choose(self.text(name), key[1])
        return chosen


def _choose(text: str, given: frozenset[str]) -> str:
    lines = []
    for line in text.splitlines():
        condition = _CONDITION.search(line)
        if condition is None:
            lines.append(line)
        elif (condition[2] in given) == (condition[1] == "if"):
            lines.append(line[: condition.start()].rstrip())
    return "\n".join(lines)
