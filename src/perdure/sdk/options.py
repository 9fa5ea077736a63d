"""The options of a node in Python, and how the definition spells them. Checks names; the compiler checks values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypedDict

import msgspec

from perdure.sdk.builder import Builder, Captured, Reads
from perdure.sdk.errors import BuildError
from perdure.sdk.graph import Node
from perdure.sdk.handles import Handle, NamedRoot, as_condition
from perdure.spelling import suggest


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often and when a failed attempt is tried again; fields left out have the defaults of a definition."""

    max_attempts: int | None = None
    backoff_ms: int | None = None
    multiplier: float | None = None
    max_backoff_ms: int | None = None
    jitter: bool | None = None
    retry_on: Sequence[str] | None = None
    give_up_on: Sequence[str] | None = None

    def definition(self) -> dict[str, Any]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class Rate(msgspec.Struct, frozen=True):
    """A limit on how many attempts with the same key may begin in a time:
    `rate=perdure.Rate(10, per_seconds=60, key="vendor")`."""

    limit: int
    per_seconds: float
    key: Any = None
    """Text, perhaps with handles, shared by all nodes, runs and workflows. None: a key of the node's own."""

    def definition(self) -> dict[str, Any]:
        return {"limit": self.limit, "per_seconds": self.per_seconds, **({} if self.key is None else {"key": self.key})}


class Concurrency(msgspec.Struct, frozen=True):
    """A limit on how many attempts with the same key workers may have at once:
    `concurrency=perdure.Concurrency(3, key="vendor")`."""

    limit: int
    key: Any = None
    """Text, perhaps with handles, shared by all nodes, runs and workflows. None: a key of the node's own."""

    def definition(self) -> dict[str, Any]:
        return {"limit": self.limit, **({} if self.key is None else {"key": self.key})}


class TaskOptions(TypedDict, total=False):
    """Options of `@perdure.task(…)`, which hold wherever the task is called."""

    retry: Retry | Mapping[str, Any] | int
    timeout: float
    queue_timeout: float
    total_timeout: float
    heartbeat_timeout: float
    queue: str
    priority: int
    effect: Literal["pure", "idempotent", "at_most_once"]
    on_failure: Literal["fail", "park", "continue"] | Callable[[Any], Any]
    sensitive: Sequence[str]
    isolation: Literal["thread", "process"]
    max_crashes: int
    concurrency: Concurrency | Mapping[str, Any] | int
    rate: Rate | Mapping[str, Any]
    compensator: Callable[[Any], Any] | Mapping[str, Any]
    output_schema: Mapping[str, Any] | bool | None
    stream: Mapping[str, Any]


class NodeOptions(TaskOptions, total=False):
    """Options of one call, `task.options(…)(…)`, and of everything else that makes a node."""

    id: str
    when: Any
    after: Any
    join: Literal["all", "any"] | Mapping[str, Any]


TASK_OPTIONS = frozenset(TaskOptions.__annotations__)
NODE_OPTIONS = frozenset(NodeOptions.__annotations__)
_SPELLED = {
    "timeout": "timeout_seconds",
    "queue_timeout": "queue_timeout_seconds",
    "total_timeout": "total_timeout_seconds",
    "heartbeat_timeout": "heartbeat_timeout_seconds",
}
_PLAIN = (
    *("retry", "timeout", "queue_timeout", "total_timeout", "heartbeat_timeout", "queue", "priority", "effect"),
    *("sensitive", "isolation", "max_crashes", "concurrency", "rate", "output_schema", "stream"),
)


def check_names(options: Collection[str], known: Collection[str], what: str) -> None:
    for name in options:
        if name not in known:
            only_calls = f"it belongs to one call: task.options({name}=…)(…)" if name in NODE_OPTIONS else ""
            hint = only_calls or suggest(name, sorted(known))
            raise BuildError(f"{what} has no option {name!r}; {hint}")


