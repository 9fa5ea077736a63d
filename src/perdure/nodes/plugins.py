"""Third-party node types: what installed distributions bring under the entry-point group `perdure.node_types`.

    [project.entry-points."perdure.node_types"]
    csv_read = "perdure_csv:CSV_READ"        # the name of the type, and the `perdure.NodeType` that it is

It owns finding and importing them. Reading the list costs milliseconds and imports none of them, so it happens when
first asked for; a module is imported when its type is used. It must not know the registry.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.errors import PerdureError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "perdure.node_types"


class PluginBroken(PerdureError):
    """A third-party type cannot be used; the message names the distribution that brings it."""

    code = "broken_node_type"


class Plugin(msgspec.Struct, frozen=True):
    name: str
    value: str
    """Where the type stands, as `module:attribute`."""
    source: str
    """The distribution and its version."""
    entry: Any

    def load(self) -> Any:
        try:
            return self.entry.load()
        except (Exception, SystemExit) as error:
            raise PluginBroken(
                f"node type {self.name!r} of {self.source} cannot be loaded: {self.value}: {type(error).__name__}: {error}"
            ) from error


class Plugins:
    """The plugins that `find` names, looked for once."""

    def __init__(self, find: Callable[[], Iterable[Plugin]] | None) -> None:
        self._find = find
        self._found: dict[str, list[Plugin]] | None = None if find is not None else {}

    def by_name(self) -> dict[str, list[Plugin]]:
        if self._found is None:
            assert self._find is not None
            found: dict[str, list[Plugin]] = {}
            for plugin in self._find():
                found.setdefault(plugin.name, []).append(plugin)
            self._found = found  # set whole at once: a heartbeat may ask from its thread
        return self._found


def find_installed() -> list[Plugin]:
    return list(_list_installed(tuple((place, _changed_at(place)) for place in sys.path)))


@functools.lru_cache(maxsize=1)
def _list_installed(places: tuple[tuple[str, int], ...]) -> tuple[Plugin, ...]:
    """Every distribution is opened for this, and every engine asks: again only when something was installed or removed."""
    from importlib.metadata import entry_points

    return tuple(Plugin(entry.name, entry.value, _source(entry), entry) for entry in entry_points(group=GROUP))


def _changed_at(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:  # it is not there, and nobody minds
        return 0


def _source(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
