"""Looks for a shorter history with the same failure: fewer faults, processes, runs and nodes, less latency.

A change of the plan changes everything drawn after it, so each candidate is tried with a few seeds of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.simulation import graphs
from perdure.simulation.plan import Plan
from perdure.simulation.world import World
from perdure.simulation.worlds.stream_world import make_world

SEEDS = 4
"""Seeds tried per candidate."""


def shrink(plan: Plan, rule: str, *, budget: int = 400, tell: Callable[[str], None] = lambda text: None) -> World:
    """The smallest failing history found, traced."""
    best = make_world(plan, tracing=True).run()
    tries = 0
    while tries < budget:
        for candidate in _smaller(best.plan):
            found = None
            for offset in range(SEEDS):
                tries += 1
                tried = msgspec.structs.replace(candidate, seed=plan.seed + offset * 1_000_003)
                world = make_world(tried, tracing=True).run()
                if world.failures and world.failures[0].rule == rule and size_of(world) < size_of(best):
                    found = world
                    break
            if found is not None:
                best = found
                tell(f"smaller: {_describe(best)}")
                break
            if tries >= budget:
                break
        else:
            break
    return best


def size_of(world: World) -> tuple[int, int]:
    """A measure of size: smaller plans first, then shorter histories."""
    plan = world.plan
    nodes = sum(len(definition["nodes"]) for definition in plan.workflows)
    parts = nodes + 3 * plan.runs + 2 * (plan.engines + plan.workers) + 2 * len(plan.rates) + len(plan.workflows)
    parts += int(plan.shared) + int(plan.journal_seconds > 0) + int(any(plan.skews)) + int(plan.large_share > 0)
    return parts, len(world.lines or ())


def _describe(world: World) -> str:
    plan = world.plan
    nodes = sum(len(definition["nodes"]) for definition in plan.workflows)
    return f"{len(world.lines or ())} lines, {plan.runs} runs, {nodes} nodes, faults: {', '.join(plan.rates) or 'none'}"


def _smaller(plan: Plan) -> Iterator[Plan]:
    names = list(plan.rates)
    for start in range(0, len(names), max(1, len(names) // 2)) if len(names) > 2 else ():
        dropped = set(names[start : start + len(names) // 2])
        yield _with(plan, rates={name: rate for name, rate in plan.rates.items() if name not in dropped})
    for name in names:
        yield _with(plan, rates={one: rate for one, rate in plan.rates.items() if one != name})
    if plan.runs > 1:
        yield _with(plan, runs=plan.runs - 1, inputs=plan.inputs[: plan.runs - 1])
    if len(plan.workflows) > 2:
        yield _with(plan, workflows=plan.workflows[:2])
        yield _with(plan, workflows=[plan.workflows[0], *plan.workflows[2:]])
    if plan.engines > 1:
        yield _with(plan, engines=plan.engines - 1)
    if plan.workers > 1:
        yield _with(plan, workers=plan.workers - 1)
    for number in range(len(plan.workflows)):
        yield from _without_nodes(plan, number)
    if plan.journal_seconds or plan.transport_seconds or plan.blob_seconds:
        yield _with(plan, journal_seconds=0.0, transport_seconds=0.0, blob_seconds=0.0)
    if plan.large_share:
        yield _with(plan, large_share=0.0)
    if any(plan.skews):
        yield _with(plan, skews=[0.0] * len(plan.skews))


def _without_nodes(plan: Plan, number: int) -> Iterator[Plan]:
    definition = plan.workflows[number]
    for node in reversed(definition["nodes"]):
        smaller = _without(definition, node["id"])
        if smaller["nodes"] and graphs.compiled(smaller).ir is not None:
            workflows = [*plan.workflows]
            workflows[number] = smaller
            yield _with(plan, workflows=workflows)
    for position, node in enumerate(definition["nodes"]):
        for key in [key for key in node if key not in ("id", "type", "config", "dependencies")]:
            changed: dict[str, Any] = copy.deepcopy(definition)
            del changed["nodes"][position][key]
            if graphs.compiled(changed).ir is not None:
                workflows = [*plan.workflows]
                workflows[number] = changed
                yield _with(plan, workflows=workflows)


def _without(definition: dict[str, Any], gone: str) -> dict[str, Any]:
    changed: dict[str, Any] = copy.deepcopy(definition)
    changed["nodes"] = [node for node in changed["nodes"] if node["id"] != gone]
    for node in changed["nodes"]:
        if "dependencies" in node:
            kept = [d for d in node["dependencies"] if (d["node"] if isinstance(d, dict) else d) != gone]
            node["dependencies"] = kept
            join = node.get("join")
            if len(kept) < 2 or (isinstance(join, dict) and join["at_least"] > len(kept)):
                node.pop("join", None)
    return changed


def _with(plan: Plan, **changes: Any) -> Plan:
    return msgspec.structs.replace(plan, **changes)
