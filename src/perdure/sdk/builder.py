"""The builder of a graph: gives nodes their ids, and knows what each needs.

It owns the translation of what a workflow function does into `nodes` and `dependencies`. Three rules make the graph
mean what the Python says:

- A node that needs a value which may have been skipped is skipped with it: that dependency is `required`.
- A node made in an arm of a branch runs only if the arm was chosen: the branch names it, and if something from outside the
  arm leads to it as well, the edge from the branch is `required`.
- The value of a branch is the value of the arm that ran: templates with defaults, whose dependencies are not required.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

from perdure.plain import convert
from perdure.sdk.errors import BuildError
from perdure.sdk.graph import Arm, Body, Flow, Node
from perdure.sdk.handles import (
    MARK,
    UNUSABLE_IDS,
    Condition,
    Handle,
    NodeRoot,
    builder_of,
    check_undamaged,
    describe,
    expression,
    parts_of,
    root_of,
)

_current: ContextVar[Builder | None] = ContextVar("perdure_builder", default=None)

_BRACES = re.compile(r"\{[{%#]")
_BRACES_BEFORE = re.compile(r"\{[{%#]|\{\Z")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]+")


class BuiltArm:
    """A finished arm: the nodes that the choice leads to, the arm's value (None: no value), and its last nodes."""

    __slots__ = ("ends", "entries", "value")

    def __init__(self, entries: list[Node], value: Handle | None, ends: list[Node]) -> None:
        self.entries = [entry.id for entry in entries]
        self.value = value
        self.ends = ends


class Reads:
    """The nodes that a part of a node reads, each with whether it must have given a value; and the streams that it reads."""

    __slots__ = ("nodes", "streams")

    def __init__(self) -> None:
        self.nodes: dict[Node, bool] = {}
        self.streams: list[tuple[Node, Flow]] = []

    def add(self, handle: Handle) -> None:
        for node, firm in root_of(handle).reads():
            self.nodes[node] = firm or self.nodes.get(node, False)

    def add_node(self, node: Node) -> None:
        self.nodes[node] = True


class Captured:
    """A described node that is not part of the graph: the item of a map, a compensator."""

    __slots__ = ("reads", "spec")

    def __init__(self, spec: dict[str, Any], reads: Reads) -> None:
        self.spec = spec
        self.reads = reads


