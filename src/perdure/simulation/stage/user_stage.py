"""A user's world as its people and handlers see it: the workflows, what was called so far, and how lenient it is.

It must not know who plays in it: `user_world.py` puts the people, the handlers and the history together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.model.ir import IR, Node
from perdure.simulation.plan import Plan
from perdure.simulation.stage import stubs as s
from perdure.simulation.world import World


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What all histories share: workflows as compiled, and their stubs."""

    workflows: tuple[IR, ...]
    """The compiled workflows, first the one that is started."""
    inputs: Any
    stubs: Mapping[str, Any] = {}
    signals: Sequence[s.Signal] = ()
    real: bool | frozenset[str] = False
    lenient: bool = False


class UserStage(World):
    generated = False

    def __init__(self, setting: Setting, plan: Plan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        self.setting = setting
        self.lenient = setting.lenient
        self.main = setting.workflows[0]
        self.limited = any(_has_limit(node) for ir in setting.workflows for node in ir.nodes if node is not None)
        self.calls: list[s.Call] = []
        self.blamed: list[AssertionError] = []
        self.calling = 0
        """How many functions of the test have been called and have not returned."""
        self.slept_until = 0.0
        """The time of the loop until which a stub is known to be busy."""

    def workflow_of(self, run_id: str) -> str:
        record = self.store.runs.get(run_id)
        return self.main.name if record is None else record.row.workflow

    def node_of(self, run_id: str, name: str) -> Node:
        for node in self.library[self.store.runs[run_id].row.ir].nodes:
            if node is not None and node.id == name:
                return node
        raise AssertionError(f"run {run_id} has no node {name}")


def _has_limit(node: Node) -> bool:
    return bool(node.concurrency or node.rate) or (node.item is not None and _has_limit(node.item))
