"""Random valid definitions: branches, races, loops in loops, every join, every failure policy, every kind of wait.

The shapes are those of the simulation (`perdure.simulation.blocks`). A graph is built from blocks that are valid by construction,
then spiced with random edges; the compiler must accept the first as it is, and may refuse the second only for the reasons in
`EXPECTED`. Everything comes from one `Random`, so that Hypothesis can drive and shrink it (`st.randoms`), and a long search can use
a seed. Nothing here is ever evaluated: the walk answers conditions as it likes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from perdure.model import compile_definition
from perdure.model.ir import IR
from perdure.simulation import changes
from perdure.simulation.blocks import Builder, Definition, Node
from perdure.simulation.changes import add_edge, change_join, change_node, remove_edge, remove_node

__all__ = ["Definition", "add_edge", "add_node", "change_join", "change_node", "generate", "remove_edge", "remove_node"]

EXPECTED = frozenset(
    {"cycle", "loops_overlap", "mixed_join", "impossible_join", "loop_not_dominated", "no_entry", "no_exit"}
    | {"self_dependency", "no_terminal_reachable", "unreachable", "conflicting_keys"}
    | {"stream_crosses_loop", "stream_edge_routed", "stream_join", "stream_not_built"}
)
"""Why a random edge may be refused. Any other reason is a bug of the generator or of the compiler."""


class Refused(Exception):
    """The compiler refused what should be legal."""


def compile_graph(definition: Definition) -> IR:
    result = compile_definition(copy.deepcopy(definition))
    if result.ir is None:
        raise Refused([f"{p.code} at {p.path}: {p.message}" for p in result.problems], definition)
    return result.ir


def make_valid(random: Random, make: Callable[[Random], Definition]) -> tuple[Definition, IR]:
    """The first definition made that compiles."""
    while True:
        definition = make(random)
        ir = try_compile(definition)
        if ir is not None:
            return definition, ir


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
    definition = _Walked(random, size).build()
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


def plain(random: Random) -> Node:
    return {"type": "task", "config": {"function": "m:f"}}


def add_node(random: Random, definition: Definition) -> Definition:
    return changes.add_node(random, definition, plain)


class _Walked(Builder):
    def condition(self, node: Node | None) -> str:
        return self.random.choice(("inputs.x", "run.id == ''", "true"))

    def undo(self) -> Node:
        return {"type": "task", "config": {"function": "m:undo"}}

    def type(self) -> Node:
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
                item["compensator"] = self.undo()
            if random.random() < 0.2:
                item["effect"] = "at_most_once"
            config: dict[str, Any] = {"over": "{{ inputs.x }}", "node": item}
            if random.random() < 0.3:
                config["tolerated_failures"] = random.randint(1, 2)
            return {"type": "map", "config": config}
        if kind == 4:
            return {"type": "workflow", "config": {"workflow": "child"}}
        return plain(random)
