"""What one condition can see: outputs, inputs, the loop, the run; and what of it the journal may say.

It owns the way from the kernel's question to plain data, blobs included, and the record of what was read. Values under
the `sensitive` paths of a node are never in the record. It must not know the kinds of conditions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from perdure.budget import Budget
from perdure.errors import PerdureError
from perdure.expressions.at_hand import AtHand, resolve
from perdure.expressions.compiled_texts import kept
from perdure.expressions.errors import ContentLost
from perdure.expressions.namespace import Missing, Parts, Run, describe_path, follow, outcome, view_loop
from perdure.expressions.rendered_config import BlobRef
from perdure.kernel.causal_past import Seen
from perdure.kernel.commands import Question
from perdure.kernel.segments import has_sealed
from perdure.model.ir import IR, Node, Reference
from perdure.model.references import BadExpression, find_in_expression

MAX_SEEN = 20
MAX_SEEN_VALUE = 200
MASK = "***"

_SCHEME = "cas://"
_CURRENT, _ANY = "", "*"
_KEPT = 1_000_000
"""Characters of sensitive paths."""

Sensitive = Mapping[str, tuple[tuple[str, ...], ...]]
"""By node: the paths below its output whose values stay out of the record."""

NOT_SENSITIVE: Sensitive = {}


class Undecided(Exception):
    """A condition cannot be evaluated. That is never the same as false (rule 20)."""

    def __init__(self, message: str, code: str = "condition_error") -> None:
        super().__init__(message)
        self.code = code


# -- what is read ------------------------------------------------------------------------------------------------------


class Place:
    """One thing a condition reads: where it is among the variables, and which node's output it belongs to."""

    __slots__ = ("owner", "parts", "path", "root", "text")

    def __init__(self, reference: Reference) -> None:
        self.path = reference.path
        self.owner: str | None = None
        if reference.node is None:
            self.root, self.parts = reference.root, reference.path
            if self.root == "output":
                self.owner = _CURRENT
            elif self.root == "loop":
                self.owner = _ANY
                self.path = tuple(part for part in self.path if part not in ("parent", "previous"))
        else:
            is_output = reference.root == "node"
            self.root = "ctx"
            self.parts = (reference.node, "output" if is_output else "metadata", *reference.path)
            self.owner = reference.node if is_output else None
        self.text = describe_path(self.root, self.parts)


class Plan:
    """What a condition reads, worked out once."""

    __slots__ = ("nodes", "outputs", "paths", "places", "roots")

    def __init__(self, references: tuple[Reference, ...]) -> None:
        self.roots = frozenset(reference.root for reference in references)
        self.nodes = tuple(dict.fromkeys(reference.node for reference in references if reference.node is not None))
        self.outputs = frozenset(reference.node for reference in references if reference.root == "node")
        self.places = [Place(reference) for reference in references]
        self.paths: dict[str | None, list[Parts]] = {}
        """The paths that are read below each output; None is the current one."""
        for reference in references:
            if reference.root in ("node", "output"):
                self.paths.setdefault(reference.node, []).append(reference.path)


@kept(characters=1_000_000)
def plan_expression(expression: str) -> Plan:
    try:
        references, _ = find_in_expression(expression, ())
    except BadExpression as error:
        raise Undecided(str(error)) from None
    return Plan(tuple(dict.fromkeys(references)))


