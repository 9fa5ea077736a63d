"""Pictures of workflows and runs: made in threads, and kept by the hash of the definition, as long as they fit.

It must not know HTTP, nor who may see which definition.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from typing import Literal

import msgspec

from perdure.budget import MIB
from perdure.drawing import Direction, draw, make_picture
from perdure.drawing.marks import mark_run
from perdure.drawing.plain_data import describe_stacked
from perdure.journal import RunRecord
from perdure.kernel.readings.seen import Seen
from perdure.kernel.state import State
from perdure.model.garbage import no_collection
from perdure.model.ir import IR
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.quarantine import explained
from perdure.service.errors import TooLargeToDraw
from perdure.threads import aside

MOST_BYTES = 32 * MIB
"""How many bytes of pictures a process keeps."""
MOST_ARROWS = 100_000
"""How many edges are drawn: a place for each takes 20 s of a thread, and a thread cannot be stopped."""


class Kept:
    """Results by a name for what they were made from: those used last, up to a sum of bytes."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._found: dict[str, bytes] = {}
        self._bytes = 0
        self._making: dict[str, asyncio.Lock] = {}

    async def get(self, name: str, tenant: str, make: Callable[[], bytes]) -> bytes:
        """What was kept under the name, or what `make` gives in a thread. Callers that ask at once wait for one."""
        if name not in self._found:
            try:
                async with self._making.setdefault(name, asyncio.Lock()):
                    if name not in self._found:
                        made = await aside(tenant, make)
                        self._keep(name, made)
                        return made
            finally:
                self._making.pop(name, None)
        found = self._found.pop(name)
        self._found[name] = found  # the last one used is forgotten last
        return found

    def _keep(self, name: str, made: bytes) -> None:
        if len(made) > self._most:
            return
        self._found[name] = made
        self._bytes += len(made)
        while self._bytes > self._most:
            self._bytes -= len(self._found.pop(next(iter(self._found))))


_kept = Kept()


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of a definition that is wanted, and not yet made."""

    library: Library
    tenant: str
    """The tenant for which a place in the threads is taken."""
    ir: str
    """The hash of the definition."""
    format: Literal["json", "svg"] = "json"
    direction: Direction | None = None
    opened: tuple[str, ...] = ()
    record: RunRecord | None = None
    """The run it is of, which may be quarantined because its definition is gone."""

    @property
    def name(self) -> str:
        """A name for the picture: the same one is the same picture, in this version of Perdure."""
        parts = [version("perdure"), self.ir, self.format, self.direction, sorted(set(self.opened))]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    async def draw(self) -> bytes:
        """The picture: as data with stacks, or as SVG, where every node is drawn by itself."""
        with nullcontext() if self.record is None else explained(self.record):
            ir = await self.library.get(self.ir)
        return await draw_graph(self, ir)


async def draw_graph(wanted: Graph, ir: IR) -> bytes:
    check_size(ir)
    make = _draw if wanted.format == "svg" else _describe
    return await _kept.get(wanted.name, wanted.tenant, partial(make, ir, wanted.direction, wanted.opened))


async def draw_run(state: State, seen: Seen, direction: Direction | None) -> bytes:
    """A run as SVG: the states of its nodes and the way it took. The state is the caller's own and is not changed."""
    check_size(state.ir)
    return await aside(state.tenant, _draw_run, state, seen, direction)


def check_size(ir: IR) -> None:
    if len(ir.edges) > MOST_ARROWS:
        raise TooLargeToDraw(f"the workflow has {len(ir.edges):,} edges; a picture has at most {MOST_ARROWS:,}")


@no_collection()
def _draw(ir: IR, direction: Direction | None, opened: Collection[str]) -> bytes:
    return draw(ir, "svg", direction=direction).encode()


@no_collection()
def _describe(ir: IR, direction: Direction | None, opened: Collection[str]) -> bytes:
    shown = describe_stacked(make_picture(ir), direction=direction, opened=opened)
    return msgspec.json.encode({"hash": ir.hash, **shown})


@no_collection()
def _draw_run(state: State, seen: Seen, direction: Direction | None) -> bytes:
    return draw(state.ir, "svg", marks=mark_run(state, seen), direction=direction).encode()
