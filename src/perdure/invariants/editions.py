"""Streams: F1, F2, F4, F5 and F10, as far as a journal shows them: chunks are in no journal."""

from __future__ import annotations

from perdure.invariants.flow import resolve
from perdure.invariants.model import ENDED, ERROR, RUN_OVER, TAKEN, Act, Model
from perdure.kernel import events as e

_LED = (TAKEN, ERROR)


def sources(model: Model, reader: Act) -> list[Act]:
    """The activations whose streams this one reads."""
    if reader.scope or reader.item is not None:
        return []
    edges = [edge for edge in model.graph_of(reader).incoming.get(reader.node, ()) if edge.streams]
    found = (model.acts.get((edge.source, (), None)) for edge in edges if reader.edges.get(edge.source) in _LED)
    return [act for act in found if act is not None]


def readers(model: Model, source: Act) -> list[Act]:
    edges = [edge for edge in model.graph_of(source).outgoing.get(source.node, ()) if edge.streams]
    found = (model.acts.get((edge.target, (), None)) for edge in edges)
    return [act for act in found if act is not None and act.edges.get(source.node) in _LED]


def _get(model: Model, event: e.NodeEvent) -> Act:
    return model.get(event.node, event.scope, event.item)


def opened(model: Model, event: e.StreamOpened) -> None:
    act = _get(model, event)
    node = model.node_of(act)
    if node is None or node.stream is None or act.scope or act.item is not None:
        model.blame("F1", f"{act.place} opens a stream, and its definition has none")
    if event.edition <= act.edition or event.edition != event.attempt:
        model.blame("F2", f"{act.place} opens edition {event.edition} by attempt {event.attempt}, after {act.edition}")
    if event.edition == act.attempt and act.claimed < act.attempt and act.state == "queued":
        model.ending.add(act.key)  # nobody knew that it had begun: it ends in the same append
    late = event.edition == act.attempt - 1 and act.claimed < act.attempt  # it completes in the same append
    if event.edition != act.attempt and not late:
        model.blame("F2", f"attempt {event.edition} of {act.place} opens a stream; current is {act.attempt}")
    if event.edition <= act.void:
        model.blame("F2", f"attempt {event.edition} of {act.place} opens a stream, and is over")
    if act.stream == "open":
        model.blame("F2", f"{act.place} opens edition {event.edition} while {act.edition} is open")
    act.edition, act.stream = event.edition, "open"
    if model.state in ("running", "paused"):
        graph = model.graph_of(act)
        for edge in graph.outgoing.get(act.node, ()) if graph is model.graph else ():
            target = model.acts.get((edge.target, (), None))
            if edge.streams and (target is None or edge.source not in target.edges):
                resolve(model, graph, edge, act, (), TAKEN)
        act.led = True


def kept(model: Model, event: e.StreamKept) -> None:
    act = _get(model, event)
    if act.stream != "open" or event.edition != act.edition:
        model.blame("F2", f"{act.place} keeps a piece of edition {event.edition}; open is {act.edition} ({act.stream})")


def closed(model: Model, event: e.StreamClosed) -> None:
    act = _get(model, event)
    adopted = not event.attempt and event.reason == "end" and act.state == "completed"
    if not adopted and (act.stream != "open" or event.edition != act.edition):
        model.blame("F2", f"{act.place} closes edition {event.edition}; open is {act.edition} ({act.stream})")
    act.stream = event.reason
    if adopted:
        act.edition = event.edition
    elif event.reason == "end":
        model.ending.add(act.key)
    if event.stops:
        act.void = max(act.void, event.edition)
        for reader in readers(model, act):
            if reader.state not in ENDED:
                reader.void = max(reader.void, reader.attempt)
    elif event.reason == "restart":
        model.blame("F2", f"{act.place} begins its stream anew, and its readers go on")


def scheduled(model: Model, act: Act) -> None:
    """Note what an attempt reads, and that it can be read (rule 62)."""
    act.reads, act.ran = {}, model.generation
    for source in sources(model, act):
        if source.stream != "open" and source.state not in ENDED:
            model.blame(
                "rule 62", f"{act.place} is scheduled, and {source.place} is {source.state} and does not stream"
            )
        act.reads[source.node] = source.edition


def completed(model: Model, act: Act, attempt: int) -> None:
    """F4, F5: an outcome is made of whole editions, and ends its own."""
    if attempt <= act.void:
        model.blame("F2", f"{act.place} completes by attempt {attempt}, whose edition is over")
    if act.stream == "open":
        model.blame("F5", f"{act.place} completes while its stream is open")
    node = model.node_of(act)
    early = node is not None and node.stream is not None and node.stream.early
    for source in sources(model, act) if not early else ():
        if source.state not in ENDED:
            model.blame("F4", f"{act.place} completes while {source.place}, whose stream it reads, is {source.state}")
        if act.reads.get(source.node, source.edition) != source.edition:
            read = act.reads[source.node]
            model.blame("F4", f"{act.place} completes with edition {read} of {source.place}; {source.edition} is whole")


def settled(model: Model) -> None:
    """What an append leaves: no attempt that reads an edition which is no more (F2), no end without its outcome (F5)."""
    for key in model.ending:
        act = model.acts[key]
        if act.state in ("queued", "running"):
            model.blame("F5", f"the stream of {act.place} has ended, and its outcome is not accepted")
    model.ending.clear()
    for act in model.acts.values():
        if act.stream == "open" and model.state in RUN_OVER:
            model.blame("F10", f"the run is {model.state} and the stream of {act.place} is open")
        if act.stream == "open" and (act.attempt != act.edition or act.state not in ("queued", "running")):
            model.blame(
                "F2", f"edition {act.edition} of {act.place} is open; it is {act.state} at attempt {act.attempt}"
            )
        if act.reads and act.state in ("queued", "running"):
            _reads_what_is_there(model, act)


def _reads_what_is_there(model: Model, act: Act) -> None:
    for source in sources(model, act):
        over = source.stream == "restart" and source.state not in ENDED
        if act.reads.get(source.node) != source.edition or over:
            was = act.reads.get(source.node)
            model.blame(
                "F2", f"{act.place} reads edition {was} of {source.place}; it has {source.edition} ({source.stream})"
            )
