"""Streams: F1 to F6 and F10, as far as a journal shows them: chunks are in no journal, what they came to may be."""

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
    goes_on = act.stream == "open" and event.edition == act.edition and _restart(model, act) != "anew"
    if goes_on and event.attempt <= act.streamer:
        model.blame("F2", f"attempt {event.attempt} of {act.place} goes on with what attempt {act.streamer} streams")
    if not goes_on and (event.edition <= act.edition or event.edition != event.attempt):
        model.blame("F2", f"{act.place} opens edition {event.edition} by attempt {event.attempt}, after {act.edition}")
    if event.attempt == act.attempt and act.claimed < act.attempt and act.state == "queued":
        model.ending.add(act.key)  # nobody knew that it had begun: it ends in the same append
    late = event.attempt == act.attempt - 1 and act.claimed < act.attempt  # it completes in the same append
    if event.attempt != act.attempt and not late:
        model.blame("F2", f"attempt {event.attempt} of {act.place} opens a stream; current is {act.attempt}")
    if event.attempt <= act.void:
        model.blame("F2", f"attempt {event.attempt} of {act.place} opens a stream, and is over")
    if act.stream == "open" and not goes_on:
        model.blame("F2", f"{act.place} opens edition {event.edition} while {act.edition} is open")
    if not goes_on:
        act.kept, act.chains = {}, {}
    act.edition, act.stream, act.streamer = event.edition, "open", event.attempt
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
    if event.attempt != act.streamer:
        model.blame("F2", f"attempt {event.attempt} of {act.place} keeps a piece of what {act.streamer} streams")
    part, before = event.part, act.kept.get(event.part.port, 0)
    if part.upto <= before or event.after > before:
        model.blame("F3", f"{act.place} keeps {part.port} up to {part.upto} behind {event.after}; it has {before}")
    if event.after >= 0 and _restart(model, act) == "checkpoint":
        model.covered.add(act.key)
    elif _restart(model, act) == "checkpoint":
        model.blame("F6", f"{act.place} shows what no checkpoint of it covers")
    act.kept = {**act.kept, part.port: max(before, part.upto)}
    if event.chain:
        _compare(model, act, part.port, part.upto, event.chain)


def _restart(model: Model, act: Act) -> str:
    node = model.node_of(act)
    return "anew" if node is None or node.stream is None else node.stream.restart


def _compare(model: Model, act: Act, port: str, number: int, chain: int) -> None:
    """F3: chunks of an edition never change, however they came."""
    known = act.chains.get((port, number), chain)
    if known != chain:
        model.blame("F3", f"the first {number} chunks of {port} of {act.place} were {known}, and are {chain}")
    act.chains = {**act.chains, (port, number): chain}


def checkpointed(model: Model, act: Act, event: e.NodeCheckpointed) -> None:
    """F6: what is kept was made of an edition that is there, and of what may be seen of it."""
    model.covered.discard(act.key)
    act.cursors = event.cursors or {}
    by_name = {source.node: source for source in sources(model, act)}
    for name, (edition, number, *chain) in act.cursors.items():
        node, port, *_ = name.split(".")
        source = by_name.get(node)
        if source is None:
            continue
        if edition and edition != source.edition:
            model.blame("F6", f"{act.place} keeps what it made of edition {edition} of {node}; it has {source.edition}")
        if source.stream == "open" and _restart(model, source) == "checkpoint" and number > source.kept.get(port, 0):
            model.blame("F6", f"{act.place} has read {number} of {node}, and {source.kept.get(port, 0)} are covered")
        if chain and chain[0]:
            _compare(model, source, port, number, chain[0])


def closed(model: Model, event: e.StreamClosed) -> None:
    act = _get(model, event)
    adopted = not event.attempt and event.reason == "end" and act.state == "completed"
    if not adopted and (act.stream != "open" or event.edition != act.edition):
        model.blame("F2", f"{act.place} closes edition {event.edition}; open is {act.edition} ({act.stream})")
    act.stream = event.reason
    if adopted:
        act.edition = act.streamer = event.edition
    elif event.reason == "end":
        model.ending.add(act.key)
        _whole(model, act, event)
    if event.stops:
        act.void = max(act.void, event.edition, event.attempt)
        act.cursors = {}
        for reader in readers(model, act):
            if reader.state not in ENDED:
                reader.void = max(reader.void, reader.attempt)
                reader.cursors = {}
                if reader.stream == "open":
                    model.breaking.add(reader.key)
    elif event.reason == "restart":
        model.blame("F2", f"{act.place} begins its stream anew, and its readers go on")


def _whole(model: Model, act: Act, event: e.StreamClosed) -> None:
    """F5: an edition that ends has all that was kept of it, and all that was read of it for what readers have kept."""
    ended = {end.port: end.chunks for end in event.ports}
    stored: dict[str, int] = {}
    for part in event.parts:
        stored[part.port] = max(stored.get(part.port, 0), part.upto)
    for port, number in act.kept.items():
        if ended.get(port, 0) < number:
            model.blame("F5", f"{port} of {act.place} ends after {ended.get(port, 0)} chunks, and {number} were kept")
    for reader in readers(model, act):
        for name, cursor in reader.cursors.items():
            node, port, *_ = name.split(".")
            if node == act.node and cursor[0] == act.edition and ended.get(port, 0) < cursor[1]:
                model.blame(
                    "F3", f"{reader.place} has read {cursor[1]} of {port} of {act.place}; it has {ended.get(port, 0)}"
                )
    if any(stored.get(port, 0) < chunks for port, chunks in ended.items()):
        model.blame("F5", f"{act.place} ends with {ended}, and {stored} are stored")


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
    for key in model.covered:
        model.blame("F6", f"{model.acts[key].place} shows what no checkpoint of it covers")
    model.covered.clear()
    for key in model.breaking:
        act = model.acts[key]
        if act.stream == "open" and act.state not in ENDED:
            model.blame("F2", f"{act.place} goes on with edition {act.edition}, made of one that is over (G16)")
    model.breaking.clear()
    for act in model.acts.values():
        if act.stream == "open" and model.state in RUN_OVER:
            model.blame("F10", f"the run is {model.state} and the stream of {act.place} is open")
        if act.stream == "open" and _has_broken_off(model, act):
            model.blame(
                "F2", f"edition {act.edition} of {act.place} is open; it is {act.state} at attempt {act.attempt}"
            )
        if act.reads and act.state in ("queued", "running"):
            _reads_what_is_there(model, act)


def _has_broken_off(model: Model, act: Act) -> bool:
    if act.state in ("queued", "running"):
        return act.attempt != act.edition and _restart(model, act) == "anew"
    return _restart(model, act) == "anew" or act.state in ENDED or model.state not in ("running", "paused")


def _reads_what_is_there(model: Model, act: Act) -> None:
    for source in sources(model, act):
        over = source.stream == "restart" and source.state not in ENDED
        if act.reads.get(source.node) != source.edition or over:
            was = act.reads.get(source.node)
            model.blame(
                "F2", f"{act.place} reads edition {was} of {source.place}; it has {source.edition} ({source.stream})"
            )
