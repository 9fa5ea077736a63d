"""What templates and conditions can read, and how a path through it is followed.

Everything here is plain data (dict, list, str, numbers, bool, None) or a `BlobRef`; a lookup is an item lookup, so no
path reaches a Python attribute. It must not know templates or CEL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from perdure.budget import Budget
from perdure.expressions.at_hand import NOTHING, AtHand, pick
from perdure.kernel.causal_past import Evidence, LoopView, Seen
from perdure.kernel.segments import BlobRef
from perdure.kernel.state import State

Parts = tuple[str | int, ...]

_TYPE_NAMES = {
    type(None): "null",
    bool: "a bool",
    int: "a number",
    float: "a number",
    str: "text",
    dict: "an object",
    list: "a list",
}


class Run(msgspec.Struct, frozen=True):
    """The facts that are the same for every template and condition of a run."""

    id: str
    workflow: str
    inputs: Any = None
    version: int = 1
    tenant: str = "default"
    tags: dict[str, str] = {}

    def facts(self) -> dict[str, Any]:
        """The value of `run` in templates and conditions. It stays the same over the attempts of a node (rule 13)."""
        return {
            "id": self.id,
            "workflow": self.workflow,
            "version": self.version,
            "tenant": self.tenant,
            "tags": self.tags,
        }

    @classmethod
    def of(cls, state: State) -> Run:
        return cls(state.run_id, state.workflow, state.inputs, state.workflow_version, state.tenant, state.tags)


class Missing:
    """Something that does not exist: where the path ended, and why."""

    __slots__ = ("part", "path", "why")

    def __init__(self, path: str, part: str, why: str) -> None:
        self.path = path
        self.part = part
        self.why = why

    def explain(self) -> str:
        return f"{self.path!r} is missing: {self.why}; give a default, as in {{{{ {self.path} | default('') }}}}"


def describe_path(root: str, parts: Parts) -> str:
    text = root
    for part in parts:
        if type(part) is str:
            text += f".{part}" if part.isidentifier() else f'["{part}"]'
        else:
            text += f"[{part}]"
    return text


def outcome(seen: Seen) -> Any:
    """A node's output as other nodes read it: null if it was skipped, `{error: …}` if it failed (rule 27)."""
    if seen.output_ref is not None:
        return BlobRef(seen.output_ref)
    if seen.output is None and seen.error is not None:
        return seen.error.as_output()
    return seen.output


def view_loop(loop: LoopView | None) -> dict[str, Any] | None:
    """The value of `loop` as data, beginning with the innermost one."""
    if loop is None:
        return None
    previous = None if loop.previous is None else outcome(loop.previous)
    return {"iteration": loop.iteration, "previous": previous, "parent": view_loop(loop.parent)}


def get_item(value: Any, part: Any, root: str, parts: Parts, at_hand: AtHand = NOTHING) -> Any:
    """The result of one step; `parts` is the way up to and including `part`, for the message. It gives Missing rather
    than raising, except for a blob that is not at hand."""
    kind = type(value)
    if kind is BlobRef:
        value = pick(value.ref, describe_path(root, parts[:-1]), at_hand)
        kind = type(value)
    if kind is dict:
        if type(part) is str:
            if part in value:
                return value[part]
        elif type(part) is int and str(part) in value:
            return value[str(part)]
    elif kind is list:
        if type(part) is int and -len(value) <= part < len(value):
            return value[part]
    elif kind is Missing:
        return value
    before = describe_path(root, parts[:-1])
    if kind is dict:
        why = f"{before!r} has no {part!r}"
    elif kind is list:
        why = f"{before!r} is a list of {len(value)}, without {part!r}"
    else:
        why = f"{before!r} is {describe_type(value)}, so it has no {part!r}"
    return Missing(describe_path(root, parts), str(part), why)


def follow(value: Any, root: str, parts: Parts, at: int = 0, at_hand: AtHand = NOTHING) -> Any:
    """What `parts` leads to, beginning with `parts[at]` at `value`; `Missing` if it leads nowhere."""
    for index in range(at, len(parts)):
        part = parts[index]
        if type(value) is dict and part in value:
            value = value[part]
        else:
            value = get_item(value, part, root, parts[: index + 1], at_hand)
            if type(value) is Missing:
                return Missing(describe_path(root, parts), value.part, value.why)
    return value


def describe_type(value: Any) -> str:
    return _TYPE_NAMES.get(type(value)) or f"of the type {type(value).__name__}"


class Namespace:
    """The roots a template can name. `extra` holds those that exist only in some places: item, output, config, error.

    `nodes` is asked only for nodes that a template names. `known` are all node ids of the workflow, needed to tell the
    node `a-b` from `a` minus `b`; by default those of `nodes`. `at_hand` holds the blobs that were fetched. Everything
    rendered with one namespace spends from one budget: there is one namespace for a node's config, whatever is in it.
    """

    __slots__ = ("at_hand", "budget", "extra", "known", "loop", "nodes", "run", "sizes", "whole")

    def __init__(
        self,
        run: Run,
        nodes: Mapping[str, Seen] | None = None,
        *,
        loop: LoopView | None = None,
        extra: Mapping[str, Any] | None = None,
        known: Collection[str] | None = None,
        at_hand: AtHand = NOTHING,
    ) -> None:
        self.run = run
        self.at_hand = at_hand
        self.budget = Budget()
        self.sizes: dict[int, tuple[Any, int]] = {}
        """Sizes of values put in whole, by identity. Each value is kept, so that no other gets its identity."""
        self.whole = False
        """Whether values are read with every blob inside them, for expressions that look into all of a value."""
        self.nodes: Mapping[str, Seen] = {} if nodes is None else nodes
        self.loop = loop
        self.extra: Mapping[str, Any] = {} if extra is None else extra
        self.known: Collection[str] = self.nodes if known is None else known

    @classmethod
    def of(
        cls,
        run: Run,
        evidence: Evidence,
        *,
        extra: Mapping[str, Any] | None = None,
        known: Collection[str] | None = None,
        at_hand: AtHand = NOTHING,
    ) -> Namespace:
        """The namespace for what the kernel gathered for one activation."""
        return cls(run, evidence.nodes, loop=evidence.loop, extra=extra, known=known, at_hand=at_hand)

    def read(self, root: str, parts: Parts) -> Any:
        """The value at a path, or `Missing`."""
        at = 0
        if root in self.extra:
            value = self.extra[root]
        elif root == "inputs":
            value = self.run.inputs
        elif root == "run":
            value = self.run.facts()
        elif root == "loop":
            value = view_loop(self.loop)
            if value is None:
                return Missing(describe_path(root, parts), root, "this node is in no loop")
        else:
            seen = self.nodes.get(root)
            if seen is None:
                known = root in self.known
                why = f"node {root!r} has not ended" if known else f"there is no {root!r} here"
                return Missing(describe_path(root, parts), root, why)
            value = outcome(seen)
            if parts and parts[0] == "output":
                at = 1
            if value is None and len(parts) > at and seen.state == "skipped":
                return Missing(describe_path(root, parts), str(parts[at]), f"node {root!r} was skipped")
        return follow(value, root, parts, at, self.at_hand)
