"""Random workflows of every shape of SEMANTICS.md, whose conditions and templates can really be evaluated.

Blocks are valid by construction; then random edges and joins are tried, and kept when the compiler takes them. Handlers
of the simulator return `{"ok": bool, "n": int, "items": [...]}`, which is what conditions here look at.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from weft.model import Compiled, compile_definition

Definition = dict[str, Any]


def generate(random: Random, size: int, *, name: str, children: tuple[str, ...] = ()) -> Definition:
    definition = _Builder(random, size, name, children).build()
    if compile_definition(copy.deepcopy(definition)).ir is None:
        return simple(name)
    for _ in range(random.choice((0, 0, 1, 2))):
        changed = _add_edge(random, definition)
        if changed is not None and compile_definition(copy.deepcopy(changed)).ir is not None:
            definition = changed
    return definition


def simple(name: str) -> Definition:
    return {"name": name, "nodes": [{"id": "n0", "type": "task", "config": {"action": "work"}}]}


def compiled(definition: Definition) -> Compiled:
    return compile_definition(copy.deepcopy(definition))


def _add_edge(random: Random, definition: Definition) -> Definition | None:
    changed = copy.deepcopy(definition)
    nodes = changed["nodes"]
    if len(nodes) < 2:
        return None
    first = random.randrange(len(nodes) - 1)
    source, target = nodes[first]["id"], nodes[random.randrange(first + 1, len(nodes))]
    known = [d["node"] if isinstance(d, dict) else d for d in target.get("dependencies", ())]
    if source in known:
        return None
    target.setdefault("dependencies", []).append(
        {"node": source, "required": True} if random.random() < 0.2 else source
    )
    return changed


class _Builder:
    def __init__(self, random: Random, size: int, name: str, children: tuple[str, ...]) -> None:
        self.random = random
        self.left = random.randint(1, size)
        self.name = name
        self.children = children
        self.nodes: list[dict[str, Any]] = []
        self.by_id: dict[str, dict[str, Any]] = {}

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def build(self) -> Definition:
        random = self.random
        tails: list[str] = []
        for _ in range(random.choice((1, 1, 1, 2))):
            tails += self.sequence([], 0)
        if len(tails) > 1 and self.chance(0.6):
            self.join(tails)
        definition: Definition = {"name": self.name, "nodes": self.nodes}
        if self.chance(0.3):
            definition["on_failure"] = {"compensate": True}
        limits: dict[str, Any] = {}
        if self.chance(0.06):
            limits["max_hops"] = random.randint(2, 12)
        if self.chance(0.06):
            limits["max_fanout"] = random.randint(1, 3)
        if self.chance(0.12):
            limits["deadline_seconds"] = random.choice((20, 300))
        if self.chance(0.05):
            limits["max_bytes"] = random.randint(20, 400)
        if limits:
            definition["limits"] = limits
        return definition

    def sequence(self, parents: list[str], depth: int) -> list[str]:
        tails = parents
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if self.left <= 0 and tails is not parents:
                break
            tails = self.block(tails, depth)
        return tails

    def block(self, parents: list[str], depth: int) -> list[str]:
        kinds = [self.single, self.single]
        if self.left > 1 and depth < 3:
            kinds += [self.parallel, self.branch, self.loop, self.loop, self.with_path, self.agent]
        return self.random.choice(kinds)(parents, depth)

    def single(self, parents: list[str], depth: int) -> list[str]:
        return [self.node(parents)]

    def parallel(self, parents: list[str], depth: int) -> list[str]:
        start = parents if parents and self.chance(0.5) else [self.node(parents)]
        tails: list[str] = []
        for _ in range(self.random.choice((2, 2, 3))):
            tails += self.sequence(start, depth + 1)
        return [self.join(tails)] if self.chance(0.75) else tails

    def branch(self, parents: list[str], depth: int) -> list[str]:
        random = self.random
        chooser = self.task(parents)
        firsts, tails = [], []
        for _ in range(random.choice((1, 2, 3))):
            first = self.node([])
            firsts.append(first)
            tails += self.sequence([first], depth + 1) if self.chance(0.5) else [first]
        rules = [
            {"condition": self.condition(), "next_nodes": sorted({first, *random.sample(firsts, random.randint(0, 1))})}
            for first in firsts
        ]
        branch: dict[str, Any] = {"rules": rules}
        if self.chance(0.6):
            branch["default"] = [random.choice(firsts)]
        self.by_id[chooser]["branch"] = branch
        if self.chance(0.3):
            tails.append(self.node([chooser]))
        return [self.join(tails)] if self.chance(0.6) else tails

    def agent(self, parents: list[str], depth: int) -> list[str]:
        chooser = self.task(parents)
        firsts = [self.node([]) for _ in range(self.random.choice((1, 2, 2)))]
        branch: dict[str, Any] = {"type": "agent_driven", "available_next_nodes": firsts}
        if self.chance(0.5):
            branch["default"] = [self.random.choice(firsts)]
        self.by_id[chooser]["branch"] = branch
        return [self.join(firsts)] if self.chance(0.6) else firsts

    def with_path(self, parents: list[str], depth: int) -> list[str]:
        """A node whose failure, or rejection, has a way of its own."""
        human = self.chance(0.5)
        first = self.node(parents) if human else self.task(parents)
        node, path = self.by_id[first], self.node([])
        if human:
            node.update({"type": "human", "config": self.approval(), "rejection_path": [path]})
        else:
            node["on_failure"] = {"path": [path]}
        after = self.node([first])
        return [self.join([path, after])] if self.chance(0.6) else [path, after]

    def loop(self, parents: list[str], depth: int) -> list[str]:
        random = self.random
        start = len(self.nodes)
        head = self.node(parents)
        tails = self.sequence([head], depth + 1) if self.chance(0.6) else [head]
        looping = self.task(tails)
        if len(tails) > 1:
            self.by_id[looping]["join"] = self.random_join(len(tails))
        body = [node["id"] for node in self.nodes[start:]]
        loop: dict[str, Any] = {
            "condition": random.choice(("output.ok", "output.n > 3", "loop.iteration < 2", "true")),
            "max_iterations": random.randint(1, 3),
            "loop_back_to": head,
        }
        if self.chance(0.2):
            loop["delay_ms"] = 500
        self.by_id[looping]["loop"] = loop
        exits: list[str] = []
        if self.chance(0.3):
            loop["break_path"] = [self.node([])]
            exits += loop["break_path"]
        if self.chance(0.6):
            loop["timeout_path"] = [self.node([])] if self.chance(0.6) else []
            exits += loop["timeout_path"]
        if self.chance(0.3):
            exits.append(self.exit(body, looping))
        if not exits or self.chance(0.5):
            exits.append(self.node([looping]))
        return [self.join(exits)] if self.chance(0.5) and len(exits) > 1 else exits

    def exit(self, body: list[str], looping: str) -> str:
        source = self.random.choice(body)
        target = self.node([looping])
        node = self.by_id[source]
        if source == looping:
            return target
        if self.chance(0.6) and "branch" not in node and node["type"] == "task":
            node["branch"] = {"rules": [{"condition": self.condition(), "next_nodes": [target]}]}
        else:
            self.by_id[target]["dependencies"].append(source)
        return target

    def join(self, parents: list[str]) -> str:
        name = self.node(parents)
        if len(parents) > 1:
            self.by_id[name]["join"] = self.random_join(len(parents))
        return name

    def random_join(self, edges: int) -> Any:
        kind = self.random.randrange(4)
        if kind < 2:
            return ("all", "any")[kind]
        return {"at_least": self.random.randint(1, edges), "cancel_rest": self.chance(0.5)}

    def condition(self) -> str:
        return self.random.choice(
            ("output.ok", "output.ok", "output.n > 3", "output.n < 8", "inputs.flag", "output.no.such")
        )

    def approval(self) -> dict[str, Any]:
        config: dict[str, Any] = {"approvers": ["ann", "bob"], "quorum": self.random.randint(1, 2)}
        if self.chance(0.4):
            config["timeout_seconds"] = self.random.choice((5, 60, 600))
            config["on_timeout"] = self.random.choice(("reject", "approve", "fail", "escalate"))
            config["escalate_to"] = ["eve"]
        return config

    def node(self, parents: list[str]) -> str:
        return self.add(parents, self.type())

    def task(self, parents: list[str]) -> str:
        return self.add(parents, self.plain())

    def plain(self) -> dict[str, Any]:
        return {"type": "task", "config": {"action": "work"}}

    def add(self, parents: list[str], kind: dict[str, Any]) -> str:
        random = self.random
        self.left -= 1
        name = f"n{len(self.nodes)}"
        node: dict[str, Any] = {"id": name} | kind
        if parents:
            node["dependencies"] = [
                {"node": parent, "required": True} if self.chance(0.06) else parent for parent in parents
            ]
        if self.chance(0.08):
            node["when"] = random.choice(("inputs.flag", "!inputs.flag", "true"))
        if self.chance(0.3):
            node["on_failure"] = random.choice(("park", "continue", "fail"))
        if kind["type"] == "task":
            if self.chance(0.15):
                node["effect"] = "at_most_once"
            if self.chance(0.3):
                node["timeout_seconds"] = random.choice((2, 10, 30))
            if self.chance(0.06):
                node["heartbeat_timeout_seconds"] = random.choice((2, 10))
        if self.chance(0.4):
            node["retry"] = {"max_attempts": random.randint(1, 4), "backoff_ms": random.choice((0, 500, 5000))}
        if self.chance(0.25):
            node["compensator"] = {"type": "task", "config": {"action": "undo"}, "retry": {"max_attempts": 2}}
        if self.chance(0.1):
            node["max_crashes"] = random.randint(1, 3)
        if self.chance(0.06):
            node["total_timeout_seconds"] = random.choice((5, 60))
        if self.chance(0.06):
            node["queue_timeout_seconds"] = random.choice((5, 60))
        self.nodes.append(node)
        self.by_id[name] = node
        return name

    def type(self) -> dict[str, Any]:
        random = self.random
        kind = random.randrange(18)
        if kind == 0:
            return {"type": "human", "config": self.approval()}
        if kind == 1:
            return {"type": "wait", "config": {"seconds": random.choice((0, 3, 45))}}
        if kind == 2:
            config: dict[str, Any] = {"signal": random.choice(("go", "stop"))}
            if self.chance(0.4):
                config["seconds"] = random.choice((5, 60))
            return {"type": "wait", "config": config}
        if kind == 3:
            item: dict[str, Any] = self.plain() | {"retry": {"max_attempts": random.randint(1, 2), "backoff_ms": 100}}
            if self.chance(0.3):
                item["compensator"] = {"type": "task", "config": {"action": "undo"}}
            if self.chance(0.2):
                item["effect"] = "at_most_once"
            over = {"over": "{{ inputs.list }}", "node": item, "max_concurrency": random.choice((0, 1, 2))}
            if self.chance(0.3):
                over["tolerated_failures"] = random.randint(1, 2)
            return {"type": "map", "config": over}
        if kind == 4 and self.children:
            return {"type": "workflow", "config": {"workflow": random.choice(self.children)}}
        if kind == 5:
            return {"type": "transform", "config": {"value": {"ok": True, "n": 5, "run": "{{ run.id }}"}}}
        return self.plain()
