"""The walk with streams between nodes: producers that open, keep, break off and end; readers that come and go with them."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.state import Activation
from perdure.kernel.streams.flows import find_open
from perdure.kernel.streams.stream_readers import find_unread, sources
from perdure.kernel.values import Error, Part, PortEnd
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
        restart = random.choice(("anew", "anew", "repeat", "checkpoint"))
        for node in changed["nodes"]:
            if node["id"] == known[second].id and random.random() < 0.2:
                node["stream"] = {**node.get("stream", {}), "early": True}
            if node["id"] == known[first].id:
                node["stream"] = {**node.get("stream", {}), "restart": restart}
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
                cursor = (activation.cursors or {}).get(f"{self.state.name(edge.source)}.out")
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
        elif chance < 0.41:
            self.do(c.TellStreams(**where))
        elif chance < 0.43:
            self.do(c.Fail(**where, error=Error("stream_diverged", "another chunk")))
        else:
            activation = self.state.locate(task)
            if activation is not None and activation.attempt == task.attempt:
                number = activation.checkpoints + self.random.randint(0, 2)
                covers: dict[str, Any] = {
                    "cursors": self._cursors(activation),
                    "kept": self._covered(activation, task.attempt),
                }
                self.do(c.Checkpoint(**where, data={"n": 1}, number=number, **covers))

    def _cursors(self, activation: Activation) -> dict[str, tuple[int, ...]]:
        """What a worker may have read: of a source that goes on from its checkpoints, what they cover."""
        found: dict[str, tuple[int, ...]] = {}
        for edge, source in sources(self.state, activation):
            flow, spec = source.flow, self.state.pinned(source).stream
            most = max((part.upto for part in flow.parts), default=0) if flow is not None else 0
            if spec is not None and spec.restart == "checkpoint" and flow is not None and flow.state == "open":
                number = self.random.randint(0, most)
            else:
                number = 1
            found[f"{self.state.name(edge.source)}.out"] = (0 if flow is None else flow.edition, number)
        return found

    def _covered(self, activation: Activation, attempt: int) -> tuple[tuple[int, Part], ...]:
        flow, spec = find_open(self.state, activation, attempt), self.state.pinned(activation).stream
        if flow is None or spec is None or spec.restart != "checkpoint":
            return ()
        before = [part.upto for part in flow.parts]
        last = before[-1] if before else 0
        if last >= 8:
            return ()
        after = self.random.choice([0, *before])  # it may be put together with pieces before it
        return ((after, Part("out", self.random.randint(last + 1, 8), REF, 1)),)

    def succeed(self, where: dict[str, Any], definition: Node) -> None:
        task: Address = where["address"]
        is_open = self.state.streams.get(self.state.index(task.node)) == task.attempt and not task.undo
        if task.undo or definition.stream is None or not (is_open or self.random.random() < 0.3):
            super().succeed(where, definition)
            return
        said = self.healing or self.random.random() < 0.9
        short = 1 if not self.healing and self.random.random() < 0.1 else 9
        ended = (PortEnd("out", short, 1),) if said else ()
        self.do(c.Complete(**where, output={"n": 1}, ended=ended, parts=(Part("out", short, REF, 1),) if said else ()))