class Builder:
    def __init__(self, workflow: str) -> None:
        self.workflow = workflow
        self.nodes: list[Node] = []
        self.children: dict[str, Any] = {}
        """Workflows that `workflow` nodes start, by name."""
        self.arm: Arm | None = None
        self.body: Body | None = None
        self.capture: list[Captured] | None = None
        """Collects described nodes that do not become part of the graph; None: they do."""
        self.item: object = None
        """The innermost map item or compensator under way."""
        self._ids: dict[str, int] = {}
        self._marks: list[Handle] = []

    @contextmanager
    def building(self) -> Iterator[None]:
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def add(
        self, name: str, spec: dict[str, Any], reads: Reads, *, id: str | None = None, lenient: bool = False
    ) -> Node:
        """Add a node. A `lenient` one may run before everything it reads has ended, so none of that is required."""
        if self.capture is not None:
            raise BuildError(
                "the item of a map, and a compensator, is one call of a task; put more into a workflow, and use that"
            )
        node = Node(self._choose_id(name, id), spec, self.arm, self.body)
        for source, firm in reads.nodes.items():
            certain = not firm or lenient or self._is_certain(source)
            node.link(source, required=not certain)
            node.may_skip = node.may_skip or not certain
        for source, flow in reads.streams:
            if source in reads.nodes:
                raise BuildError(
                    f"{node.id} reads the stream of {source.id} while it yields, and so cannot wait for its end or read its "
                    "output; do that in a node of its own"
                )
            certain = self._is_certain(source)
            node.link(source, required=not certain, flow=flow)
            node.may_skip = node.may_skip or not certain
        node.may_skip = node.may_skip or "when" in spec
        self.nodes.append(node)
        if self.arm is not None:
            self.arm.nodes.append(node)
        body = self.body
        while body is not None:
            body.nodes.append(node)
            body = body.parent
        return node

    def handle(self, node: Node, *parts: str | int) -> Handle:
        return Handle(self, NodeRoot(node), parts)

    def transform(self, name: str, value: Any) -> Node:
        """Add a node that gives a value made of others."""
        reads = Reads()
        return self.add(name, {"type": "transform", "config": {"value": self.render(value, reads)}}, reads)

    def _is_certain(self, source: Node) -> bool:
        """Whether `source` has always run when a node made at this place runs."""
        if source.may_skip:
            return False
        return (
            source.arm is None or source.arm is self.arm or (self.arm is not None and _is_around(source.arm, self.arm))
        )

    def _choose_id(self, name: str, id: str | None) -> str:
        if id is not None:
            if id in self._ids:
                raise BuildError(
                    f"id {id!r} is taken by another node of {self.workflow}; choose one that is not used yet"
                )
            self._ids[id] = 1
            return id
        base = _NOT_IN_IDS.sub("_", name).strip("-")[:100] or "node"
        if base.lower() in UNUSABLE_IDS or base[0].isdigit():
            base = f"task_{base}"
        count = self._ids.get(base, 0) + 1
        while (chosen := base if count == 1 else f"{base}_{count}") in self._ids and count > 1:
            count += 1
        self._ids[base] = count
        if count > 1:
            self._ids[chosen] = 1
        return chosen

    # -- arms ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def in_arm(self, arm: Arm) -> Iterator[None]:
        before = self.arm
        self.arm = arm
        try:
            yield
        finally:
            self.arm = before

    def build_arm(self, of: Node, make: Callable[[], Any], what: str) -> BuiltArm:
        arm = Arm(of, self.arm)
        with self.in_arm(arm):
            value = call_without_arguments(make, what)
            if value is not None and not (isinstance(value, Handle) and self._belongs_to(value, arm)):
                value = self.handle(self.transform(of.id + "_value", value))
        followed = {source for node in arm.nodes for source in node.links}
        return BuiltArm(self._bind(arm), value, [node for node in arm.nodes if node not in followed])

    def _belongs_to(self, handle: Handle, arm: Arm) -> bool:
        """Whether a handle reads nodes, and only nodes of the arm: then it has a value only if the arm was chosen."""
        nodes = [node for node, _ in root_of(handle).reads()]
        return bool(nodes) and all(arm.contains(node) for node in nodes)

    def _bind(self, arm: Arm) -> list[Node]:
        """Make the nodes that nothing else would keep from running when the arm is not chosen depend on the choice
        itself, and give them."""
        entries = []
        for node in arm.nodes:
            _drop_known(node, arm.of)
            others = [source for source in node.links if source is not arm.of]
            outside = [source for source in others if not arm.contains(source)]
            if outside or not others:
                node.link(arm.of, named=True, required=bool(others))
                entries.append(node)
        return entries

    # -- descriptions that become no nodes -------------------------------------------------------------------------------

    def describe_one(self, make: Callable[[], Any], what: str, hint: str) -> Captured:
        """The one node that `make` describes; it does not become part of the graph."""
        before, self.capture = self.capture, []
        try:
            value = make()
            captured = self.capture
        finally:
            self.capture = before
        node = whole_node(value)
        if len(captured) != 1 or node is None or node.spec is not captured[0].spec:
            raise BuildError(f"{what} must make one call and return what it gives, got {len(captured)} calls; {hint}")
        return captured[0]

    def add_captured(self, name: str, spec: dict[str, Any], reads: Reads) -> Handle:
        assert self.capture is not None
        self.capture.append(Captured(spec, reads))
        return self.handle(Node(name, spec, self.arm, self.body))

    # -- values --------------------------------------------------------------------------------------------------------

    def mark(self, handle: Handle, *, whole: bool = False) -> str:
        """Text that stands for a handle inside an f-string."""
        self._marks.append(handle)
        return f"⟪pErdure{'=' * whole} {len(self._marks) - 1} {describe(handle).replace('⟫', '')}⟫"

    def marked(self, mark: str) -> Handle:
        found = MARK.fullmatch(mark)
        if found is not None and int(found[2]) < len(self._marks):
            handle = self._marks[int(found[2])]
            if mark.endswith(f" {describe(handle).replace('⟫', '')}⟫"):
                return handle
        raise BuildError(
            f"a text holds a handle of another workflow than {self.workflow}; use handles where they were made"
        )

    def render(self, value: Any, reads: Reads, *, lenient: bool = False, place: str = "a value") -> Any:
        """The value as a definition holds it: handles become templates, text stays text. `place` is for messages."""
        kind = type(value)
        if kind is str:
            return self._render_text(value, reads, lenient)
        if kind is Handle:
            return f"{{{{ {self._read(value, reads, lenient)} }}}}"
        if value is None or kind is bool or kind is int:
            return value
        if kind is float:
            if not math.isfinite(value):
                raise BuildError(f"{place} is {value}, which JSON has no number for")
            return value
        if kind is dict:
            return {
                self._key(key, place): self.render(item, reads, lenient=lenient, place=f"{place}[{key!r}]")
                for key, item in value.items()
            }
        if kind is list or kind is tuple:
            return [self.render(item, reads, lenient=lenient, place=f"{place}[{at}]") for at, item in enumerate(value)]
        return self._render_object(value, reads, lenient, place)

    def _read(self, handle: Handle, reads: Reads, lenient: bool) -> str:
        if builder_of(handle) is not self:
            raise BuildError(
                f"{describe(handle)} belongs to another workflow than {self.workflow}; use handles where they were made"
            )
        reads.add(handle)
        text = expression(handle)
        if lenient and isinstance(root_of(handle), NodeRoot):
            text += " | default(none)"
        return text

    def _render_text(self, text: str, reads: Reads, lenient: bool) -> str:
        if "{" not in text and "⟫" not in text and "⟪" not in text and "<perdure" not in text:
            return text
        found = MARK.fullmatch(text)
        if found is not None:
            inner = self._read(self.marked(text), reads, lenient)
            # An f-string is text even when it is nothing but a handle.
            return f"{{{{ {inner} }}}}" if found[1] else f"{{{{ {_piped(inner)} | string }}}}"
        pieces: list[str] = []
        position = 0
        for mark in MARK.finditer(text):
            pieces.append(_escape(text[position : mark.start()], before_mark=True))
            pieces.append(f"{{{{ {self._read(self.marked(mark[0]), reads, lenient)} }}}}")
            position = mark.end()
        pieces.append(_escape(text[position:]))
        return "".join(pieces)

    def _key(self, key: Any, place: str) -> str:
        if isinstance(key, Handle) or (isinstance(key, str) and MARK.search(key)):
            raise BuildError(
                f"a key of {place} is a handle; keys are fixed when the workflow is built, make it a value"
            )
        if not isinstance(key, str):
            raise BuildError(f"a key of {place} is of type {type(key).__name__}; keys are strings")
        return key

    def _render_object(self, value: Any, reads: Reads, lenient: bool, place: str) -> Any:
        """Data classes, structs, dates, … as JSON holds them, with handles inside."""
        if isinstance(value, Condition):
            raise BuildError(f"{place} is a condition; conditions go into when=, perdure.branch and perdure.loop")
        try:
            plain = msgspec.to_builtins(value, enc_hook=self._encode, str_keys=True)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise BuildError(
                f"{place} is of type {type(value).__qualname__}, which JSON cannot hold ({error})"
            ) from error
        return self.render(plain, reads, lenient=lenient, place=place)

    def _encode(self, value: Any) -> Any:
        if isinstance(value, Handle):
            return self.mark(value, whole=True)
        return convert(value)

    def condition(self, condition: Condition, reads: Reads, own: Node | None = None) -> str:
        for handle in condition.handles():
            if builder_of(handle) is not self:
                raise BuildError(f"a condition reads {describe(handle)}, which belongs to another workflow")
            reads.add(handle)
        return condition.text(own)

    def definition(self) -> list[dict[str, Any]]:
        return [node.definition() for node in self.nodes]

    def edges(self) -> list[dict[str, Any]]:
        """The edges that carry streams."""
        return [edge for node in self.nodes for edge in node.edges()]


