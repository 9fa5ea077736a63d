"""Patches that handlers ask for (rule 87): from the operations to the definition they come to, made beside the loop.

Compiling takes long and reads definitions, so the command is set aside until that is done. What the node type lets its handler add
is judged here, by the config that the definition has, and not by what the worker says; everything else is the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.agents.run_patches import Palette, extend, find_bad_operations, find_outside
from perdure.blobs import BlobStore
from perdure.budget import REQUEST_CHARACTERS, REQUEST_STEPS, Budget
from perdure.clock import Clock
from perdure.errors import NotFound
from perdure.expressions.at_hand import AtHand, Lost
from perdure.expressions.errors import NotAtHand
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.state import Activation, State
from perdure.kernel.steps.asked_patches import find_open
from perdure.limits import Bounds
from perdure.model import DefinitionError
from perdure.model import ir as irs
from perdure.model.ir import IR
from perdure.nodes.registry import NodeType, Registry
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.messages import Asked
from perdure.runtime.coordinator.tasks.fetcher import Fetched, Source
from perdure.runtime.definition_checks import Checker
from perdure.threads import aside

_SAID = 20


class Patched(msgspec.Struct, frozen=True):
    """What operations come to."""

    ir: IR | None = None
    refused: tuple[str, ...] = ()


class NeedsPatched(NotAtHand):
    """The definition that a patch comes to must be made first."""

    code = "needs_patched"

    def __init__(self, key: str, base: IR, asker: str, operations: Any, palette: Palette) -> None:
        super().__init__(key, f"the definition that {asker} wants must be made first")
        self.base = base
        self.asker = asker
        self.operations = operations
        self.palette = palette


def make_message(
    effect: fx.ApplyPatch, registry: Registry, at_hand: Callable[[str], AtHand | None], clock: Clock
) -> Asked:
    """The message that has the patch made, and answered."""
    return Asked(
        effect.address.run_id, lambda state: _make(state, effect, registry, at_hand(state.tenant), clock.now()), None
    )


def _make(state: State, effect: fx.ApplyPatch, registry: Registry, at_hand: AtHand | None, at: float) -> c.ApplyPatch:
    """The command that answers an ask. Raises NeedsPatched."""
    address, base = effect.address, state.ir_hashes[-1]
    activation = state.locate(address)
    ask = None if activation is None else find_open(activation, effect.ask)
    about: dict[str, Any] = {"at": at, "id": "patch", "address": address, "ask": effect.ask, "base": base}
    if activation is None or ask is None:  # it is over; the kernel says so
        return c.ApplyPatch(**about, content="")
    about["content"] = ask.content
    palette = _find_palette(state, activation, registry)
    if palette is None or at_hand is None:
        why = f"{address.node} may not change its run: that is for agents with patch_workflow, and the palette it names"
        return c.ApplyPatch(**about, refused=(why,))
    bad = tuple(find_bad_operations(ask.operations, palette))
    if bad:
        return c.ApplyPatch(**about, refused=bad[:_SAID])
    key = f"patch:{address.task_id}:{effect.ask}:{base}:{ask.content}"
    if key not in at_hand:
        need = NeedsPatched(key, state.ir, address.node, ask.operations, palette)
        need.tenant = state.tenant
        raise need
    found = at_hand[key]
    if isinstance(found, Lost):
        return c.ApplyPatch(**about, refused=(found.message,))
    return c.ApplyPatch(**about, ir=found.ir, refused=found.refused)


def _find_palette(state: State, activation: Activation, registry: Registry) -> Palette | None:
    node = state.pinned(activation)
    kind: NodeType | None = registry.find(node.type)
    config = node.config if activation.config is None else activation.config
    found = None if kind is None or kind.palette is None or activation.item >= 0 else kind.palette(config)
    return found if isinstance(found, Palette) else None


def patch_sources(
    library: Library, registry: Registry, blobs: BlobStore | None, bounds: Bounds, clock: Clock
) -> dict[type[NotAtHand], Source]:
    """How definitions are made, for the fetcher."""
    checker = Checker(registry, blobs, library.find_workflow, bounds, clock)

    async def make(tenant: str, need: NeedsPatched) -> Fetched:
        return Fetched(await make_patched(tenant, need, library, checker, registry))

    return {NeedsPatched: make}


async def make_patched(
    tenant: str, need: NeedsPatched, library: Library, checker: Checker, registry: Registry
) -> Patched:
    """The definition after the patch, stored; or what is wrong with it. Raises StoreUnavailable."""
    try:
        before = msgspec.json.decode(await library.read(f"definition:{need.base.hash}"))
    except NotFound:
        return Patched(refused=("the definition of the run is not kept any more, so it cannot be patched",))
    budget = Budget(REQUEST_STEPS, REQUEST_CHARACTERS)
    extended = await aside(tenant, extend, before, need.operations, need.asker)
    try:
        compiled = await checker.check_data(extended, tenant=tenant, budget=budget)
    except DefinitionError as error:
        said = [
            f"{one.path}: {one.message}" if one.path else one.message
            for one in error.problems
            if one.severity == "error"
        ]
        return Patched(refused=tuple(said[:_SAID]))
    ir = compiled.get_ir()
    outside = tuple(find_outside(need.base, ir, need.asker, need.palette, lambda name: _urls(registry, name)))
    if outside:
        return Patched(refused=outside[:_SAID])
    encoded = irs.encode(ir)
    await library.put(ir.hash, "ir", encoded)
    body = msgspec.json.encode(compiled.definition, order="deterministic")
    await library.put(f"definition:{ir.hash}", "definition", body)
    library.add(ir, len(encoded))
    return Patched(ir)


def _urls(registry: Registry, name: str) -> tuple[tuple[str, ...], ...]:
    found = registry.find(name)
    return () if found is None else found.urls
