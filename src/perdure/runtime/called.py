"""The workflows that a definition starts as children: whether they are registered, and whether the inputs they are
given fit.

This only warns: a child is looked up when its node is reached, and may be registered, or changed, until then (rule 39).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec

from perdure.agents.own_tools import CODE, DELEGATE
from perdure.agents.toolbox import entries_of
from perdure.blobs import BlobDamaged, BlobMissing
from perdure.budget import Budget
from perdure.model import Problem
from perdure.model.ir import IR, Node
from perdure.model.problems import Path, format_path
from perdure.nodes.given_inputs import find_input_misfits
from perdure.nodes.registry import has_template
from perdure.runtime.filled_inputs import is_costly
from perdure.threads import aside

Find = Callable[[str, str, int | None], Awaitable[IR | None]]
"""A function of tenant, name and version (None for the highest) that returns the registered IR, or None."""

PUSH = "perdure workflows push FILE"
MOST = 100
"""How many workflows are looked up for one definition; each is a query."""

_IN_THE_LOOP = 5
"""How many calls are checked on the loop; of more, and of larger inputs, all are checked in a thread."""


class Called(msgspec.Struct, frozen=True):
    path: Path
    """The path of the config that names the workflow."""
    what: str
    name: str
    inputs: Any
    """What it is given; UNSET: an agent's model decides that."""
    key: Path = ("workflow",)
    """Where in the config its name stands."""


def find_called(ir: IR) -> Iterator[Called]:
    """The workflows that nodes, items of maps, compensators and the tools of agents start, as far as their names are no templates."""
    for node in ir.nodes:
        if node is not None:
            yield from _called_by(node, ("nodes", node.id), f"node '{node.id}'")


def _called_by(node: Node, path: Path, what: str) -> Iterator[Called]:
    config = node.config if isinstance(node.config, dict) and node.config_ref is None else {}
    undo = node.compensator
    parts: list[tuple[str, Any, Path, str]] = []
    if node.type == "map" and "workflow" in config:
        parts.append(("workflow", config, (*path, "config"), f"the item of {what}"))
    parts.append((node.type, config, (*path, "config"), what))
    if undo is not None:
        parts.append((undo.type, undo.config, (*path, "compensator", "config"), f"compensator of {what}"))
    for kind, given, place, who in parts:
        name = given.get("workflow") if kind == "workflow" and isinstance(given, dict) else None
        if isinstance(name, str) and not has_template(name):
            yield Called(place, who, name, given.get("inputs"))
    if node.type == "agent":
        yield from _called_by_tools(config, (*path, "config"), what)
    if node.item is not None and "node" in config:
        yield from _called_by(node.item, (*path, "config", "node"), f"the item of {what}")


def _called_by_tools(config: dict[str, Any], path: Path, what: str) -> Iterator[Called]:
    for place, entry in entries_of(config):
        given = entry if isinstance(entry, dict) else {}
        delegates = given[DELEGATE].get("agents") if isinstance(given.get(DELEGATE), dict) else None
        named: list[tuple[Path, Any]] = [((*place, "workflow"), given.get("workflow"))]
        named += [
            ((*place, DELEGATE, "agents", number), name)
            for number, name in enumerate(delegates if isinstance(delegates, list) else ())
            if name != CODE
        ]
        for key, name in named:
            if isinstance(name, str) and not has_template(name):
                yield Called(path, f"a tool of {what}", name, msgspec.UNSET, key)


async def check_called(
    ir: IR, tenant: str, find: Find, beside: Mapping[str, IR], budget: Budget | None = None
) -> list[Problem]:
    """Warnings about the workflows a definition starts. `beside` holds those that come with it, by name. Raises OverBudget."""
    own = {ir.name: ir, **beside}
    known: dict[str, IR | None] = {}
    found: list[tuple[Called, IR | None]] = []
    for called in find_called(ir):
        if called.name not in known:
            if len(known) >= MOST:
                break
            try:
                known[called.name] = own.get(called.name.partition("@")[0]) or await _look_up(called.name, tenant, find)
            except (BlobMissing, BlobDamaged):  # registered, but not readable: the run that starts it is told
                continue
        found.append((called, known[called.name]))
    if len(found) > _IN_THE_LOOP or any(child and is_costly(child.inputs_schema, one.inputs) for one, child in found):
        return await aside(tenant, _check_all, found, budget)
    return _check_all(found, budget)


def _check_all(found: list[tuple[Called, IR | None]], budget: Budget | None) -> list[Problem]:
    problems: list[Problem] = []
    for called, child in found:
        problems += [_stranger(called)] if child is None else _check_inputs(called, child, budget)
    return problems


def find_strangers(ir: IR, beside: Mapping[str, IR]) -> list[Problem]:
    """Warnings where there is no database yet, and only the workflows `beside` this one are known."""
    own = {ir.name, *beside}
    return [_stranger(called) for called in find_called(ir) if called.name.partition("@")[0] not in own]


async def _look_up(called: str, tenant: str, find: Find) -> IR | None:
    name, _, version = called.partition("@")
    if version and not version.isdecimal():
        return None
    return await find(tenant, name, int(version) if version else None)


def _stranger(called: Called) -> Problem:
    text = f"no workflow '{called.name}' is registered here; register it before that node is reached: {PUSH}"
    return Problem(format_path((*called.path, *called.key)), None, None, "unknown_workflow", text, "warning")


def _check_inputs(called: Called, child: IR, budget: Budget | None) -> list[Problem]:
    if called.inputs is msgspec.UNSET:
        return []
    place = called.path if called.inputs is None else (*called.path, "inputs")
    said = f"the inputs of {called.what} do not fit workflow '{called.name}'"
    found = find_input_misfits(child.inputs_schema, called.inputs, budget)
    return [_misfit((*place, *one.path), f"{said}: {one.message}") for one in found]


def _misfit(path: Path, message: str) -> Problem:
    return Problem(format_path(path), None, None, "child_inputs", message, "warning")