def whole_node(value: Any) -> Node | None:
    """The node whose whole output the value is, if there is one."""
    if isinstance(value, Handle) and not parts_of(value) and isinstance(root := root_of(value), NodeRoot):
        return root.node
    return None


def _drop_known(node: Node, of: Node) -> None:
    """Drop edges from nodes that the choosing node itself waited for: they have ended when the choice is made."""
    if "join" in of.spec or "join" in node.spec:
        return
    for source in [source for source, link in node.links.items() if source in of.links and not link.flows]:
        if of.links[source].required or not node.links[source].required:
            del node.links[source]


def _is_around(outer: Arm, arm: Arm) -> bool:
    inner: Arm | None = arm
    while inner is not None and inner is not outer:
        inner = inner.parent
    return inner is outer


def _escape(text: str, *, before_mark: bool = False) -> str:
    """The text with its braces escaped, so that a template leaves them as they are."""
    check_undamaged(text)
    return (_BRACES_BEFORE if before_mark else _BRACES).sub(lambda found: f'{{{{ "{found[0]}" }}}}', text)


def _piped(inner: str) -> str:
    return f"({inner})" if " if " in inner else inner


def call_without_arguments(make: Callable[[], Any], what: str) -> Any:
    if isinstance(make, Handle) or not callable(make):
        raise BuildError(f"{what} is of type {type(make).__name__}; give a function without arguments: lambda: task(…)")
    return make()


def find_current() -> Builder | None:
    return _current.get()


def current(what: str) -> Builder:
    """The builder of the workflow under construction here; BuildError without one."""
    found = _current.get()
    if found is None:
        raise BuildError(
            f"{what} makes a part of a workflow; call it inside a function decorated with @perdure.workflow"
        )
    return found
