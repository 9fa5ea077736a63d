"""Control flow: branch, switch, loop, map, first. Each becomes keys on nodes; given functions are called once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, Unpack, cast, overload

from perdure.sdk.builder import Builder, Reads, current, whole_node
from perdure.sdk.errors import BuildError
from perdure.sdk.graph import Body, Node
from perdure.sdk.handles import (
    Condition,
    EitherRoot,
    Handle,
    NamedRoot,
    NodeRoot,
    TextRoot,
    as_condition,
    expression,
    root_of,
)
from perdure.sdk.options import NODE_OPTIONS, NodeOptions, check_names, lift_failure, make_node
from perdure.sdk.workflows import RESULT

T = TypeVar("T")
R = TypeVar("R")
D = TypeVar("D")


# -- branches ----------------------------------------------------------------------------------------------------------


@overload
def branch(on: Any, cases: Mapping[Any, Callable[[], R]], default: Callable[[], D]) -> R | D: ...
@overload
def branch(on: Any, cases: Mapping[Any, Callable[[], R]], default: None = None) -> R | None: ...
def branch(on: Any, cases: Mapping[Any, Callable[[], Any]], default: Callable[[], Any] | None = None) -> Any:
    """Take the path of the first condition that holds once `on` has its value; gives the value of that path.

        perdure.branch(score, {score > 0.8: lambda: publish(text), score > 0.5: lambda: edit(text)}, default=lambda: drop(text))

    Conditions are comparisons of handles, or CEL as text, in which `output` is what the node of `on` gave. Without a
    default and if no condition holds, the value is null.
    """
    builder = current("perdure.branch")
    return _branch(builder, on, [(as_condition(key), arm) for key, arm in cases.items()], default)


@overload
def switch(on: Any, cases: Mapping[Any, Callable[[], R]], default: Callable[[], D]) -> R | D: ...
@overload
def switch(on: Any, cases: Mapping[Any, Callable[[], R]], default: None = None) -> R | None: ...
def switch(on: Any, cases: Mapping[Any, Callable[[], Any]], default: Callable[[], Any] | None = None) -> Any:
    """Take the path whose key equals the value: `perdure.switch(kind, {"refund": lambda: refund(order)},
    default=…)`."""
    builder = current("perdure.switch")
    _check_on(on, "perdure.switch")
    return _branch(builder, on, [(cast("Condition", on == key), arm) for key, arm in cases.items()], default)


def _check_on(on: Any, what: str) -> None:
    if not isinstance(on, Handle):
        raise BuildError(
            f"{what} decides when the run gets there, so it needs what a call gave, or an input; got {type(on).__name__}, "
            "for which an ordinary `if` does"
        )


def _branch(
    builder: Builder, on: Handle, cases: list[tuple[Condition, Callable[[], Any]]], default: Callable[[], Any] | None
) -> Handle:
    _check_on(on, "perdure.branch")
    if not cases:
        raise BuildError("perdure.branch has no cases; give at least one condition")
    if builder.capture is not None:
        raise BuildError("an item of a map is one call and cannot branch; put the branch into a workflow and map that")
    node = _branching_node(builder, on, [condition for condition, _ in cases])
    spec: dict[str, Any] = {"rules": []}
    node.spec["branch"] = spec
    arms = []
    for condition, way in cases:
        arms.append(builder.build_arm(node, way, "a way of a branch"))
        text = builder.condition(condition, Reads(), node)
        spec["rules"].append({"condition": text, "next_nodes": arms[-1].entries})
    if default is not None:
        arms.append(builder.build_arm(node, default, "the default of a branch"))
        spec["default"] = arms[-1].entries
    values = [arm.value for arm in arms if arm.value is not None]
    ends = [end for arm in arms if arm.value is None for end in arm.ends]
    surely = default is not None and len(values) == len(arms)
    return Handle(builder, EitherRoot(values, None if surely else node, ends))


def _branching_node(builder: Builder, on: Handle, conditions: list[Condition]) -> Node:
    """The node that decides: that of `on`, if it can; else a new node after everything that the conditions read."""
    reads = Reads()
    reads.add(on)
    for condition in conditions:
        builder.condition(condition, reads)
    root = root_of(on)
    if isinstance(root, NodeRoot) and reads.nodes.keys() <= {root.node, *root.node.links}:
        node = root.node
        if node.arm is builder.arm and node.body is builder.body and _is_free(node) and "join" not in node.spec:
            return node
    value = builder.render(on, reads)
    return builder.add("decide", {"type": "transform", "config": {"value": value}}, reads)


def _is_free(node: Node) -> bool:
    """Whether a node may get a branch or a loop: it has neither, and always runs."""
    return not any(key in node.spec for key in ("branch", "loop", "when"))


def first(*handles: T, cancel_rest: bool = False) -> T:
    """The value that exists first; with `cancel_rest`, nodes that only led to the others are stopped."""
    builder = current("perdure.first")
    if len(handles) < 2 or not all(isinstance(handle, Handle) for handle in handles):
        raise BuildError("perdure.first takes what two or more calls gave")
    choices = cast("tuple[Handle, ...]", handles)
    if not all(any(True for _ in root_of(choice).reads()) for choice in choices):
        raise BuildError("perdure.first takes what calls gave; an input is there from the start")
    either, reads = Handle(builder, EitherRoot(choices)), Reads()
    spec = {"type": "transform", "config": {"value": builder.render(either, reads)}}
    join = {"at_least": 1, "cancel_rest": True} if cancel_rest else "any"
    return cast("T", builder.handle(builder.add("first", {**spec, "join": join}, reads, lenient=True)))


# -- loops -------------------------------------------------------------------------------------------------------------


class Loop:
    """The argument of a loop's body, for type checkers. `iteration` counts from 1; `previous` is the value of the
    iteration before, null in the first."""

    iteration: int
    previous: Any


class _LoopNames:
    def __init__(self, builder: Builder, body: Body) -> None:
        self._builder = builder
        self._body = body

    def path(self, name: str) -> str:
        path, body = name, self._builder.body
        while body is not None and body is not self._body:
            path, body = f"{path}.parent", body.parent
        if body is None:
            raise BuildError("the iteration of a loop is known only inside its body; return what is needed from it")
        return path


def loop(
    body: Callable[[Loop], R] | Callable[[], R],
    *,
    while_: Callable[[R], Any] | str,
    max_iterations: int | None = None,
    delay: float = 0,
    on_exhausted: Literal["fail", "stop"] = "fail",
) -> R:
    """Repeat the body as long as the condition holds; gives the value of the last iteration.

        perdure.loop(lambda loop: improve(text, loop.previous), while_=lambda draft: draft.score < 0.9, max_iterations=5)

    The body is a function of the loop (`loop.previous`, `loop.iteration`) or of nothing. `while_` is a function of the
    body's value, or CEL in which that value is `output`. When the condition still holds after `max_iterations`, the run
    fails, or continues with the last value if `on_exhausted="stop"`. Without `max_iterations` the workflow must be
    `endless`.
    """
    builder = current("perdure.loop")
    if builder.capture is not None:
        raise BuildError("an item of a map is one call and cannot loop; put the loop into a workflow and map that")
    if on_exhausted not in ("fail", "stop"):
        raise BuildError(f"on_exhausted of perdure.loop is 'fail' or 'stop', got {on_exhausted!r}")
    inside = Body(builder.body)
    builder.body = inside
    try:
        handle = Handle(builder, NamedRoot("loop", _LoopNames(builder, inside)))
        given: tuple[Any, ...] = (handle,) if _accepts_argument(body) else ()
        value = body(*given)
        if not inside.nodes:
            raise BuildError("the body of perdure.loop makes no node; call a task in it")
        looping = _close(builder, inside, value)
        result = builder.handle(looping)
        reads = Reads()
        again = while_ if isinstance(while_, str) else while_(cast("R", result))
        condition = builder.condition(as_condition(again), reads, looping)
        for node in reads.nodes:
            if node is not looping:
                looping.link(node)
    finally:
        builder.body = inside.parent
    spec: dict[str, Any] = {"condition": condition}
    if max_iterations is not None:
        spec["max_iterations"] = max_iterations
    head = _make_head(builder, inside)
    if head is not looping:
        spec["loop_back_to"] = head.id
    if on_exhausted == "stop":
        spec["timeout_path"] = []
    if delay:
        spec["delay_ms"] = round(delay * 1000)
    looping.spec["loop"] = spec
    return cast("R", result)


def _accepts_argument(function: Callable[..., Any]) -> bool:
    try:
        return bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True


def _close(builder: Builder, body: Body, value: Any) -> Node:
    """The node that loops: the one whose output is the body's value, if it ends the body; else a new node."""
    followed = {source for node in body.nodes for source in node.links}
    node = whole_node(value)
    ends = node is not None and node in body.nodes and node not in followed
    if node is None or not ends or node.arm is not builder.arm or node.body is not body or not _is_free(node):
        node = builder.transform("again", value)
    for other in body.nodes:  # everything in the body is part of the iteration
        if other is not node and other not in followed and other not in node.links:
            node.link(other)
    return node


