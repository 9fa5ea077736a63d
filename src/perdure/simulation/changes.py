"""Random changes of a definition: additions to a graph that was just made, patches for one that runs.

Each returns a changed copy, or None when there is nothing to change. Many copies do not
compile, or are refused by a run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from perdure.simulation.blocks import Definition, Node, random_join


def add_edge(random: Random, definition: Definition) -> Definition | None:
    """Add an edge forward in the list, into and out of loops as it happens."""
    nodes = definition["nodes"]
    if len(nodes) < 2:
        return None
    changed = copy.deepcopy(definition)
    first = random.randrange(len(nodes) - 1)
    second = random.randrange(first + 1, len(nodes))
    source, target = changed["nodes"][first]["id"], changed["nodes"][second]
    if any(_name(one) == source for one in target.get("dependencies", ())):
        return None
    target.setdefault("dependencies", []).append(
        {"node": source, "required": True} if random.random() < 0.2 else source
    )
    return changed


def remove_edge(random: Random, definition: Definition) -> Definition | None:
    changed = copy.deepcopy(definition)
    found = [node for node in changed["nodes"] if node.get("dependencies")]
    if not found:
        return None
    node = random.choice(found)
    node["dependencies"].pop(random.randrange(len(node["dependencies"])))
    return changed


def change_join(random: Random, definition: Definition) -> Definition | None:
    changed = copy.deepcopy(definition)
    wide = [node for node in changed["nodes"] if len(node.get("dependencies", ())) > 1]
    if not wide:
        return None
    node = random.choice(wide)
    node["join"] = random_join(random, len(node["dependencies"]))
    return changed


def add_node(random: Random, definition: Definition, make: Callable[[Random], Node]) -> Definition:
    """Add a new node after some node, sometimes before another one too."""
    changed = copy.deepcopy(definition)
    nodes = changed["nodes"]
    position = random.randrange(len(nodes))
    name = f"p{len(nodes)}"
    while any(node["id"] == name for node in nodes):
        name += "x"
    new: dict[str, Any] = {"id": name, "dependencies": [nodes[position]["id"]]} | make(random)
    if random.random() < 0.4 and position + 1 < len(nodes):
        nodes[random.randrange(position + 1, len(nodes))].setdefault("dependencies", []).append(name)
    nodes.insert(position + 1, new)
    return changed


def remove_node(random: Random, definition: Definition) -> Definition | None:
    """Remove a node that only plain dependencies name, and those with it."""
    changed = copy.deepcopy(definition)
    nodes = changed["nodes"]
    if len(nodes) < 2:
        return None
    gone = random.choice(nodes)["id"]
    if f"'{gone}'" in repr([{k: v for k, v in n.items() if k not in ("id", "dependencies")} for n in nodes]):
        return None
    changed["nodes"] = [node for node in nodes if node["id"] != gone]
    for node in changed["nodes"]:
        if "dependencies" in node:
            node["dependencies"] = [d for d in node["dependencies"] if d != gone and _name(d) != gone]
    return changed


def change_node(random: Random, definition: Definition) -> Definition:
    changed = copy.deepcopy(definition)
    node = random.choice(changed["nodes"])
    node["on_failure"] = random.choice(("fail", "park", "continue"))
    node["retry"] = {"max_attempts": random.randint(1, 3), "backoff_ms": 1000}
    if node["type"] == "human" and node["on_failure"] == "fail":  # whom an approval asks must stay (E6)
        node["config"] = {**node.get("config", {}), "on_timeout": "approve", "timeout_seconds": 1}
    return changed


def _name(dependency: Any) -> Any:
    return dependency["node"] if isinstance(dependency, dict) else dependency
