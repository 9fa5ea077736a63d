"""Random graphs of blocks that are valid by construction: sequences, branches, races, nested loops, ways for failures.

Owns the shapes. What a node is, what a condition reads and how often a thing happens is left to its users: the walks
over the kernel (`tests/property`) and the simulated world (`graphs.py`). Everything comes from one `Random`.
"""

from __future__ import annotations

from random import Random
from typing import Any, ClassVar

Definition = dict[str, Any]
Node = dict[str, Any]


class Builder:
    name = "walk"
    smallest = 3
    deepest = 4
    compensate_share = 0.35
    hops_share = fanout_share = bytes_share = 0.1
    deadline_share = 0.15
    deadlines: ClassVar[tuple[int, ...]] = (5, 60)
    bytes_range: ClassVar[tuple[int, int]] = (1, 20)
    default_share = 0.5
    timeout_share = 0.4
    required_share = 0.08
    when_share = 0.12
    failure_share = 0.35
    once_share = 0.15
    retry_share = 0.3
    most_attempts = 3
    backoffs: ClassVar[tuple[int, ...]] = (0, 1000)
    undo_share = 0.3
    crashes_share = 0.1
    most_crashes = 2
    total_share = queue_share = 0.06
    long_times: ClassVar[tuple[int, ...]] = (2, 30)

    def __init__(self, random: Random, size: int) -> None:
        self.random = random
        self.left = random.randint(min(self.smallest, size), size)
        self.nodes: list[Node] = []
        self.by_id: dict[str, Node] = {}

    # -- what others choose --------------------------------------------------------------------------------------------

    def type(self) -> Node:
        """The type and config of the next node."""
        raise NotImplementedError

    def condition(self, node: Node | None) -> Any:
        """The condition of a branch of this node, or of the `when` of a node that is being made."""
        raise NotImplementedError

    def loop_condition(self, node: Node) -> Any:
        return self.condition(node)

    def undo(self) -> Node:
        """The type and config of a compensator."""
        raise NotImplementedError

    def people(self) -> Node:
        """The config of an approval that may be rejected."""
        return {"approvers": ["ann", "bob"]}

    def more(self, node: Node) -> None:
        """Add further keys to a node that was made."""

    # -- the whole -----------------------------------------------------------------------------------------------------

    def build(self) -> Definition:
        random = self.random
        tails: list[str] = []
        for _ in range(random.choice((1, 1, 1, 2))):
            tails += self.sequence([], 0)
        if len(tails) > 1 and random.random() < 0.6:
            self.join(tails)
        definition: Definition = {"name": self.name, "nodes": self.nodes}
        if random.random() < self.compensate_share:
            definition["on_failure"] = {"compensate": True}
        limits = self.limits()
        if limits:
            definition["limits"] = limits
        return definition

    def limits(self) -> dict[str, Any]:
        random = self.random
        limits: dict[str, Any] = {}
        if random.random() < self.hops_share:
            limits["max_hops"] = random.randint(2, 12)
        if random.random() < self.fanout_share:
            limits["max_fanout"] = random.randint(1, 3)
        if random.random() < self.deadline_share:
            limits["deadline_seconds"] = random.choice(self.deadlines)
        if random.random() < self.bytes_share:
            limits["max_bytes"] = random.randint(*self.bytes_range)
        return limits

    # -- blocks: each is given the nodes before it and gives the nodes that come last ------------------------------------

    def sequence(self, parents: list[str], depth: int) -> list[str]:
        """Add blocks one after the other."""
        tails = parents
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if self.left <= 0 and tails is not parents:
                break
            tails = self.block(tails, depth)
        return tails

    def block(self, parents: list[str], depth: int) -> list[str]:
        kinds = [self.single, self.single]
        if self.left > 1 and depth < self.deepest:
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
        node = self.by_id[chooser]
        rules = [
            {
                "condition": self.condition(node),
                "next_nodes": sorted({first, *random.sample(firsts, random.randint(0, 1))}),
            }
            for first in firsts
        ]
        branch: dict[str, Any] = {"rules": rules}
        if random.random() < self.default_share:
            branch["default"] = [random.choice(firsts)]
        node["branch"] = branch
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
        """Add a node whose failure, or rejection, has a way of its own."""
        first = self.node(parents)
        node = self.by_id[first]
        path = self.node([])
        if self.random.random() < 0.5:
            node["on_failure"] = {"path": [path]}
        else:
            node.update(type="human", config=self.people(), rejection_path=[path])
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
        loop: dict[str, Any] = {"condition": self.loop_condition(node), "max_iterations": random.randint(1, 3)}
        if looping != head:
            loop["loop_back_to"] = head
        if random.random() < 0.2:
            loop["delay_ms"] = 500
        node["loop"] = loop
        tails = []
        if random.random() < 0.3:
            loop["break_path"] = [self.node([])]
            tails += loop["break_path"]
        if random.random() < self.timeout_share:
            loop["timeout_path"] = [self.node([])] if random.random() < 0.6 else []
            tails += loop["timeout_path"]
        if random.random() < 0.35:
            tails.append(self.exit(body, looping))
        if not tails or random.random() < 0.5:
            tails.append(self.node([looping]))
        return [self.join(tails)] if random.random() < 0.5 and len(tails) > 1 else tails

    def exit(self, body: list[str], looping: str) -> str:
        """Add an edge out of the middle of a body, chosen by a branch or not."""
        source = self.random.choice(body)
        target = self.node([looping])
        node = self.by_id[source]
        if source == looping:
            return target
        if self.random.random() < 0.6 and "branch" not in node:
            node["branch"] = {"rules": [{"condition": self.condition(node), "next_nodes": [target]}]}
        else:
            self.by_id[target]["dependencies"].append(source)
        return target

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def join(self, parents: list[str]) -> str:
        name = self.node(parents)
        if len(parents) > 1:
            self.by_id[name]["join"] = random_join(self.random, len(parents))
        return name

    def node(self, parents: list[str]) -> str:
        random = self.random
        self.left -= 1
        name = f"n{len(self.nodes)}"
        node: Node = {"id": name} | self.type()
        if parents:
            node["dependencies"] = [
                {"node": parent, "required": True} if random.random() < self.required_share else parent
                for parent in parents
            ]
        if random.random() < self.when_share:
            node["when"] = self.condition(None)
        if random.random() < self.failure_share:
            node["on_failure"] = random.choice(("park", "continue", "fail"))
        if random.random() < self.once_share:
            node["effect"] = "at_most_once"
        if random.random() < self.retry_share:
            node["retry"] = {
                "max_attempts": random.randint(1, self.most_attempts),
                "backoff_ms": random.choice(self.backoffs),
            }
        if random.random() < self.undo_share:
            node["compensator"] = {**self.undo(), "retry": {"max_attempts": 2}}
        if random.random() < self.crashes_share:
            node["max_crashes"] = random.randint(1, self.most_crashes)
        if random.random() < self.total_share:
            node["total_timeout_seconds"] = random.choice(self.long_times)
        if random.random() < self.queue_share:
            node["queue_timeout_seconds"] = random.choice(self.long_times)
        self.more(node)
        self.nodes.append(node)
        self.by_id[name] = node
        return name


def random_join(random: Random, edges: int) -> Any:
    kind = random.randrange(4)
    if kind == 0:
        return "all"
    if kind == 1:
        return "any"
    return {"at_least": random.randint(1, edges), "cancel_rest": random.random() < 0.5}