class Sight:
    """One question's view of its run."""

    __slots__ = (
        "_evidence",
        "_node",
        "_open",
        "_opened",
        "_question",
        "_run",
        "_sensitive",
        "at_hand",
        "budget",
        "room",
    )

    def __init__(
        self,
        question: Question,
        run: Run,
        at_hand: AtHand,
        sensitive: Sensitive,
        open_sealed: Callable[[Any], Any] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.budget = budget or Budget()
        self._question = question
        self._evidence = question.evidence
        self._node = question.need.node
        self._run = run
        self.at_hand = at_hand
        self._sensitive = sensitive
        self._open = open_sealed
        self._opened: set[str] = set()
        """Paths of values that came here with sealed fields from another node: nothing of them is recorded."""
        self.room = MAX_SEEN
        """How many values may still be recorded."""

    @property
    def has_output(self) -> bool:
        """Whether there is an output to read; before a node runs there is none (rule 21)."""
        return self._question.need.kind != "when"

    def output(self) -> Any:
        if not self.has_output:
            raise Undecided("a node has no output before it runs")
        evidence = self._evidence
        return self.load(evidence.output if evidence.output_ref is None else BlobRef(evidence.output_ref), "output")

    def variables(self, plan: Plan) -> dict[str, Any]:
        """Only the variables that are read, because converting a value for CEL costs more than evaluating."""
        variables: dict[str, Any] = {}
        if "inputs" in plan.roots:
            variables["inputs"] = self.load(self._run.inputs, "inputs")
        if "run" in plan.roots:
            variables["run"] = self._run.facts()
        if "loop" in plan.roots and self._evidence.loop is not None:
            variables["loop"] = self._load_loop(view_loop(self._evidence.loop), "loop")
        if "output" in plan.roots and self.has_output:
            variables["output"] = self.output()
            variables["current"] = {"output": variables["output"]}
        nodes = self._evidence.nodes
        variables["ctx"] = {
            name: self._view(name, nodes[name], name in plan.outputs) for name in plan.nodes if name in nodes
        }
        return variables

    def past(self) -> dict[str, Any]:
        """Every node that has ended, with its output, except those that were skipped.

        No times: a node that ends in this very decision has another time when it is decided again, and then what is
        asked for would never be what was fetched.
        """
        return {
            name: {"state": seen.state, "output": self.load(outcome(seen), f"ctx.{name}.output")}
            for name, seen in self._evidence.nodes.items()
            if seen.state != "skipped"
        }

    def _view(self, name: str, seen: Seen, with_output: bool) -> dict[str, Any]:
        view: dict[str, Any] = {"state": seen.state}
        if with_output:
            view["output"] = self.load(outcome(seen), f"ctx.{name}.output")
        metadata: dict[str, Any] = {"started_at": seen.started_at, "ended_at": seen.ended_at}
        if seen.started_at is not None and seen.ended_at is not None:
            metadata["duration_ms"] = (seen.ended_at - seen.started_at) * 1000.0
        view["metadata"] = metadata
        return view

    def load(self, value: Any, path: str) -> Any:
        """The value itself, fetched where it, or a part of it, is stored as a blob."""
        try:
            value = resolve(value, path, self.at_hand)
            if self._open is None or not has_sealed(value):
                return value
            self._opened.add(path)
            return self._open(value)
        except ContentLost as error:
            raise Undecided(error.problem, error.code) from None
        except PerdureError as error:
            if error.code not in ("cannot_open", "unknown_key"):
                raise
            raise Undecided(error.message, error.code) from None

    def fetch(self, address: str, what: str) -> Any:
        """Content that a definition keeps as a blob: a schema, code."""
        return self.load(BlobRef(address if address.startswith(_SCHEME) else f"{_SCHEME}{address}"), what)

    def ask(self, key: str) -> Any:
        """What is at hand under a key, `Lost` included; None if nothing is."""
        return self.at_hand.get(key)

    def _load_loop(self, loop: dict[str, Any] | None, path: str) -> dict[str, Any] | None:
        if loop is not None:
            loop["previous"] = self.load(loop["previous"], f"{path}.previous")
            self._load_loop(loop["parent"], f"{path}.parent")
        return loop

    # -- the record ----------------------------------------------------------------------------------------------------

    def look(self, plan: Plan, variables: dict[str, Any]) -> dict[str, Any]:
        """The paths the condition names, with what was found there; paths that lead nowhere are left out."""
        seen: dict[str, Any] = {}
        for place in plan.places:
            value = follow(variables.get(place.root), place.root, place.parts)
            if type(value) is not Missing:
                self.record(seen, place.text, value, place.owner, place.path)
        return seen

    def record(self, seen: dict[str, Any], text: str, value: Any, owner: str | None, path: Parts) -> None:
        """Add one value to the record; `owner` is the node whose output it is part of, "" for this one."""
        if self.room <= 0:
            return
        self.room -= 1
        seen[text] = MASK if self._is_sensitive(owner, path) or self._was_opened(text, owner) else shorten(value)

    def _was_opened(self, text: str, owner: str | None) -> bool:
        """Whether a value was opened and must be masked as a whole: a node that passes a sealed value on does not
        declare its paths. A node that declares what is sensitive is masked by its paths instead."""
        if not self._opened or (owner is not None and (owner or self._node) in self._sensitive):
            return False
        if owner == _CURRENT:
            return "output" in self._opened
        return any(text.startswith(path) for path in self._opened)

    def _is_sensitive(self, owner: str | None, path: Parts) -> bool:
        if owner is None or not self._sensitive:
            return False
        if owner == _ANY:
            return any(_touches(path, paths) for paths in self._sensitive.values())
        return _touches(path, self._sensitive.get(owner or self._node, ()))

    def explain_skips(self) -> str:
        skipped = [name for name, seen in self._evidence.nodes.items() if seen.state == "skipped"]
        return f" (skipped, so the output is null: {', '.join(skipped[:5])})" if skipped else ""


def _touches(path: Parts, sensitive: tuple[tuple[str, ...], ...]) -> bool:
    """Whether the path leads to a sensitive value, into it, or to one that holds it. List indexes do not count."""
    names = tuple(part for part in path if type(part) is str)
    return any(all(a == b for a, b in zip(names, secret, strict=False)) for secret in sensitive)


# -- sensitive paths ---------------------------------------------------------------------------------------------------

_by_hash: dict[str, tuple[Sensitive, int]] = {}
"""With how many characters the paths have, the names of their nodes included, and 100 for the workflow."""


def sensitive_paths(ir: IR) -> Sensitive:
    """The paths in the `sensitive` of every node, worked out once per workflow."""
    known = _by_hash.get(ir.hash)
    if known is None:
        found = {
            node.id: tuple(_names(path) for path in paths)
            for node in ir.nodes
            if node is not None and (paths := _sensitive_of(node))
        }
        size = 100 + sum(len(name) + sum(len(part) for path in paths for part in path) for name, paths in found.items())
        if size + sum(one for _, one in _by_hash.values()) > _KEPT:
            _by_hash.clear()
        known = _by_hash[ir.hash] = (found, size)
    return known[0]


def _sensitive_of(node: Node) -> tuple[str, ...]:
    return node.sensitive if node.item is None else (*node.sensitive, *_sensitive_of(node.item))


def _names(path: str) -> tuple[str, ...]:
    """The names in a path: `items[0].card.number` → items, card, number."""
    return tuple(name for name in re.split(r"[.\[\]]+", path.removeprefix("$")) if name and not _is_place(name))


def _is_place(name: str) -> bool:
    return name == "*" or name.isdigit()


# -- short forms -------------------------------------------------------------------------------------------------------


def shorten(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is float:
        return value
    if kind is str:
        return cut(value)
    if kind is list and len(value) > MAX_SEEN_VALUE:
        return f"a list of {len(value)}"
    try:
        return cut(msgspec.json.encode(value).decode())
    except (RecursionError, TypeError, ValueError, OverflowError):
        return "…"


def cut(text: str) -> str:
    return text if len(text) <= MAX_SEEN_VALUE else f"{text[:MAX_SEEN_VALUE]}…"
