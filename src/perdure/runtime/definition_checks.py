"""Checks a definition before it is stored: what the compiler sees, what node types ask for, and the content of the
blobs it names.

Owns the one way a definition is checked. Registering, validating, starting, patching and their dry runs all come
through here, so none of them accepts what another refuses. It stores nothing.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from perdure.blobs import BlobDamaged, BlobMissing, BlobStore
from perdure.budget import Budget, OverBudget
from perdure.clock import Clock, system
from perdure.expressions.at_hand import Lost
from perdure.expressions.checks import find_content_refs
from perdure.limits import Bounds
from perdure.model import Compiled, DefinitionError, Problem, compile_definition, compile_text
from perdure.model.blob_content import Inlined, inline
from perdure.model.compilation import has_triggers, too_costly
from perdure.model.ir import IR
from perdure.model.placement import place, read_path
from perdure.model.problems import format_path
from perdure.model.reader import Format
from perdure.nodes.config_checks import find_more_problems, joined
from perdure.nodes.given_inputs import find_trigger_problems
from perdure.nodes.registry import Registry
from perdure.runtime.called import Find, check_called
from perdure.runtime.coordinator.tasks.fetcher import read_aside
from perdure.threads import aside

T = TypeVar("T")
IN_THE_LOOP = 4_000
"""The most bytes of JSON that are compiled and checked on the loop; larger definitions are checked in a thread."""
LARGEST_BYTES = 1024 * 1024
"""The most bytes of a blob that a definition names: it is compiled as a part of the definition, which itself may have
so much."""
MOST_BYTES = 4 * 1024 * 1024
"""The most bytes of all the blobs of one definition together."""
PUT_IN_BYTES = 32 * 1024 * 1024
"""The same, each as often as it is named: it is compiled at every place that names it."""


class Checker:
    def __init__(
        self,
        registry: Registry,
        blobs: BlobStore | None,
        find: Find | None = None,
        bounds: Bounds | None = None,
        clock: Clock = system,
    ) -> None:
        """Without a blob store, all blobs are assumed to exist; without `find`, all other workflows are. A schedule must
        have moments after the time of `clock`."""
        self._clock = clock
        self._registry = registry
        self._blobs = blobs
        self._find = find
        self._bounds = bounds or Bounds()

    async def check_text(
        self, text: bytes, kind: Format | None, *, tenant: str = "default", budget: Budget | None = None
    ) -> Compiled:
        """Compile and check a text, with every problem at once and its line. The `ir` is None if any problem is an
        error."""
        large = len(text) > IN_THE_LOOP
        compiled = await _do(tenant, large, lambda: compile_text(text, format=kind, budget=budget))
        problems = await self.find_problems(compiled, tenant=tenant, large=large, budget=budget)
        return await _do(tenant, large, lambda: joined(compiled, place(problems, text, kind)))

    async def check_data(self, definition: Any, *, tenant: str = "default", budget: Budget | None = None) -> Compiled:
        """Compile and check a definition that is data already. Raises DefinitionError, with the warnings too."""
        large = _is_large(definition)
        compiled = await _do(tenant, large, lambda: compile_definition(definition, budget=budget))
        compiled = joined(compiled, await self.find_problems(compiled, tenant=tenant, large=large, budget=budget))
        if compiled.ir is None:
            raise DefinitionError(compiled.problems)
        return compiled

    async def find_problems(
        self,
        compiled: Compiled,
        *,
        tenant: str = "default",
        large: bool = False,
        beside: Mapping[str, IR] = types.MappingProxyType({}),
        budget: Budget | None = None,
    ) -> tuple[Problem, ...]:
        """The problems that the compiler could not see, with nodes by their ids. A `large` one is looked at in a
        thread. `beside` holds the workflows that come with this one, by name."""
        try:
            problems = [*await _do(tenant, large, lambda: find_more_problems(compiled, self._registry, budget))]
            if has_triggers(compiled):  # a calendar takes a while
                now = self._clock.now()
                problems += await _do(tenant, True, lambda: find_trigger_problems(compiled, now, budget))
        except OverBudget:
            return (too_costly(),)
        draft = None if compiled.draft is None else compiled.draft.ir
        ir = compiled.ir or draft
        if ir is not None and (excess := self._bounds.find_excess(ir)):
            problems.append(Problem("nodes", None, None, "too_large", excess))
        if ir is not None and self._find is not None:
            try:
                problems += await check_called(ir, tenant, self._find, beside, budget)
            except OverBudget:
                return (too_costly(),)
        if ir is None or self._blobs is None:
            return tuple(problems)
        refs = [(path, ref) for path, ref in find_content_refs(ir) if ref]
        if not refs:
            return tuple(problems)
        contents: dict[str, Any] = {}
        sizes: dict[str, int] = {}
        missing = await self._fetch(self._blobs, tenant, {ref for _, ref in refs}, contents, sizes)
        for path, ref in refs:
            if ref in missing:
                problems.append(Problem(path, None, None, *missing[ref]))
        size = sum(sizes.get(ref, 0) for _, ref in refs)
        if size > PUT_IN_BYTES:
            text = f"the blobs that it names have {size:,} bytes, each counted as often as it is named"
            problems.append(
                Problem("", None, None, "too_large", f"{text}; {PUT_IN_BYTES:,} are allowed: let nodes read them")
            )
        elif contents and compiled.definition is not None:
            large = large or size > IN_THE_LOOP
            problems += await _do(tenant, large, lambda: self._look_into(compiled, contents, budget))
        return tuple(problems)

    async def _fetch(
        self, blobs: BlobStore, tenant: str, refs: set[str], contents: dict[str, Any], sizes: dict[str, int]
    ) -> dict[str, tuple[str, str]]:
        """Fill `contents` with the blobs, and `sizes` with how many bytes each has. Returns those that cannot be had,
        each with a code and a sentence."""
        missing: dict[str, tuple[str, str]] = {}
        budget = Budget(size=MOST_BYTES)
        for ref in sorted(refs):
            try:
                size = (await blobs.stat(tenant, ref)).size
                if size > LARGEST_BYTES or not budget.load(size):
                    text = f"blob {ref} has {size:,} bytes; what a definition names may have {LARGEST_BYTES:,} each"
                    missing[ref] = ("too_large", f"{text} and {MOST_BYTES:,} in all; let a node read it")
                    continue
                sizes[ref] = size
                found = await read_aside(tenant, await blobs.get(tenant, ref), ref)
            except BlobMissing as error:
                missing[ref] = ("missing_blob", f"{error.message}; put it with `perdure blobs put FILE`")
            except BlobDamaged as error:
                missing[ref] = ("missing_blob", f"{error.message}; put it again with `perdure blobs put FILE`")
            else:
                if type(found) is Lost:
                    missing[ref] = ("bad_config", found.message)
                else:
                    contents[ref] = found
        return missing

    def _look_into(self, compiled: Compiled, contents: dict[str, Any], budget: Budget | None) -> list[Problem]:
        """The problems in the content of blobs, placed where the definition names each blob: the content is checked as
        if it were written there."""
        assert compiled.definition is not None
        inlined = inline(compiled.definition, lambda ref: (ref in contents, contents.get(ref)))
        places = {node["id"]: number for number, node in enumerate(inlined.definition["nodes"])}
        names = {number: name for name, number in places.items()}
        whole = compile_definition(inlined.definition, budget=budget)
        said = {(problem.code, problem.message) for problem in compiled.problems}
        problems = [
            Problem(_by_id(found.path, names), None, None, found.code, found.message) for found in inlined.problems
        ]
        try:
            more = find_more_problems(whole, self._registry, budget)
        except OverBudget:
            return [too_costly()]
        for problem in (*whole.problems, *more):
            if (problem.code, problem.message) in said:
                continue
            origin = _origin(problem.path, inlined, places)
            if origin is not None:
                problems.append(msgspec.structs.replace(problem, path=_by_id(origin, names)))
            elif not problem.path:  # of the whole: there is too much to be checked
                problems.append(problem)
        return list(dict.fromkeys(problems))


async def _do(tenant: str, large: bool, work: Callable[[], T]) -> T:
    return await aside(tenant, work) if large else work()


def _is_large(definition: Any) -> bool:
    try:
        return len(msgspec.json.encode(definition)) > IN_THE_LOOP
    except (TypeError, ValueError, RecursionError, UnicodeError):  # the compiler says what is wrong with it
        return False


def _origin(path: str, inlined: Inlined, places: dict[str, int]) -> Any:
    found = read_path(path, places)
    return inlined.find_origin(found) if found else None


def _by_id(path: tuple[str | int, ...], names: dict[int, str]) -> str:
    """A path such as `nodes.fetch.config`, with the node's id: the form that checks use and that is looked up in a
    text."""
    if len(path) > 1 and path[0] == "nodes" and isinstance(path[1], int):
        path = ("nodes", names[path[1]], *path[2:])
    return format_path(path)
