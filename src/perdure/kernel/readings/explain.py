"""Why has this node not run? One sentence a person understands, for every way a node can wait.

Reads state, changes nothing, decides nothing.
"""

from __future__ import annotations

from perdure.kernel.continuations import say_worry
from perdure.kernel.edges import in_closed_iteration
from perdure.kernel.events import Scope
from perdure.kernel.lifecycle import ERROR, FAILED, OPEN, SKIPPED, TAKEN, N, R
from perdure.kernel.readings.seen import JOURNAL, Seen, Working
from perdure.kernel.run_ids import place
from perdure.kernel.settle import join_verdict
from perdure.kernel.state import Activation, State, key_of
from perdure.kernel.triggers.receivers import is_poll, say_source
from perdure.kernel.values import Asked
from perdure.model.ir import Edge, Node
from perdure.spelling import suggest


def explain(state: State, name: str, seen: Seen = JOURNAL) -> str:
    said, index = _explain(state, name, seen), state.ir.numbers.get(name)
    loops = index is not None and state.node(index).loop is not None
    worry = say_worry(state) if loops else ""
    return f"{said} The run can grow without an end: {worry}." if worry else said


def _explain(state: State, name: str, seen: Seen) -> str:
    index = state.ir.numbers.get(name)
    if index is None:
        nodes = [node.id for node in state.ir.nodes if node is not None]
        return f"The workflow has no node {name}; {suggest(name, nodes)}"
    node = state.node(index)
    scope = current_scope(state, node)
    activation = find_latest(state, index) if scope is None else state.activations.get(key_of(index, scope))
    if activation is not None and activation.state is not N.PENDING:
        return _reached(state, node, activation, seen)
    if scope is None:
        return f"{node.id} has not run: its loop ended before it was reached."
    return _not_reached(state, node, scope, activation, seen)


def current_scope(state: State, node: Node) -> Scope | None:
    """Where the loops around a node are now; None when one of them is over."""
    scope: Scope = ()
    for loop in node.loops:
        run = state.loops.get((loop, scope))
        if run is not None and run.status == "ended":
            return None
        scope = (*scope, run.iteration if run is not None else 1)
    return scope


def find_latest(state: State, index: int) -> Activation | None:
    """The activation a person means by a node's name: the newest one."""
    node = state.node(index)
    if not node.loops:
        return state.activations.get(key_of(index, ()))
    scope: tuple[int, ...] = ()
    for depth, loop in enumerate(node.loops):
        run = state.loops.get((loop, scope))
        scope = (*scope, run.iteration if run is not None else 1)
        if run is None and depth:
            break
    found = state.activations.get(key_of(index, scope)) if len(scope) == len(node.loops) else None
    if found is not None:
        return found
    known = [a for a in state.activations.values() if a.node == index and a.item < 0]
    return max(known, key=lambda a: a.scope) if known else None


def _who(state: State, activation: Activation) -> str:
    return state.address(activation).place


def _at(seconds: float | None) -> str:
    """A moment, as UTC text; the kernel reads no clock, so it cannot say how far away it is."""
    if seconds is None:
        return "an unknown time"
    days, rest = divmod(int(seconds), 86400)
    year, month, day = _civil(days)
    return f"{year:04}-{month:02}-{day:02} {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02} UTC"


