"""A history that a person can read: events in words, in the order in which they became durable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from perdure.kernel import events as e
from perdure.kernel.run_ids import place
from perdure.kernel.values import Error

TOLD = {"event", "fault", "dies", "starts", "user", "network", "world", "time", "FAILED"}
LONGEST = 100
_WIDEST = 60


def describe(event: e.AnyEvent) -> str:
    """One line that says what happened."""
    who = place(event.node, event.scope, event.item) if isinstance(event, e.NodeEvent) else ""
    match event:
        case e.RunCreated():
            return f"the run begins with {_short(event.inputs)}"
        case e.RunCompleted():
            return f"the run is completed with {_short(event.outputs)}"
        case e.RunFailing() | e.RunFailed():
            return f"the run is {_word(event)}: {_error(event.error)}"
        case e.RunSignalled():
            return f"signal {event.name} arrives"
        case e.NodeScheduled():
            why = {"crashed": ", its worker died", "handed_back": ", it was handed back"}.get(event.after, "")
            return f"{who} is scheduled, attempt {event.attempt}{why}"
        case e.NodesScheduled():
            return f"{_places(event.places)} scheduled"
        case e.NodesSkipped() | e.NodesHeld() | e.NodesCancelled():
            return f"{_places(event.places)} {_word(event)}"
        case e.NodeCompleted():
            way = event.route.taken if event.route is not None else None
            to = f", goes to {', '.join(way)}" if way else ", goes nowhere" if way is not None else ""
            return f"{who} is completed with {_short(event.output)}{to}"
        case e.NodeFailed() | e.NodeRetrying() | e.NodeParked() | e.ItemFailed() | e.NodeUpstreamFailed():
            return f"{who} is {_word(event)} after attempt {event.attempt}: {_error(event.error)}"
        case e.NodeSkipped():
            return f"{who} is skipped{': ' + event.reason if event.reason else ''}"
        case e.NodeWaiting():
            names = ", ".join(ask.name for ask in event.asks) or event.wait.name
            return f"{who} waits for {event.wait.kind} {names}".rstrip()
        case e.ApprovalRequested():
            return f"{who} asks {', '.join(event.approvers) or 'anyone'} to decide"
        case e.ApprovalVoted():
            return f"{event.by or 'a person'} votes {event.decision} on {who}"
        case e.ApprovalDecided():
            return f"{who} is decided: {event.decision}"
        case e.LoopAdvanced():
            return f"{event.node} goes into iteration {event.iteration}"
        case e.LoopEnded():
            return f"the loop at {event.node} ends: {event.reason}"
        case e.TimerSet():
            return f"a timer is set: {event.timer}"
        case e.TimerFired():
            return f"a timer is due: {event.timer}"
        case e.LimitReached():
            return f"limit {event.limit} of {event.maximum} is reached"
        case e.ChildStarted():
            return f"{who} starts {event.workflow} as {event.child}"
        case e.ChildEnded():
            return f"{event.child} ended: {event.state}"
        case e.ResultIgnored():
            return f"a result of {who} is ignored: {event.reason}"
        case e.TriggerReceived():
            several = f" and {len(event.items) - 1} more" if len(event.items) > 1 else ""
            return f"receives {event.items[0].id}{several}"
        case e.TriggerStarted():
            return f"starts {', '.join(one.run_id for one in event.starts[:5])}"
        case e.TriggerSkipped():
            what = f"items {', '.join(map(str, event.numbers[:5]))}" if event.numbers else f"{event.count} moments"
            return f"skips {what}: {event.reason}"
        case e.TriggerParked():
            return f"parks item {event.number}: {_error(event.error)}"
        case e.TriggerEnded():
            return f"hears of the end of {', '.join(f'{one.run_id}: {one.state}' for one in event.ends[:5])}"
        case e.NodeStarted():
            return f"{who} is started{', to undo it' if event.undo else ''}"
        case _ if who:
            return f"{who} is {_word(event)}"
        case _:
            return f"the run is {_word(event)}" if event.type.startswith("run.") else event.type


def tell(lines: Iterable[tuple[float, str, str]], limit: int = LONGEST) -> list[str]:
    """The lines that matter to a reader who does not know the engine; the middle of a long history is left out."""
    chosen = [f"{_at(at)}  {_mark(kind)} {text}" for at, kind, text in lines if kind in TOLD]
    if len(chosen) > limit:
        left = len(chosen) - limit
        half = limit // 2
        return [*chosen[:half], f"{'':12}  … {left} lines are left out", *chosen[-half:]]
    return chosen


def _mark(kind: str) -> str:
    words = {
        "fault": "! fault",
        "dies": "! dies ",
        "starts": "+ starts",
        "user": "> asks ",
        "network": "! late ",
        "FAILED": "✗",
    }
    return words.get(kind, "·").ljust(8)


def _at(seconds: float) -> str:
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    clock = f"{int(hours):02}:{int(rest // 60):02}:{rest % 60:04.1f}"
    return (f"{int(days)}d {clock}" if days else clock).rjust(16)


def _word(event: e.Event) -> str:
    return str(event.type).split(".")[1].replace("_", " ")


def _places(places: Sequence[Any]) -> str:
    names = [place(one.node, one.scope, one.item) for one in places]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{', '.join(names[:5])}{more} {'is' if len(names) == 1 else 'are'}"


def _error(error: Error) -> str:
    return f"{error.code}{': ' + error.message if error.message else ''}"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
