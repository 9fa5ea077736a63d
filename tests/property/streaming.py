"""The walk with streams between nodes: producers that open, keep, break off and end; readers that come and go with them."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.stream_readers import find_unread, sources
from perdure.kernel.values import Part, PortEnd
from perdure.model import compile_definition
from perdure.model.ir import IR, Node
from tests.property import graphs
from tests.property.walk import Walk

N = NodeState
REF = "sha256:" + "0" * 64


def add_streams(random: Random, definition: graphs.Definition, ir: IR) -> tuple[graphs.Definition, IR]:
    """The definition with some of its edges made streams, and perhaps further ones."""
    for _ in range(random.choice((2, 4, 8, 12))):
        known = [node for node in ir.nodes if node is not None and node.type == "task" and not node.loops]
        if len(known) < 2:
            break
        first, second = sorted(random.sample(range(len(known)), 2))
        changed = copy.deepcopy(definition)
        edge = {"from": known[first].id, "to": f"{known[second].id}.{random.choice('xy')}"}
        changed.setdefault("edges", []).append(edge)
        if random.random() < 0.2:
            for node in changed["nodes"]:
                if node["id"] == known[second].id:
                    node["stream"] = {"early": True}
        found = compile_definition(copy.deepcopy(changed)).ir
        if found is not None:
            definition, ir = changed, found
    return definition, ir


class Streaming(Walk):
    def __init__(self, random: Random, definition: graphs.Definition, ir: IR, *, faults: float = 0.3) -> None:
        definition, ir = add_streams(random, definition, ir)
        super().__init__(random, definition, ir, faults=faults)

    def do(self, command: c.Command) -> c.Ruling | c.Refused:
        result = super().do(command)
        if isinstance(result, c.Ruling):
            found = self.checker.settle()
            assert not found, found
            self._fresh()
        return result

    def _fresh(self) -> None:
        """F6: no checkpoint of a reader is of another edition than there is; what is held for a stream waits for one."""
        for activation in self.state.activations.values():
            at_work = activation.state in (N.QUEUED, N.RUNNING)
            for edge, source in sources(self.state, activation) if at_work else ():
                cursor = (activation.cursors or {}).get(self.state.name(edge.source))
                if cursor is not None and source.flow is not None:
                    assert cursor[0] == source.flow.edition, "a checkpoint outlives its edition (F6)"

    def current(self) -> list[Address]:
        """In healing, readers wait until what they read has ended."""
        found = super().current()
        if not self.healing:
            return found
        return [task for task in found if task.undo or not self._has_unread(task)] or found

    def _has_unread(self, task: Address) -> bool:
        activation = self.state.locate(task)
        return activation is not None and find_unread(self.state, activation) is not None

    def patch(self) -> None:
        try:
            super().patch()
        except graphs.Refused:  # it removed a node whose stream edges stand in `edges`
            self.steps.append("# refused")

    def act(self, task: Address) -> None:
        definition, chance = self.definition_of(task), self.random.random()
        if definition is None or task.undo or definition.stream is None or chance > 0.55:
            super().act(task)
            return
        where: dict[str, Any] = {"at": self.run.now, "address": task, "entropy": 0.5}
        if chance < 0.35:
            self.do(c.OpenStream(**where, ports=("out",)))
        elif chance < 0.4:
            self.do(c.KeepStream(**where, part=Part("out", self.random.randint(1, 9), REF, 1)))
        else:
            activation = self.state.locate(task)
            cursors = {
                self.state.name(edge.source): (0 if source.flow is None else source.flow.edition, 1)
                for edge, source in (sources(self.state, activation) if activation is not None else ())
            }
            current = activation is not None and activation.attempt == task.attempt
            if current:
                self.do(c.Checkpoint(**where, data={"n": 1}, number=self.random.randint(1, 9), cursors=cursors))

    def succeed(self, where: dict[str, Any], definition: Node) -> None:
        task: Address = where["address"]
        is_open = self.state.streams.get(self.state.index(task.node)) == task.attempt and not task.undo
        if task.undo or definition.stream is None or not (is_open or self.random.random() < 0.3):
            super().succeed(where, definition)
            return
        said = self.healing or self.random.random() < 0.9
        ended = (PortEnd("out", 9, 1),) if said else ()
        self.do(c.Complete(**where, output={"n": 1}, ended=ended, parts=(Part("out", 9, REF, 1),) if said else ()))