def _civil(days: int) -> tuple[int, int, int]:
    """Days since 1970-01-01 as a date (Howard Hinnant's algorithm)."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def _not_reached(state: State, node: Node, scope: Scope, activation: Activation | None, seen: Seen) -> str:
    start = f"{place(node.id, scope)} has not run"
    if state.state in (R.FAILED, R.FAILING):
        why = f" because {state.failed_node} failed" if state.failed_node else ""
        error = f" ({state.error.code})" if state.error is not None else ""
        tense = "ended before" if state.state is R.FAILED else "is ending before"
        return f"{start}: the run {tense} it was reached{why}{error}; retry the run to go on."
    if state.state is R.CANCELLING:
        return f"{start}: the run is being cancelled."
    if state.state is R.COMPENSATING:
        if state.ending == "rolled_back":
            return f"{start}: the run is being rolled back."
        end = "failed" if state.ending == "failed" else "was cancelled"
        return f"{start}: the run {end} before it was reached and is being compensated."
    if state.terminal:
        end = {R.CANCELLED: "was cancelled", R.ROLLED_BACK: "was rolled back"}.get(state.state, "ended")
        return f"{start}: the run {end} before it was reached."
    edges = state.ir.edges
    waiting, arrived = [], []
    for number in node.edges_in:
        source = edges[number].source
        status = None if activation is None else activation.edges.get(source)
        if status in (TAKEN, ERROR):
            arrived.append(state.name(source))
        elif status is None:
            waiting.append(_source(state, edges[number], scope, seen))
    if not waiting:
        return f"{start}: it is about to be scheduled."
    needed = node.join.at_least
    if needed is None:
        rule = "it needs all of its dependencies" if len(node.edges_in) > 1 else "its dependency has not ended"
    else:
        rule = f"it needs {needed} of {len(node.edges_in)}"
    got = f"; {', '.join(arrived)} arrived" if arrived else ""
    more = "" if len(waiting) <= 5 else f" and {len(waiting) - 5} more"
    return f"{start}: {rule}, and waits for {', '.join(waiting[:5])}{more}{got}."


def _source(state: State, edge: Edge, scope: Scope, seen: Seen) -> str:
    name = state.name(edge.source)
    inner = len(state.node(edge.source).loops) > edge.common
    activation = find_latest(state, edge.source)
    if not inner:
        activation = state.activations.get(key_of(edge.source, scope[: edge.common]))
    if activation is None:
        return f"{name} (not reached yet)"
    if inner and activation.state not in OPEN:
        return f"{name} (its loop has not ended)"
    return f"{name} ({_word(activation, seen)})"


def _word(activation: Activation, seen: Seen) -> str:
    if activation.state is N.PENDING:
        return "not reached yet"
    if activation.state is N.WAITING and activation.wait is not None:
        return f"waiting for {_wait_word(activation.wait.kind)}"
    return seen.state(activation).value


def _wait_word(kind: str) -> str:
    return {
        "approval": "a person",
        "child": "a child run",
        "items": "its items",
        "delay": "the loop's delay",
        "asks": "answers",
        "event": "an event",
        "trigger": "what comes",
    }.get(kind, f"a {kind}")


def _reached(state: State, node: Node, activation: Activation, seen: Seen) -> str:
    who = _who(state, activation)
    match activation.state:
        case N.HELD:
            return _held(who, node, activation)
        case N.QUEUED:
            working = seen.find(activation)
            if working is not None:
                return _running(who, activation.tries, working) + _before(activation)
            if is_poll(state, activation):
                box = state.triggers[state.name(activation.node)]
                return f"{who} asks for {say_source(box)}; {_count(box.position, 'item')} came until now."
            queued = f"{who} is queued in {node.queue!r} (attempt {activation.tries})"
            if seen.blind:
                return f"{queued}, and may be running already: {seen.blind}.{_before(activation)}"
            return f"{queued}; no worker is known to run it yet.{_before(activation)}{_start_worker(node)}"
        case N.RUNNING:
            working = Working(activation.worker, activation.started_at)
            return _running(who, activation.tries, working) + _before(activation)
        case N.RETRYING:
            node, when = state.pinned(activation), _at(activation.retry_at)
            again = f"{who} failed ({_said(activation)}) and is tried again at {when}"
            if node.type == "trigger":  # what it polls is asked for ever (rule 51)
                return f"{again}; a poll is tried again for ever."
            return f"{again}; {_count(node.retry.max_attempts - activation.failures, 'attempt')} left."
        case N.WAITING:
            return _waiting(state, who, activation, seen)
        case N.PARKED:
            return f"{who} is parked after {_said(activation)}; requeue or discard it to go on."
        case N.SKIPPED:
            return f"{who} was skipped: {_why_skipped(state, node, activation)}."
        case N.CANCELLED:
            return f"{who} was cancelled: {_why_cancelled(state, activation)}."
        case N.UPSTREAM_FAILED:
            failed = [state.name(s) for s, status in sorted(activation.edges.items()) if status in (FAILED, ERROR)]
            return f"{who} cannot run: {', '.join(failed) or 'something before it'} failed."
        case N.FAILED:
            error = activation.error
            text = f"{error.code}: {error.message}" if error is not None else "an error"
            after = f" after {_count(error.attempts, 'attempt')}" if error is not None and error.attempts > 1 else ""
            return f"{who} failed{after} ({text})."
        case N.COMPENSATED:
            return f"{who} ran and was compensated."
        case _:
            if activation.undo is not None and state.state is R.COMPENSATING:
                return f"{who} has run: it completed, and {_undoing(activation.undo.state)}."
            more = "" if activation.routed or state.terminal else "; where it goes from there is not decided yet"
            if more and not activation.scheduled_seq:
                more += ", because something it builds upon is being done again"
            return f"{who} has run: it completed{more}."


def _said(activation: Activation) -> str:
    """The error of an activation with its message, if it has one."""
    error = activation.error
    if error is None:
        return "an error"
    return f"{error.code}: {error.message}" if error.message else error.code


_SILENT_SECONDS = 10.0
"""Silence after which a worker counts as quiet: one that beats every five seconds has missed a beat by then."""


def _running(who: str, attempt: int, working: Working) -> str:
    worker = f" on worker {working.worker}" if working.worker else ""
    process = f" (process {working.pid} on {working.host})" if working.host else ""
    since = f" since {_at(working.since)}" if working.since is not None else ""
    running = f"{who} is running{worker}{process}{since}, attempt {attempt}"
    if working.silent_seconds < _SILENT_SECONDS:
        return f"{running}."
    silent = f"it was last heard of {working.silent_seconds:.0f} s ago"
    return f"{running}, as far as its worker has said: {silent}; if it is dead, another attempt follows."


def _before(activation: Activation) -> str:
    """Why this is not the first attempt."""
    if activation.error is None or not activation.failures:
        return ""
    return f" What went wrong before: {_said(activation)}."


def _undoing(step: str) -> str:
    return {
        "planned": "will be compensated after what came later",
        "retrying": "its compensation failed and is tried again",
        "parked": "its compensation is parked; requeue or discard it to go on",
        "done": "is left as it is: its compensation was discarded",
    }.get(step, "is being compensated")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _start_worker(node: Node) -> str:
    """The way out where perhaps no worker serves the node's queue; the default queue is served wherever runs are."""
    return (
        ""
        if node.queue == "default"
        else f" A worker of its own for that queue: `perdure worker --queues {node.queue}`."
    )


