"""Stream edges: which edges may carry a stream, and which nodes may have one (rule 71).

Owns every refusal about stream edges. Must not know chunks, nor what a run does with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from perdure.model.problems import Problems
from perdure.model.stream_keys import OUT

if TYPE_CHECKING:
    from perdure.model.definition import Definition, Link
    from perdure.model.graph import Graph
    from perdure.model.loops import Loops
    from perdure.model.references import Use


def check_streams(definition: Definition, graph: Graph, loops: Loops, problems: Problems) -> None:
    """Report the stream edges that cannot be one, and the nodes that cannot have any."""
    readers, links = set[str](), [link for link in definition.links if link.ports is not None]
    for link in links:
        if link.source in graph.index and link.target in graph.index and link.source != link.target:
            readers.add(link.target)
            _check_link(link, definition, graph, loops, problems)
    for id, node in definition.nodes.items():
        written = node.get("stream")
        if written is None:
            continue
        path = (*definition.path(id), "stream")
        for problem in _find_unable(id, node, loops.enclosing[graph.index[id]]):
            problems.error(problem[0], path, problem[1])
        if written.get("early") and id not in readers:
            message = (
                f"'early' of stream of node '{id}' is for a node that reads a stream, and no stream edge leads here"
            )
            problems.error("misplaced_key", (*path, "early"), message)


def _check_link(link: Link, definition: Definition, graph: Graph, loops: Loops, problems: Problems) -> None:
    source, target = link.source, link.target
    ends = graph.index[source], graph.index[target]
    around = [loops.enclosing[end] for end in ends]
    name = f"the stream edge from '{source}' to '{target}'"
    if around[0] != around[1]:
        message = f"{name} enters or leaves a loop; let the loop's outcome carry the values, without ports"
        problems.error("stream_crosses_loop", link.path, message)
    pair = graph.pairs.get(ends)
    if pair is not None and pair.named:
        message = (
            f"{name} is also named by routing, which decides only when '{source}' has ended; remove one of the two"
        )
        problems.error("stream_edge_routed", link.path, message)
    node = definition.nodes[target]
    if "join" in node:
        message = f"{name} leads into a join that is not all; use join: all for a node that reads a stream"
        problems.error("stream_join", link.path, message)
    for id, scope in ((source, around[0]), (target, around[1])):
        unable = _find_unable(id, definition.nodes[id], scope if around[0] == around[1] else ())
        for code, message in unable if "stream" not in definition.nodes[id] else ():  # said once, at its `stream`
            problems.error(code, link.path, message)
    out = link.ports[0] if link.ports is not None else OUT
    if out != OUT and out not in definition.nodes[source].get("stream", {}).get("ports", ()):
        message = (
            f"{name} leaves port '{out[:80]}', which '{source}' does not have; add it: stream: {{ports: [{out[:80]}]}}"
        )
        problems.error("no_such_port", link.path, message)


def _find_unable(id: str, node: dict[str, Any], loops: tuple[int, ...]) -> Iterable[tuple[str, str]]:
    """Why a node can have no stream, each with a code."""
    if node["type"] not in ("task", None):
        yield "no_such_port", f"node '{id}' is of type {node['type']}, which has no ports; only a task has a stream"
    if loops:
        yield "stream_not_built", f"node '{id}' is in a loop; streams inside of loops are not built yet"
    if node.get("isolation") == "process":
        yield (
            "stream_not_built",
            f"node '{id}' has isolation: process; its streams are not built yet, use isolation: thread",
        )
    if node.get("sensitive"):
        yield "stream_not_built", f"node '{id}' has sensitive fields; sealed streams are not built yet"


def check_reads(uses: Iterable[Use], definition: Definition, graph: Graph, problems: Problems) -> None:
    """Report what a reader would have to read before it is there: the output of a node whose stream it reads."""
    streams = {pair for pair, edge in graph.pairs.items() if edge.ports}
    sources = {graph.ids[source] for source, _ in streams}
    early = {graph.index[id] for id, node in definition.nodes.items() if node.get("stream", {}).get("early")}
    known: dict[tuple[int, bool], set[int]] = {}
    for use in uses if streams else ():
        if use.reader is None or use.reference.node is None or use.reference.node not in sources:
            continue
        node, start = graph.index[use.reference.node], (use.reader, use.may_read_self)
        if start not in known:
            problems.budget.spend(len(graph.ids))
            known[start] = _find_ended(start, graph, streams, early)
        if node == use.reader or node in known[start]:
            continue
        problems.budget.spend(len(graph.ids))
        if node in _find_before(use.reader, graph):
            id, reader = use.reference.node, graph.ids[use.reader]
            message = (
                f"node '{reader}' reads the output of '{id}', which may still stream when '{reader}' begins; read the stream, "
                f"or read '{id}' in a node that depends on it without ports"
            )
            problems.error("reads_open_stream", use.path, message)


def _find_before(reader: int, graph: Graph) -> set[int]:
    found, waiting = set[int](), [reader]
    while waiting:
        for parent in graph.parents[waiting.pop()]:
            if parent not in found:
                found.add(parent)
                waiting.append(parent)
    return found


def _find_ended(start: tuple[int, bool], graph: Graph, streams: set[tuple[int, int]], early: set[int]) -> set[int]:
    """The nodes that have ended when the reader begins or, where it says so, when it has ended itself. A consumer ends after
    what it reads, unless it may end early."""
    seen, waiting = {start}, [start]
    while waiting:
        node, ended = waiting.pop()
        for parent in graph.parents[node]:
            over = (parent, (ended and node not in early) if (parent, node) in streams else True)
            if over not in seen:
                seen.add(over)
                waiting.append(over)
    return {node for node, ended in seen if ended}
