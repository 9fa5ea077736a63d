"""Events as lines, one for each event worth telling, for logs and pipes."""

from __future__ import annotations

from typing import Any

from perdure.cli.frame.exits import say
from perdure.cli.terminal.output import count, duration, hour, moment, paint, say_zone, shorten
from perdure.kernel import events as e
from perdure.kernel.run_ids import place
from perdure.kernel.state import State
from perdure.kernel.values import Error
from perdure.model.ir import Node
from perdure.model.money import MILLIONTHS
from perdure.nodes.registry import Registry
from perdure.runtime.failures import show_place
from perdure.sdk.asks import approve_command

Line = tuple[str, str, str]
"""The subject, its state, and the details."""
_HALF_A_DAY = 43_200
_NAMED = 5
_RUN = "run"
_HANDLED = {
    "fatal": "",
    "kept": "",
    "absorbed": "left to the join after it",
    "continue": "the run goes on",
    "path": "its failure path is taken",
}


class Lines:
    """A screen that only grows."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._width, self._words = 12, len("completed")
        self._started: dict[tuple[str, tuple[int, ...], int | None], float] = {}
        self._items: dict[tuple[str, tuple[int, ...]], int] = {}

    def begin(self, state: State) -> None:
        say_zone()
        if state.seq:
            self._measure(state)

    def show(self, state: State, event: e.Event) -> None:
        if isinstance(event, e.RunCreated | e.RunPatched):
            self._measure(state)
        found = self._describe(state, event)
        if found is not None:
            subject, word, more = found
            subject = subject.ljust(self._width)
            padding = " " * max(self._words - len(word), 0)
            say(f"{hour(event.at)}  {subject}  {paint(word)}{padding + '  ' + more if more else ''}")

    def end(self) -> None:
        pass

    def _measure(self, state: State) -> None:
        """Measure the column of names, with room for iterations and item numbers, so that columns stay in place."""
        longest = max(
            (
                len(node.id) + (2 + len(node.loops)) * bool(node.loops) + len("#999") * (node.type == "map")
                for node in state.ir.nodes
                if node is not None
            ),
            default=4,
        )
        self._width = min(max(longest, 4), 40)
        if any(node is not None and _undone(node) for node in state.ir.nodes):
            self._words = len("compensating")

    def _describe(self, state: State, event: Any) -> Line | None:
        """The line of an event, or None where it would say nothing new."""
        if not isinstance(event, e.NodeEvent):
            return self._describe_run(state, event)
        who = place(event.node, event.scope, event.item)
        if isinstance(event, e.NodeScheduled | e.NodeStarted):
            return self._describe_start(state, event, who)
        return _describe_wait(event, who) or self._describe_node(state, event, who)

    def _describe_run(self, state: State, event: Any) -> Line | None:
        """An event of the run, or of several nodes."""
        match event:
            case e.RunCreated():
                return _RUN, "created", f"{event.workflow} version {event.workflow_version}, {event.run_id}"
            case e.RunFailing():
                return _RUN, "failing", f"because {event.node} failed" if event.node else error_text(event.error)
            case e.RunFailed():
                return _RUN, "failed", f"after {duration(event.at - state.created_at)}"
            case e.RunCancelling():
                return _RUN, "cancelling", event.reason
            case e.RunCompensating():
                return _RUN, "compensating", _some([p.node for p in event.plan])
            case e.RunRetried():
                return _RUN, "retried", f"generation {event.generation}"
            case e.RunSignalled():
                return _RUN, "signalled", event.name
            case e.RunCompleted():
                passed = duration(event.at - state.created_at)
                return _RUN, "completed", f"in {passed}" if event.continued_as is None else f"as {event.continued_as}"
            case e.RunPaused() | e.RunResumed() | e.RunCancelled() | e.RunRolledBack() | e.RunPatched():
                by = getattr(event, "by", "")
                return _RUN, event.type.split(".")[1], f"by {by}" if by else ""
            case e.NodesScheduled():
                nodes = [place(p.node, p.scope) for p in event.places if p.item is None and self._works(state, p.node)]
                return _many(nodes, "queued") if nodes else None
            case e.NodesSkipped() | e.NodesHeld() | e.NodesCancelled():
                return _many([place(p.node, p.scope, p.item) for p in event.places], event.type.split(".")[1])
            case e.LoopAdvanced():
                return event.node, "looping", f"iteration {event.iteration}"
            case e.LimitReached():
                most = (
                    f"${event.maximum / MILLIONTHS:g}" if event.of == "usd" else f"{event.maximum} {event.of}".strip()
                )
                return event.node or _RUN, "stopped", f"{event.limit} is {most}"
            case _:
                return None

    def _describe_start(self, state: State, event: e.NodeScheduled | e.NodeStarted, who: str) -> Line | None:
        self._started[event.node, event.scope, event.item] = event.at
        if event.item is not None or not self._works(state, event.node):
            return None
        if isinstance(event, e.NodeScheduled):
            why = {"crashed": "its worker died", "handed_back": "it was handed back"}.get(event.after, "")
            return who, "queued", _sentence(_attempts(_tries(state, event)), why)
        undo = "compensation, " if event.undo else ""
        tries = event.attempt if event.undo else _tries(state, event)
        return who, "running", f"{undo}attempt {tries}" if undo or tries > 1 else ""

    def _describe_node(self, state: State, event: e.NodeEvent, who: str) -> Line | None:
        """What became of a node."""
        match event:
            case e.ItemCompleted() | e.ItemFailed():
                return self._item(state, event, who)
            case e.NodeCompleted():
                tries = _attempts(_tries(state, event))
                return who, "completed", _sentence(self._passed(state, event), tries, _way(event))
            case e.NodeFailed():
                return who, "failed", _sentence(_HANDLED[event.outcome], error_text(event.error))
            case e.NodeRetrying():
                after = f"attempt {_tries(state, event)} failed, next in {duration(event.retry_at - event.at)}"
                return who, "retrying", f"{after}: {error_text(event.error)}"
            case e.NodeSkipped():
                return who, "skipped", event.reason
            case e.NodeParked():
                return who, "parked", error_text(event.error)
            case e.NodeHeld():
                return who, "held", event.detail or event.reason
            case e.NodeUpstreamFailed() | e.NodeRequeued() | e.NodeDiscarded() | e.NodeCancelled():
                return who, event.type.split(".")[1], getattr(event, "reason", "")
            case e.NodeCompensating() | e.NodeCompensated():
                return who, event.type.split(".")[1], ""
            case _:
                return None

    def _item(self, state: State, event: e.ItemCompleted | e.ItemFailed, who: str) -> Line | None:
        """The line of an item of a map: every failure has one, completions about ten in a map."""
        if isinstance(event, e.ItemFailed):
            return who, "failed", error_text(event.error)
        owner = state.find(event.node, event.scope)
        if owner is None or owner.wait is None or not owner.wait.count:
            return None
        done, count = owner.items_completed + owner.items_failed, owner.wait.count
        tenth = done * 10 // count
        if tenth == self._items.get((event.node, event.scope)):
            return None
        self._items[event.node, event.scope] = tenth
        return place(event.node, event.scope), "items", f"{done} of {count}"

    def _works(self, state: State, node: str) -> bool:
        """Whether a worker executes the node; what the coordinator answers at once needs only a line at its end."""
        known = self._registry.find(state.node(state.index(node)).type)
        return known is None or known.answer is None

    def _passed(self, state: State, event: e.NodeCompleted) -> str:
        begun = event.started_at or self._started.get((event.node, event.scope, event.item))
        return duration(event.at - begun) if begun is not None and self._works(state, event.node) else ""


def _describe_wait(event: e.NodeEvent, who: str) -> Line | None:
    """A node that waits: for people, a time, a signal or a child."""
    match event:
        case e.ChildStarted() | e.NodeWaiting() if event.item is not None:
            return None  # the items of a map are counted
        case e.NodeWaiting():
            return None if event.wait.kind == "approval" else (who, "waiting", _wait(event))
        case e.ApprovalRequested():
            people = ", ".join(event.approvers) or "anyone"
            command = approve_command(event.approval, event.approvers, event.form)
            return who, "waiting", f"for a decision by {people}: {command}"
        case e.ApprovalVoted():
            voted = {"approve": "approved", "reject": "rejected"}[event.decision]
            return who, voted, _sentence(f"by {event.person or event.by}" if event.by else "", event.comments)
        case e.ApprovalDelegated():
            return who, "handed over", _sentence(f"by {event.approver} to {event.to}", event.comments)
        case e.ApprovalEscalated():
            return who, "escalated", ""
        case e.ChildStarted():
            return who, "started", f"child run {event.child}"
        case _:
            return None


def tell_failed(run_id: str, node: str | None, why: str) -> str:
    """The end of a run that failed, in one line. The code `error` is left out: any exception has it, and its name says
    more."""
    return f"run {run_id} failed{f' at {node}' if node else ''}: {why.removeprefix('error: ')}"


def error_text(error: Error, limit: int = 200) -> str:
    """An error in one line, with the place in the user's code where it was raised."""
    said = shorten(f"{error.code}: {error.message}" if error.message else error.code, limit)
    place_of_it = show_place(error.details)
    return f"{said} ({place_of_it})" if place_of_it else said