def _make_head(builder: Builder, body: Body) -> Node:
    """The node with which an iteration begins. Several first nodes get a new one before them."""
    inside = set(body.nodes)
    entries = [node for node in body.nodes if not any(source in inside for source in node.links)]
    if len(entries) == 1:
        return entries[0]
    before, builder.body = builder.body, body
    try:
        head = builder.add("iteration", {"type": "transform", "config": {"value": "{{ loop.iteration }}"}}, Reads())
    finally:
        builder.body = before
    for entry in entries:
        entry.link(head)
    return head


# -- maps --------------------------------------------------------------------------------------------------------------


class _ItemNames:
    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def path(self, name: str) -> str:
        if self._builder.item is not self:
            raise BuildError("the item of a map is known only inside that map")
        return name


def map_each(
    function: Callable[[T], R],
    over: Iterable[T],
    *,
    max_concurrency: int | None = None,
    tolerated_failures: int | None = None,
    **options: Unpack[NodeOptions],
) -> list[R]:
    """Call a task (or a workflow) once for each item of a list; gives the list of results, in order.

    `perdure.map(fetch, cities, max_concurrency=10)`, or `perdure.map(lambda city: fetch(city, unit="C"), cities)`. With
    `tolerated_failures`, so many items may fail; `{"error": {"code": …, "message": …}}` stands in their place.
    """
    builder = current("perdure.map")
    check_names(options, NODE_OPTIONS, "perdure.map")
    scope, before = _ItemNames(builder), builder.item
    reads = Reads()
    config: dict[str, Any] = {"over": builder.render(_listed(over), reads, place="over of perdure.map")}
    builder.item = scope
    try:
        item = cast("T", Handle(builder, NamedRoot("item", scope)))
        hint = "several steps belong into a workflow: perdure.map(that_workflow, over)"
        captured = builder.describe_one(lambda: function(item), "what perdure.map calls for an item", hint)
    finally:
        builder.item = before
    for node, firm in captured.reads.nodes.items():
        reads.nodes[node] = firm or reads.nodes.get(node, False)
    on_failure = lift_failure(captured)
    inner, name = captured.spec, "each"
    is_child = inner["type"] == "workflow" and not inner.keys() - {"type", "config"}
    if is_child:
        config.update(inner["config"])
    else:
        config["node"] = inner
    if max_concurrency is not None:
        config["max_concurrency"] = max_concurrency
    if tolerated_failures is not None:
        config["tolerated_failures"] = tolerated_failures
    merged: dict[str, Any] = {"on_failure": on_failure, **options}
    if inner["type"] == "task":
        name = inner["config"]["function"].rpartition(":")[2].rpartition(".")[2].partition("#")[0]
    elif inner["type"] == "workflow":
        name = inner["config"]["workflow"]
    handle = make_node(
        builder, f"{name}_each" if name != "each" else name, {"type": "map", "config": config}, merged, reads
    )
    child = builder.children.get(inner["config"]["workflow"]) if inner["type"] == "workflow" else None
    if child is not None and child.build().single and builder.capture is None:
        text = f'{expression(handle)} | unwrap("{RESULT}")'  # a tolerated failure has an error in its place
        return cast("list[R]", Handle(builder, TextRoot(text, (handle,))))
    return cast("list[R]", handle)


def _listed(over: Any) -> Any:
    if isinstance(over, Handle | list | tuple):
        return over
    if isinstance(over, str | bytes | Mapping) or not isinstance(over, Iterable):
        raise BuildError(f"perdure.map goes over a list, or a handle of one, got {type(over).__name__}")
    return list(over)
