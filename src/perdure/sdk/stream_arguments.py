"""Streams in a workflow function: what is given for a parameter annotated `perdure.Stream` becomes an edge with ports.

It owns which handles may stand there. Which edges may carry a stream is for the compiler.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

from perdure.chunks import Stream
from perdure.sdk.builder import Builder, Reads, current, whole_node
from perdure.sdk.errors import BuildError
from perdure.sdk.graph import Flow, Node
from perdure.sdk.handles import Handle, builder_of, describe, parts_of, root_of

OUT = "out"
T = TypeVar("T")


class _Source(NamedTuple):
    node: Node
    port: str


class StreamRoot:
    """Ports of nodes that yield. Nothing can be read of them but the stream."""

    __slots__ = ("sources",)

    def __init__(self, sources: list[_Source]) -> None:
        self.sources = sources

    def template(self, parts: tuple[str | int, ...]) -> NoReturn:
        raise BuildError(
            f"{self.name()} is a stream, which only a parameter annotated perdure.Stream takes; the output of a node collects "
            "what it yields to out"
        )

    def cel(self, parts: tuple[str | int, ...], own: Node | None) -> NoReturn:
        self.template(parts)

    def reads(self) -> Iterable[tuple[Node, bool]]:
        return ((source.node, True) for source in self.sources)

    def name(self) -> str:
        names = [f"perdure.port({source.node.id}, {source.port!r})" for source in self.sources]
        return names[0] if len(names) == 1 else f"perdure.merge({', '.join(names)})"


def port(made: Any, name: str) -> Stream[Any]:
    """What a call yields to another port than `out` (`yield perdure.On("rejected", row)`), for a parameter that reads a
    stream: `count(perdure.port(parsed, "rejected"))`."""
    builder = current("perdure.port")
    node = whole_node(made)
    if node is None or not node.yields:
        raise BuildError(f"perdure.port takes what a call of a function that yields gave, got {_say(made)}")
    if name != OUT:
        stream = node.spec.get("stream", {})
        node.spec["stream"] = {**stream, "ports": list(dict.fromkeys([*stream.get("ports", ()), name]))}
    return typing.cast("Stream[Any]", Handle(builder, StreamRoot([_Source(node, name)])))


def merge(*streams: Stream[T]) -> Stream[T]:
    """Several streams as one, for a parameter that reads one: in order of each, ended when all have: `count(perdure.merge(a, b))`."""
    builder = current("perdure.merge")
    sources = [source for one in streams for source in _sources(builder, one, "what perdure.merge takes")]
    if not sources:
        raise BuildError("perdure.merge takes what calls of functions that yield gave")
    return typing.cast("Stream[T]", Handle(builder, StreamRoot(sources)))


def is_stream(annotation: Any) -> bool:
    return annotation is Stream or typing.get_origin(annotation) is Stream


def split_arguments(
    builder: Builder, task: str, hints: Mapping[str, Any], arguments: dict[str, Any], reads: Reads
) -> dict[str, Any]:
    """The arguments that are no streams; the others become edges."""
    names = [name for name in arguments if is_stream(hints.get(name))]
    if names and builder.capture is not None:
        raise BuildError(f"{task} reads a stream, so it cannot be the item of a map or a compensator; make it a node")
    for name in names:
        for source in _sources(builder, arguments[name], f"argument {name!r} of {task}"):
            reads.streams.append((source.node, Flow(source.port, name)))
    return {name: value for name, value in arguments.items() if name not in names} if names else arguments


def _sources(builder: Builder, value: Any, what: str) -> list[_Source]:
    if isinstance(value, Handle):
        if builder_of(value) is not builder:
            raise BuildError(f"{describe(value)} belongs to another workflow; use handles where they were made")
        root, node = root_of(value), whole_node(value)
        if isinstance(root, StreamRoot) and not parts_of(value):
            return root.sources
        if node is not None and node.yields:
            return [_Source(node, OUT)]
    raise BuildError(
        f"{what} is a stream: give what a call of a function that yields gave, or several such in perdure.merge(…); "
        f"got {_say(value)}"
    )


def _say(value: Any) -> str:
    return describe(value) if isinstance(value, Handle) else type(value).__name__