def _undone(node: Node) -> bool:
    return node.compensator is not None or (node.item is not None and node.item.compensator is not None)


def _tries(state: State, event: e.NodeEvent) -> int:
    """The number of the handler's attempt that an event is about, as people count attempts."""
    activation = state.find(event.node, event.scope, event.item)
    return event.attempt - (0 if activation is None else activation.idle)


def _attempts(attempt: int) -> str:
    return f"attempt {attempt}" if attempt > 1 else ""


def _way(event: e.NodeCompleted) -> str:
    route = event.route
    if route is None or route.taken is None or route.rule == "adopted":
        return ""
    return f"to {_some(list(route.taken))}" if route.taken else ""


def _wait(event: e.NodeWaiting) -> str:
    wait = event.wait
    until = ""
    if wait.until is not None:  # a time of day alone is understood as the next one
        until = f"until {hour(wait.until) if wait.until - event.at < _HALF_A_DAY else moment(wait.until)}"
    match wait.kind:
        case "signal":
            return _sentence(f"for the signal {wait.name}", until)
        case "event":
            return _sentence(f"for the event {wait.name}" + (f" of {wait.key}" if wait.key else ""), until)
        case "child":
            return f"for its child run {wait.name}"
        case "items":
            return f"for {count(wait.count, 'item')}"
        case "asks":
            return f"for {_some([ask.name for ask in event.asks])}"
        case _:
            return until


def _many(nodes: list[str], state: str) -> Line:
    return (nodes[0], state, "") if len(nodes) == 1 else ("", state, _some(nodes))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _sentence(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