def _held(who: str, node: Node, activation: Activation) -> str:
    if activation.reason == "no_worker" and activation.detail:
        held = f"{who} is ready, and held until a worker is there that can run it: {activation.detail}."
        return held + _start_worker(node)
    if activation.reason == "no_worker":
        return (
            f"{who} is ready, but no worker on queue {node.queue!r} has what {node.type!r} needs; start one that does."
            + _start_worker(node)
        )
    if activation.reason == "paused":
        return f"{who} is ready, but the run is paused; resume it."
    if activation.reason == "budget":
        return f"{who} is ready, but the budget of the run is used up; resume it with a larger one."
    if activation.reason.startswith("budget:"):
        scope = activation.reason.removeprefix("budget:")
        return f"{who} is ready, but the budget of {scope} has no room; the run goes on by itself when it may have."
    if activation.reason == "budget_reserved":
        return (
            f"{who} is ready, and waits until calls under way have ended: the rest of the budget is set aside for them."
        )
    if activation.reason == "redo":
        return f"{who} is ready, but something it builds upon is being done again, and it waits for that."
    if activation.reason == "stream":
        return f"{who} is ready, and begins when the streams that it reads have begun, or begun anew."
    return f"{who} is ready, but the run is {activation.reason or 'not dispatching'}."


