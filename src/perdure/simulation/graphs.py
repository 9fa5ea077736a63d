"""Random workflows of every shape of docs/internals/semantics.md, whose conditions and templates can really be evaluated.

The shapes are blocks (`blocks.py`); then random edges are tried, and kept when the compiler accepts them. Handlers of
the simulator return `{"ok": bool, "n": int, "items": [...]}`, which conditions and outputs here read. Also holds the
changes that people make to a definition under way: `change`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

from perdure.model import Compiled, compile_definition
from perdure.simulation import changes
from perdure.simulation.blocks import Builder, Definition, Node

WHEN: dict[str, Callable[[dict[str, Any]], bool]] = {
    "inputs.flag": lambda inputs: inputs["flag"],
    "!inputs.flag": lambda inputs: not inputs["flag"],
    "true": lambda inputs: True,
}
"""Every `when` there is, and what it means; all can always be evaluated."""
TASKS = ("task", "blocking")
"""Types that the script plays: on the loop, and in a thread."""


def generate(random: Random, size: int, *, name: str, children: tuple[str, ...] = ()) -> Definition:
    builder = _Workflow(random, size, name, children)
    definition = builder.build_endless() if random.random() < 0.03 and children else builder.build()
    compiled(definition).get_ir()  # raises if the blocks are wrong
    for _ in range(random.choice((0, 0, 1, 2))):
        changed = changes.add_edge(random, definition)
        if changed is not None and compiled(changed).ir is not None:
            definition = changed
    if random.random() < 0.25:
        _name_outputs(random, definition)
    return definition


def compiled(definition: Definition) -> Compiled:
    return compile_definition(definition)


def plain(random: Random) -> Node:
    node: Node = {"type": "task", "config": {"action": "work"}}
    if random.random() < 0.12:
        node["type"] = "blocking"
    if random.random() < 0.08:
        node["isolation"] = "process"
    return node


def _name_outputs(random: Random, definition: Definition) -> None:
    """Add outputs by name: of nodes that may be skipped, and sometimes of a path that does not exist (rule 44)."""
    names = [node["id"] for node in definition["nodes"]]
    outputs = {f"o{number}": f"{{{{ {random.choice(names)} }}}}" for number in range(random.randint(1, 3))}
    if random.random() < 0.2:
        outputs["bad"] = f"{{{{ {random.choice(names)}.no.such }}}}"
    changed = {**definition, "outputs": outputs}
    if compiled(changed).ir is not None:
        definition["outputs"] = outputs


# -- what people change ------------------------------------------------------------------------------------------------


def change(random: Random, definition: Definition, others: list[Definition]) -> Definition | None:
    """Another definition for a run that uses this one: mostly one small change, rarely another workflow altogether."""
    if random.random() < 0.04:
        return copy.deepcopy(random.choice(others))
    found: Definition | None = None
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        make = random.choice(_CHANGES)
        found = make(random, found or definition) or found
    return found


def _add_node(random: Random, definition: Definition) -> Definition:
    return changes.add_node(random, definition, plain)


def _add_person(random: Random, definition: Definition) -> Definition:
    return changes.add_node(random, definition, lambda _: {"type": "human", "config": {"approvers": ["ann", "bob"]}})


def _add_branch(random: Random, definition: Definition) -> Definition | None:
    """Give a node a choice among those after it and a new one."""
    changed = changes.add_node(random, definition, plain)
    after = {node["id"]: node for node in changed["nodes"]}
    new = next(name for name in after if name not in {node["id"] for node in definition["nodes"]})
    source = after[after[new]["dependencies"][0]]
    if "branch" in source or "loop" in source:
        return None
    after[new].pop("dependencies")
    condition = "output.ok" if source["type"] in TASKS else "inputs.flag"
    source["branch"] = {"rules": [{"condition": condition, "next_nodes": [new]}]}
    return changed


def _change_loop(random: Random, definition: Definition) -> Definition | None:
    changed = copy.deepcopy(definition)
    loops = [node for node in changed["nodes"] if "loop" in node]
    if not loops:
        return None
    loop = random.choice(loops)["loop"]
    loop["max_iterations"] = random.randint(1, 4)
    loop["condition"] = random.choice(("loop.iteration < 2", "true", "false"))
    return changed


def _change_limits(random: Random, definition: Definition) -> Definition:
    """Change limits, outputs and what failure means."""
    changed = copy.deepcopy(definition)
    changed["limits"] = {"max_hops": random.choice((3, 100)), "max_fanout": random.choice((1, 100))}
    changed["on_failure"] = {"compensate": random.random() < 0.5}
    _name_outputs(random, changed)
    return changed


def _change_config(random: Random, definition: Definition) -> Definition:
    changed = copy.deepcopy(definition)
    node = random.choice(changed["nodes"])
    if node.get("type", "task") in TASKS:
        node["config"] = {"action": "work", "changed": random.randrange(100)}
        node["timeout_seconds"] = random.choice((2, 10, 30))
    node["compensator"] = {"type": "task", "config": {"action": "undo"}}
    return changed


_CHANGES = (
    _add_node,
    _add_node,
    _add_node,
    _add_person,
    _add_branch,
    _change_loop,
    _change_limits,
    _change_config,
    changes.add_edge,
    changes.remove_edge,
    changes.remove_node,
    changes.change_node,
    changes.change_join,
)


# -- workflows ---------------------------------------------------------------------------------------------------------


class _Workflow(Builder):
    smallest = 2
    deepest = 3
    compensate_share = 0.3
    hops_share = fanout_share = 0.06
    bytes_share = 0.05
    bytes_range: ClassVar[tuple[int, int]] = (20, 400)
    deadline_share = 0.12
    deadlines: ClassVar[tuple[int, ...]] = (20, 300)
    default_share = 0.6
    timeout_share = 0.6
    required_share = 0.06
    when_share = 0.08
    failure_share = 0.3
    retry_share = 0.4
    most_attempts = 4
    backoffs: ClassVar[tuple[int, ...]] = (0, 500, 5000)
    undo_share = 0.25
    most_crashes = 3
    long_times: ClassVar[tuple[int, ...]] = (5, 60)

    def __init__(self, random: Random, size: int, name: str, children: tuple[str, ...]) -> None:
        super().__init__(random, size)
        self.name = name
        self.children = children

    def build(self) -> Definition:
        definition = super().build()
        for node in self.nodes:
            if node["type"] == "human":  # the node was a task when it was given these
                for key in ("timeout_seconds", "heartbeat_timeout_seconds", "isolation"):
                    node.pop(key, None)
        return definition

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def build_endless(self) -> Definition:
        """Build a loop without a maximum, which goes on as a new run when its journal grows long (rule 15)."""
        first = self.node([])
        wait: Node = {"id": "tick", "type": "wait", "config": {"seconds": 3}, "dependencies": [first]}
        loop = {"condition": "output.ok || output.n > 2", "loop_back_to": "tick"}
        work: Node = {
            "id": "turn",
            "type": "task",
            "config": {"action": "work"},
            "dependencies": ["tick"],
            "loop": loop,
        }
        last: Node = {"id": "last", "type": "task", "config": {"action": "work"}, "dependencies": ["turn"]}
        return {"name": self.name, "endless": True, "nodes": [*self.nodes, wait, work, last]}

    def condition(self, node: Node | None) -> Any:
        if node is None:
            return self.random.choice(tuple(WHEN))
        if self.chance(0.15) and (compared := self.comparison(node)) is not None:
            return compared
        if node["type"] not in TASKS:
            return self.random.choice(("inputs.flag", "!inputs.flag", "true", "output.no.such"))
        return self.random.choice(
            ("output.ok", "output.ok", "output.n > 3", "output.n < 8", "inputs.flag", "output.no.such")
        )

    def comparison(self, node: Node) -> Node | None:
        """A comparison with a number of a node before this one (rule 24), if there is one."""
        before = [one for one in node.get("dependencies", ()) if isinstance(one, str)]
        tasks = [one for one in before if self.by_id[one]["type"] in TASKS]
        if node["type"] not in TASKS or not tasks:
            return None
        other = self.random.choice(tasks)
        return {
            "type": "cross_node_comparison",
            "expression": f"(current.output.n - ctx.{other}.output.n) / 2 > 0.4",
        }

    def loop_condition(self, node: Node) -> str:
        if node["type"] not in TASKS:
            return self.random.choice(("loop.iteration < 2", "loop.iteration < 3", "true"))
        return self.random.choice(("output.ok", "output.n > 3", "loop.iteration < 2", "true"))

    def undo(self) -> Node:
        return {"type": "task", "config": {"action": "undo"}}

    def people(self) -> Node:
        config: dict[str, Any] = {"approvers": ["ann", "bob"], "quorum": self.random.randint(1, 2)}
        if self.chance(0.4):
            config["timeout_seconds"] = self.random.choice((5, 60, 600))
            config["on_timeout"] = self.random.choice(("reject", "approve", "fail", "escalate"))
            config["escalate_to"] = ["eve"]
        return config

    def more(self, node: Node) -> None:
        if node["type"] not in TASKS:
            return
        if self.chance(0.3):
            node["timeout_seconds"] = self.random.choice((2, 10, 30))
        if self.chance(0.06):
            node["heartbeat_timeout_seconds"] = self.random.choice((2, 10))

    def type(self) -> Node:
        random = self.random
        kind = random.randrange(18)
        if kind == 0:
            return {"type": "human", "config": self.people()}
        if kind == 1:
            return {"type": "wait", "config": {"seconds": random.choice((0, 3, 45))}}
        if kind == 2:
            config: dict[str, Any] = {"signal": random.choice(("go", "stop"))}
            if self.chance(0.4):
                config["seconds"] = random.choice((5, 60))
            return {"type": "wait", "config": config}
        if kind == 3:
            return {"type": "map", "config": self.items()}
        if kind == 4 and self.children:
            inputs = {"flag": "{{ inputs.flag }}", "list": "{{ inputs.list }}"}
            return {"type": "workflow", "config": {"workflow": random.choice(self.children), "inputs": inputs}}
        if kind == 5:
            return {"type": "transform", "config": {"value": {"ok": True, "n": 5, "run": "{{ run.id }}"}}}
        return plain(random)

    def items(self) -> dict[str, Any]:
        random = self.random
        item = plain(random) | {"retry": {"max_attempts": random.randint(1, 2), "backoff_ms": 100}}
        if self.chance(0.3):
            item["compensator"] = self.undo()
        if self.chance(0.2):
            item["effect"] = "at_most_once"
        over: dict[str, Any] = {"over": "{{ inputs.list }}", "node": item}
        if self.chance(0.6):
            over["max_concurrency"] = random.choice((1, 2))
        if self.chance(0.3):
            over["tolerated_failures"] = random.randint(1, 2)
        return over