def make_node(
    builder: Builder, name: str, spec: dict[str, Any], options: Mapping[str, Any], reads: Reads, *, undo: bool = True
) -> Handle:
    """A node of the graph, or the item of a map or a compensator if one is being described."""
    keys = _plain_keys(builder, options, reads)
    on_failure = options.get("on_failure")
    if builder.capture is not None:
        if "compensator" in options and undo:
            keys["compensator"] = _compensator(builder, options["compensator"], reads)
        for word in ("id", "when", "after", "join"):
            if options.get(word) is not None:
                raise BuildError(f"{word}= has no meaning for the item of a map or a compensator; put it on the map")
        if on_failure is not None:
            keys["on_failure"] = on_failure
        return builder.add_captured(name, {**spec, **keys}, reads)
    before = _graph_keys(builder, options, reads)
    if "compensator" in options:
        keys["compensator"] = _compensator(builder, options["compensator"], reads)
    node = builder.add(name, {**spec, **before, **keys}, reads, id=options.get("id"), lenient=is_lenient(options))
    return _with_failure_path(builder, node, on_failure)


def is_lenient(options: Mapping[str, Any]) -> bool:
    """Whether the node may run before everything it reads has ended."""
    return options.get("join") not in (None, "all")


def _plain_keys(builder: Builder, options: Mapping[str, Any], reads: Reads) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for name in _PLAIN:
        value = options.get(name)
        if value is None:
            continue
        if isinstance(value, Retry | Rate | Concurrency):
            value = value.definition()
        if name == "concurrency" and isinstance(value, int):
            value = {"limit": value}
        if name in ("concurrency", "rate"):
            if not isinstance(value, Mapping):
                raise BuildError(
                    f"the option {name} takes perdure.{name.title()}(…) or a mapping, got {type(value).__name__}"
                )
            value = builder.render(dict(value), reads, place=f"the option {name}")
        elif isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, Mapping):
            value = {key: list(item) if isinstance(item, tuple) else item for key, item in value.items()}
        keys[_SPELLED.get(name, name)] = value
    return keys


def _graph_keys(builder: Builder, options: Mapping[str, Any], reads: Reads) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    if options.get("when") is not None:
        keys["when"] = builder.condition(as_condition(options["when"]), reads)
    after = options.get("after")
    for handle in after if isinstance(after, list | tuple) else () if after is None else (after,):
        if not isinstance(handle, Handle):
            raise BuildError(f"after= takes what a call gave, or a list of such, got {type(handle).__name__}")
        reads.add(handle)
    if options.get("join") is not None:
        keys["join"] = options["join"]
    return keys


class Undo:
    """The inside of one compensator, where `output`, `config` and `error` have a meaning."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def path(self, name: str) -> str:
        if self._builder.item is not self:
            raise BuildError(f"{name} of a compensator is known only inside it")
        return name


def _compensator(builder: Builder, value: Any, reads: Reads) -> Any:
    if not callable(value):
        return value
    scope, before = Undo(builder), builder.item
    builder.item = scope
    try:
        output = Handle(builder, NamedRoot("output", scope))
        captured = builder.describe_one(
            lambda: value(output), "a compensator", "more steps belong into one task, or into a workflow of their own"
        )
    finally:
        builder.item = before
    for node, firm in captured.reads.nodes.items():
        reads.nodes[node] = firm or reads.nodes.get(node, False)
    known = ("type", "config", "timeout_seconds", "retry")
    return {key: captured.spec[key] for key in known if key in captured.spec}


def _with_failure_path(builder: Builder, node: Node, on_failure: Any) -> Handle:
    handle = builder.handle(node)
    if on_failure is None:
        return handle
    if not callable(on_failure):
        node.spec["on_failure"] = on_failure
        return handle
    from perdure.sdk.handles import EitherRoot

    error = builder.handle(node, "error")
    arm = builder.build_arm(node, lambda: on_failure(error), "on_failure")
    node.spec["on_failure"] = {"path": arm.entries}
    # The failed node's own value is its error, so the value of the path is tried first.
    choices = (handle,) if arm.value is None else (arm.value, handle)
    return Handle(builder, EitherRoot(choices, ends=arm.ends if arm.value is None else ()))


def lift_failure(captured: Captured) -> Any:
    """Take `on_failure` from an item, for its map to have."""
    return captured.spec.pop("on_failure", None)