def _waiting(state: State, who: str, activation: Activation, seen: Seen) -> str:
    wait = activation.wait
    if wait is None:
        return f"{who} waits."
    match wait.kind:
        case "approval":
            approval = state.approvals.get(wait.name)
            if approval is None:  # an import may say so
                return f"{who} waits for the approval {wait.name!r}, which nobody was asked for."
            by = ", ".join(approval.approvers) or "anyone"
            got = len([vote for vote in approval.votes.values() if vote == "approve"])
            until = f" until {_at(approval.expires_at)}, then {approval.on_timeout}" if approval.expires_at else ""
            return f"{who} waits for a person: {got} of {approval.quorum} approvals by {by}{until}."
        case "event":
            key = f" with the key {wait.key!r}" if wait.key else ""
            chosen = f" that matches {wait.match}" if wait.match else ""
            until = f" until {_at(wait.until)}" if wait.until is not None else ""
            return f"{who} waits for an event {wait.name!r}{key}{chosen}{until}."
        case "timer":
            return f"{who} waits until {_at(wait.until)}."
        case "delay":
            return f"{who} waits until {_at(wait.until)}: the loop pauses between iterations."
        case "signal":
            until = f" until {_at(wait.until)}" if wait.until is not None else ""
            return f"{who} waits for the signal {wait.name!r}{until}."
        case "child":
            return f"{who} waits for its child run {wait.name}."
        case "asks":
            waiting = [_ask(state, ask) for ask in activation.asks.values() if ask.open]
            more = f" and {len(waiting) - 5} more" if len(waiting) > 5 else ""
            return f"{who} has asked, and waits for {', '.join(waiting[:5])}{more}."
        case "trigger":
            box = state.triggers.get(state.name(activation.node))
            if box is None or not box.inner:
                return f"{who} is a trigger, and waits for what comes."
            return f"{who} waits for {say_source(box)}; {_count(box.position, 'item')} came until now."
        case _:
            done = activation.items_completed + activation.items_failed
            known = (
                state.activations.get(key_of(activation.node, activation.scope, i))
                for i in range(activation.items_started)
            )
            parked = sum(item is not None and item.state is N.PARKED for item in known)
            running = seen.count_items(activation)
            notes = [*([f"{running} running"] if running else []), *([f"{parked} parked"] if parked else [])]
            more = f" ({', '.join(notes)})" if notes else ""
            return f"{who} waits for its items: {done} of {wait.count} ended, {activation.items_open} open{more}."


def _ask(state: State, ask: Asked) -> str:
    """What an ask waits for, with its name."""
    approval = state.approvals.get(ask.approval)
    expires_at = ask.until if approval is None else approval.expires_at
    until = f" until {_at(expires_at)}" if expires_at is not None else ""
    if approval is not None:
        return f"{ask.name} (a decision by {', '.join(approval.approvers) or 'anyone'}{until})"
    if ask.kind == "child":
        return f"{ask.name} (the child run {ask.child})"
    return f"{ask.name} (the signal {ask.signal!r}{until})" if ask.signal else f"{ask.name} ({until.strip()})"


def _why_skipped(state: State, node: Node, activation: Activation) -> str:
    if activation.reason.startswith("discarded"):
        return "it was discarded"
    if activation.refused:
        return "a dependency it requires was skipped"
    if node.when is not None and join_verdict(activation, node) == "fire":
        return "its `when` condition is false"
    if node.join.at_least is not None and node.join.at_least > 1:
        return f"fewer than {node.join.at_least} of its dependencies could run"
    skipped = [state.name(source) for source, status in sorted(activation.edges.items()) if status == SKIPPED]
    return f"no path led to it ({', '.join(skipped[:5])} went another way or was skipped)"


def _why_cancelled(state: State, activation: Activation) -> str:
    reasons = {
        "loop": "its iteration of the loop was closed",
        "join": "the race it took part in was decided without it",
        "items": "too many items of its map failed",
    }
    if activation.reason in reasons:
        return reasons[activation.reason]
    if in_closed_iteration(state, activation) and not activation.resume:
        return reasons["loop"]
    return f"the run ended ({state.state})"
