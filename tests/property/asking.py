"""A walk whose handlers ask for approvals, children, times, signals and patches, and whose world answers, late and more than once."""

from __future__ import annotations

import copy
from typing import Any

from perdure.kernel import commands as c
from perdure.kernel.compensation import child_to_undo
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.state import Activation
from perdure.kernel.values import Ask, Asked, steps_of
from perdure.model.ir import Node
from tests.property import graphs
from tests.property.walk import Walk

N, R = NodeState, RunState

NAMES = ("p", "q", "r", "s", "t", "u", "v", "w")


class Asking(Walk):
    def succeed(self, where: dict[str, Any], definition: Node) -> None:
        task = where["address"]
        activation = self.state.locate(task)
        if not task.undo and self.random.random() < 0.15:
            about: dict[str, Any] = {
                "step": self.random.choice(("x", "m", "n")),
                "wish": self.random.choice(("w1", "w2")),
            }
            self.do(c.BeginStep(**where, **about, not_done=self.random.random() < 0.2))
            if not self.healing:
                return
        plain = definition.type not in ("human", "wait", "map", "workflow")
        if activation is None or not plain or self.random.random() > (0.2 if self.healing else 0.5):
            super().succeed(where, definition)
            return
        asks = self.asks(activation)
        if not asks:
            super().succeed(where, definition)
            return
        if task.undo or definition.effect == "at_most_once":
            if self.healing:  # it would fail, again and again
                super().succeed(where, definition)
                return
        self.do(c.AskFor(**where, asks=asks))

    def asks(self, activation: Activation) -> tuple[Ask, ...]:
        """What a handler asks for that has some answers already, as a function asks: by name."""
        random = self.random
        free = [name for name in NAMES if name not in steps_of(activation.checkpoint)]
        return tuple(self.ask(name) for name in random.sample(free, min(len(free), random.randint(1, 3))))

    def ask(self, name: str) -> Ask:
        random = self.random
        match random.randrange(5):
            case 4:
                operations = [random.choice(("add", "around"))]
                return Ask(name=name, kind="patch", content=str(operations), operations=operations)
            case 0:
                outcome: Any = random.choice(("reject", "approve", "fail", "escalate"))
                seconds = random.choice((None, 5.0))
                approvers = random.choice(((), ("ann", "bob")))
                return Ask(name=name, kind="approval", approvers=approvers, on_timeout=outcome, seconds=seconds)
            case 1:
                return Ask(name=name, kind="child", workflow="child", inputs={})
            case 2:
                return Ask(name=name, kind="sleep", seconds=random.choice((0.0, 3.0)))
            case _:
                return Ask(
                    name=name, kind="signal", signal=random.choice(("go", "stop")), seconds=random.choice((None, 4.0))
                )

    def time(self) -> None:
        open_patches = [a for a in self.state.activations.values() for ask in a.asks.values() if _is_patch(ask)]
        if open_patches and self.random.random() < 0.7:
            self.apply(self.random.choice(sorted(open_patches, key=lambda a: (a.node, a.scope, a.item))))
        else:
            super().time()

    def apply(self, activation: Activation) -> None:
        """Answer a patch, with what was asked for, with more than may be, or with a refusal; sometimes too late, or twice."""
        random, state = self.random, self.state
        ask = next(ask for ask in activation.asks.values() if _is_patch(ask))
        asker, changed = state.name(activation.node), copy.deepcopy(self.definition)
        name = f"own{len(changed['nodes'])}"
        changed["nodes"].append({"id": name, "type": "task", "config": {"function": "m:f"}, "dependencies": [asker]})
        if ask.operations == ["around"]:
            target = random.choice(changed["nodes"][:-1])
            target.setdefault("dependencies", []).append(name)
        for node in changed["nodes"]:
            if node["id"] == asker and "available_next_nodes" in (node.get("branch") or {}):
                node["branch"]["available_next_nodes"] = [*node["branch"]["available_next_nodes"], name]
        ir = graphs.try_compile(changed) if random.random() < 0.9 else None
        about: dict[str, Any] = {"at": self.run.now, "address": state.address(activation), "ask": ask.name}
        about |= {"content": ask.content, "base": state.ir_hashes[-1]}
        before = len(state.irs)
        if random.random() < 0.1:
            self.do(c.ApplyPatch(**{**about, "base": "other"}, ir=ir))
        self.do(c.ApplyPatch(**about, ir=ir))
        if len(state.irs) > before:
            self.definition = changed

    def _heal_one(self) -> bool:
        state, now = self.state, self.run.now
        if state.state is R.COMPENSATING and state.plan:
            activation = state.activations[state.plan[-1]]
            child = child_to_undo(state, activation)
            undo = activation.undo
            if child in (activation.ask_children or {}) and undo is not None and undo.state in ("queued", "running"):
                generation = (activation.ask_children or {})[child].generation + 1
                self.do(c.EndChild(at=now, child=child, generation=generation, state="rolled_back"))
                return True
        waiting = [a for a in state.activations.values() if a.state is N.WAITING and a.asks]
        for activation in sorted(waiting, key=lambda a: (a.node, a.scope, a.item)):
            for ask in list(activation.asks.values()):
                if self._heal_ask(activation, ask.name):
                    return True
        return super()._heal_one()

    def _heal_ask(self, activation: Activation, name: str) -> bool:
        state, now, ask = self.state, self.run.now, activation.asks[name]
        child = (activation.ask_children or {}).get(ask.child)
        if child is not None and child.open:
            ended: Any = "completed" if state.state is R.RUNNING else "cancelled"
            self.do(c.EndChild(at=now, child=ask.child, generation=child.generation + 1, state=ended, output={}))
            return True
        if not ask.open or state.state is not R.RUNNING:
            return False
        if ask.kind == "patch":
            self.apply(activation)
            return True
        if ask.signal:
            self.do(c.Signal(at=now, name=ask.signal, payload={}))
            return True
        if ask.approval:
            approval = state.approvals[ask.approval]
            voters = [v for v in (approval.approvers or ("ann", "bob", "eve")) if v not in approval.votes]
            self.do(c.Vote(at=now, approval=ask.approval, decision="approve", by=voters[0]))
            return True
        return False


def _is_patch(ask: Asked) -> bool:
    return ask.open and ask.kind == "patch"
