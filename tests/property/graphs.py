"""Random valid definitions: branches, races, loops in loops, every join, every failure policy, every kind of wait.

A graph is built from blocks that are valid by construction, then spiced with random edges; the compiler must accept the
first as it is, and may refuse the second only for the reasons in `EXPECTED`. Everything comes from one `Random`, so that
Hypothesis can drive and shrink it (`st.randoms`), and a long search can use a seed.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from weft.model import compile_definition
from weft.model.ir import IR

Definition = dict[str, Any]

EXPECTED = frozenset(
    {"cycle", "loops_overlap", "mixed_join", "impossible_join", "loop_not_dominated", "no_entry", "no_exit"}
    | {"self_dependency", "no_terminal_reachable", "unreachable", "conflicting_keys"}
)
"""Why a random edge may be refused. Any other reason is a bug of the generator or of the compiler."""


class Refused(Exception):
    """The compiler refused what should be legal."""


def compile_graph(definition: Definition) -> IR:
    result = compile_definition(copy.deepcopy(definition))
    if result.ir is None:
        raise Refused([f"{p.code} at {p.path}: {p.message}" for p in result.problems], definition)
    return result.ir


def try_compile(definition: Definition) -> IR | None:
    """The IR, or None when a random change made something that is rightly refused."""
    result = compile_definition(copy.deepcopy(definition))
    if result.ir is not None:
        return result.ir
    codes = {p.code for p in result.problems if p.severity == "error"}
    if not codes & EXPECTED:
        raise Refused([f"{p.code} at {p.path}: {p.message}" for p in result.problems], definition)
    return None


def generate(random: Random, size: int = 10) -> tuple[Definition, IR]:
    builder = _Builder(random, size)
    definition = builder.build()
    ir = compile_graph(definition)
    for _ in range(random.choice((0, 0, 1, 2, 3))):
        changed = add_edge(random, definition)
        found = None if changed is None else try_compile(changed)
        if changed is not None and found is not None:
            definition, ir = changed, found
    for _ in range(random.choice((0, 1, 2))):
        changed = change_join(random, definition)
        found = None if changed is None else try_compile(changed)
        if changed is not None and found is not None:
            definition, ir = changed, found
    return definition, ir


# -- changes: spice now, patches later ---------------------------------------------------------------------------------


def add_edge(random: Random, definition: Definition) -> Definition | None:
    """An edge forward in the list, into and out of loops as it happens."""
    nodes = definition["nodes"]
    if len(nodes) < 2:
        return None
    changed = copy.deepcopy(definition)
    first = random.randrange(len(nodes) - 1)
    second = random.randrange(first + 1, len(nodes))
    source, target = changed["nodes"][first]["id"], changed["nodes"][second]
    if _depends(target, source):
        return None
    target.setdefault("dependencies", []).append(
        {"node": source, "required": True} if random.random() < 0.2 else source
    )
    return changed


def change_join(random: Random, definition: Definition) -> Definition | None:
    changed = copy.deepcopy(definition)
    wide = [node for node in changed["nodes"] if len(node.get("dependencies", ())) > 1]
    if not wide:
        return None
    node = random.choice(wide)
    node["join"] = random_join(random, len(node["dependencies"]))
    return changed


def remove_edge(random: Random, definition: Definition) -> Definition | None:
    changed = copy.deepcopy(definition)
    found = [node for node in changed["nodes"] if node.get("dependencies")]
    if not found:
        return None
    node = random.choice(found)
    node["dependencies"].pop(random.randrange(len(node["dependencies"])))
    return changed


def add_node(random: Random, definition: Definition) -> Definition:
    """A new node after some node, sometimes before another one too."""
    changed = copy.deepcopy(definition)
    nodes = changed["nodes"]
    position = random.randrange(len(nodes))
    name = f"p{len(nodes)}"
    while any(node["id"] == name for node in nodes):
        name += "x"
    new: dict[str, Any] = {"id": name, "dependencies": [nodes[position]["id"]]} | plain(random)
    if random.random() < 0.4 and position + 1 < len(nodes):
        nodes[random.randrange(position + 1, len(nodes))].setdefault("dependencies", []).append(name)
    nodes.insert(position + 1, new)
    return changed


def remove_node(random: Random, definition: Definition) -> Definition | None:
    """A leaf, with whatever names it in plain dependencies."""
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
    return changed


def _name(dependency: Any) -> Any:
    return dependency["node"] if isinstance(dependency, dict) else dependency


def _depends(node: dict[str, Any], source: str) -> bool:
    return any(_name(d) == source for d in node.get("dependencies", ()))


# -- parts -------------------------------------------------------------------------------------------------------------


def plain(random: Random) -> dict[str, Any]:
    return {"type": "task", "config": {"function": "m:f"}}


def random_join(random: Random, edges: int) -> Any:
    kind = random.randrange(4)
    if kind == 0:
        return "all"
    if kind == 1:
        return "any"
    return {"at_least": random.randint(1, edges), "cancel_rest": random.random() < 0.5}


def _condition(random: Random) -> str:
    return random.choice(("inputs.x", "run.id == ''", "true"))


class _Builder:
    def __init__(self, random: Random, size: int) -> None:
        self.random = random
        self.left = random.randint(min(3, size), size)
        self.nodes: list[dict[str, Any]] = []
        self.by_id: dict[str, dict[str, Any]] = {}

    def build(self) -> Definition:
        random = self.random
        tails: list[str] = []
        for _ in range(random.choice((1, 1, 1, 2))):
            tails += self.sequence([], 0)
        if len(tails) > 1 and random.random() < 0.6:
            self.join(tails)
        definition: Definition = {"name": "walk", "nodes": self.nodes}
        if random.random() < 0.35:
            definition["on_failure"] = {"compensate": True}
        limits: dict[str, Any] = {}
        if random.random() < 0.1:
            limits["max_hops"] = random.randint(2, 12)
        if random.random() < 0.1:
            limits["max_fanout"] = random.randint(1, 3)
        if random.random() < 0.15:
            limits["deadline_seconds"] = random.choice((5, 60))
        if random.random() < 0.1:
            limits["max_bytes"] = random.randint(1, 20)
        if limits:
            definition["limits"] = limits
        return definition

    def sequence(self, parents: list[str], depth: int) -> list[str]:
        """Blocks one after the other; gives the nodes that come last."""
        tails = parents
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if self.left <= 0 and tails is not parents:
                break
            tails = self.block(tails, depth)
        return tails

    def block(self, parents: list[str], depth: int) -> list[str]:
        kinds = [self.single, self.single]
        if self.left > 1 and depth < 4:
            kinds += [self.parallel, self.branch, self.loop, self.loop, self.with_path, self.agent]
        return self.random.choice(kinds)(parents, depth)

    def single(self, parents: list[str], depth: int) -> list[str]:
        return [self.node(parents)]

    def parallel(self, parents: list[str], depth: int) -> list[str]:
        start = parents if parents and self.random.random() < 0.5 else [self.node(parents)]
        tails: list[str] = []
        for _ in range(self.random.choice((2, 2, 3))):
            tails += self.sequence(start, depth + 1)
        if self.random.random() < 0.75:
            return [self.join(tails)]
        return tails

    def branch(self, parents: list[str], depth: int) -> list[str]:
        random = self.random
        chooser = self.node(parents)
        tails: list[str] = []
        firsts = []
        for _ in range(random.choice((1, 2, 3))):
            first = self.node([])
            firsts.append(first)
            tails += self.sequence([first], depth + 1) if random.random() < 0.5 else [first]
        rules = [
            {
                "condition": _condition(random),
                "next_nodes": sorted({first, *random.sample(firsts, random.randint(0, 1))}),
            }
            for first in firsts
        ]
        branch: dict[str, Any] = {"rules": rules}
        if random.random() < 0.5:
            branch["default"] = [random.choice(firsts)]
        self.by_id[chooser]["branch"] = branch
        if random.random() < 0.3:
            tails.append(self.node([chooser]))
        return [self.join(tails)] if random.random() < 0.6 else tails

    def agent(self, parents: list[str], depth: int) -> list[str]:
        chooser = self.node(parents)
        firsts = [self.node([]) for _ in range(self.random.choice((1, 2, 2)))]
        branch: dict[str, Any] = {"type": "agent_driven", "available_next_nodes": firsts}
        if self.random.random() < 0.5:
            branch["default"] = [self.random.choice(firsts)]
        self.by_id[chooser]["branch"] = branch
        return [self.join(firsts)] if self.random.random() < 0.6 else firsts

    def with_path(self, parents: list[str], depth: int) -> list[str]:
        """A node whose failure, or rejection, has a way of its own."""
        first = self.node(parents)
        node = self.by_id[first]
        path = self.node([])
        if self.random.random() < 0.5:
            node["on_failure"] = {"path": [path]}
        else:
            node.update(type="human", config={"approvers": ["ann", "bob"]}, rejection_path=[path])
        after = self.node([first])
        return [self.join([path, after])] if self.random.random() < 0.6 else [path, after]

    def loop(self, parents: list[str], depth: int) -> list[str]:
        random = self.random
        start = len(self.nodes)
        head = self.node(parents)
        looping = head
        if random.random() < 0.75:
            tails = self.sequence([head], depth + 1) if random.random() < 0.8 else [head]
            looping = self.join(tails)
        node = self.by_id[looping]
        if "loop" in node:
            looping = self.node([looping])
            node = self.by_id[looping]
        body = [n["id"] for n in self.nodes[start:]]
        loop: dict[str, Any] = {"condition": _condition(random), "max_iterations": random.randint(1, 3)}
        if looping != head:
            loop["loop_back_to"] = head
        if random.random() < 0.2:
            loop["delay_ms"] = 500
        node["loop"] = loop
        tails = []
        if random.random() < 0.3:
            loop["break_path"] = [self.node([])]
            tails += loop["break_path"]
        if random.random() < 0.4:
            loop["timeout_path"] = [self.node([])] if random.random() < 0.6 else []
            tails += loop["timeout_path"]
        if random.random() < 0.35:
            tails.append(self.exit(body, looping))
        if not tails or random.random() < 0.5:
            tails.append(self.node([looping]))
        return [self.join(tails)] if random.random() < 0.5 and len(tails) > 1 else tails

    def exit(self, body: list[str], looping: str) -> str:
        """An edge out of the middle of a body, chosen by a branch or not."""
        source = self.random.choice(body)
        target = self.node([looping])
        node = self.by_id[source]
        if source == looping:
            return target
        if self.random.random() < 0.6 and "branch" not in node:
            node["branch"] = {"rules": [{"condition": _condition(self.random), "next_nodes": [target]}]}
        else:
            self.by_id[target]["dependencies"].append(source)
        return target

    def join(self, parents: list[str]) -> str:
        name = self.node(parents)
        if len(parents) > 1:
            self.by_id[name]["join"] = random_join(self.random, len(parents))
        return name

    def node(self, parents: list[str]) -> str:
        random = self.random
        self.left -= 1
        name = f"n{len(self.nodes)}"
        node: dict[str, Any] = {"id": name} | self.type()
        if parents:
            node["dependencies"] = [
                {"node": parent, "required": True} if random.random() < 0.08 else parent for parent in parents
            ]
        if random.random() < 0.12:
            node["when"] = _condition(random)
        if random.random() < 0.35:
            node["on_failure"] = random.choice(("park", "continue", "fail"))
        if random.random() < 0.15:
            node["effect"] = "at_most_once"
        if random.random() < 0.3:
            node["retry"] = {"max_attempts": random.randint(1, 3), "backoff_ms": random.choice((0, 1000))}
        if random.random() < 0.3:
            node["compensator"] = {"type": "task", "config": {"function": "m:undo"}, "retry": {"max_attempts": 2}}
        if random.random() < 0.1:
            node["max_crashes"] = random.randint(1, 2)
        if random.random() < 0.06:
            node["total_timeout_seconds"] = random.choice((2, 30))
        if random.random() < 0.06:
            node["queue_timeout_seconds"] = random.choice((2, 30))
        self.nodes.append(node)
        self.by_id[name] = node
        return name

    def type(self) -> dict[str, Any]:
        random = self.random
        kind = random.randrange(16)
        if kind == 0:
            return {"type": "human", "config": {"approvers": ["ann", "bob"], "quorum": random.randint(1, 2)}}
        if kind == 1:
            return {"type": "wait", "config": {"seconds": 3}}
        if kind == 2:
            return {"type": "wait", "config": {"signal": random.choice(("go", "stop"))}}
        if kind == 3:
            item: dict[str, Any] = plain(random)
            if random.random() < 0.3:
                item["compensator"] = {"type": "task", "config": {"function": "m:undo"}}
            if random.random() < 0.2:
                item["effect"] = "at_most_once"
            config: dict[str, Any] = {"over": "{{ inputs.x }}", "node": item}
            if random.random() < 0.3:
                config["tolerated_failures"] = random.randint(1, 2)
            return {"type": "map", "config": config}
        if kind == 4:
            return {"type": "workflow", "config": {"workflow": "child"}}
        return plain(random)
