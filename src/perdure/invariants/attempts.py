"""What happens to one activation: V1 to V6, V8, R3 where it is about attempts, S3."""

from __future__ import annotations

from typing import Any

from perdure.invariants import editions, guards, past
from perdure.invariants.flow import expect, fail_edges, fire, follow_route, is_unlet, lose, resolve_all, win
from perdure.invariants.model import ERROR, RUN_OVER, SKIPPED, TAKEN, Act, Model
from perdure.kernel import events as e
from perdure.kernel.values import Route

_ends = {"completed", "failed", "cancelled", "parked", "skipped"}
TRANSITIONS: dict[str, set[str]] = {
    "pending": {
        "held",
        "queued",
        "waiting",
        "skipped",
        "upstream_failed",
        "cancelled",
        "failed",
        "parked",
        "completed",
    },
    "held": {"queued", "running", *_ends},
    "queued": {"queued", "running", "held", "waiting", "retrying", *_ends},
    "running": {"queued", "held", "waiting", "retrying", *_ends},
    "waiting": {"waiting", "queued", "held", "retrying", *_ends},
    "retrying": {"queued", "held", "running", "waiting", *_ends},
    "parked": {"parked", "held", "completed", "failed", "skipped", "cancelled"},
    "completed": {"compensated", "parked", "failed"},
}
"""Transitions within a generation; a state without an entry is final (V5)."""


def move(model: Model, act: Act, state: str) -> None:
    if state not in TRANSITIONS.get(act.state, ()):
        model.blame("V5", f"{act.place} goes from {act.state} to {state}")


def get(model: Model, event: e.NodeEvent | e.Place) -> Act:
    act = model.get(event.node, event.scope, event.item)
    if act.item is not None and not act.redo:
        act.redo = model.get(act.node, act.scope).redo  # a map that is done again does its items anew
    return act


def at_most_once(model: Model, act: Act) -> bool:
    node = model.node_of(act)
    return node is not None and node.effect == "at_most_once"


def _in_time(model: Model, act: Act, what: str) -> None:
    """E7: nothing of a closed iteration goes on, except what a new generation made ready again."""
    if act.scope and not act.redo and model.closed(act):
        model.blame("E7", f"{act.place} {what} after its iteration closed")


def _alive(model: Model, act: Act, what: str, *states: str) -> None:
    if model.state not in states:
        model.blame("R3", f"{act.place} {what} while the run is {model.state}")


# -- ready -------------------------------------------------------------------------------------------------------------


def scheduled(model: Model, place: e.NodeScheduled | e.Place, at: float, after: str = "", unbegun: str = "") -> None:
    act = get(model, place)
    _alive(model, act, "is scheduled", "running")
    _in_time(model, act, "is scheduled")
    _ready(model, act)
    past.look(model, act, "scheduled")
    if place.attempt <= act.attempt:
        model.blame("V1", f"attempt {place.attempt} of {act.place} comes after {act.attempt}")
    if act.retry_at is not None and at < act.retry_at:
        model.blame("V8", f"{act.place} is tried again at {at}, its backoff ends at {act.retry_at}")
    _abandon(model, act, after, unbegun)
    _has_answers(model, act)
    move(model, act, "queued")
    model.stop_waiting(act)
    model.clear(act, "retry")
    act.retry_at = None
    act.attempt = max(act.attempt, place.attempt)
    model.set_state(act, "queued")
    editions.scheduled(model, act)
    node = model.node_of(act)
    if node is not None and node.queue_timeout_seconds is not None:
        model.timers[model.timer("queue", act)] = at + node.queue_timeout_seconds
    if node is not None and node.total_timeout_seconds is not None:
        left = node.total_timeout_seconds if act.total_left is None else act.total_left
        model.timers.setdefault(model.timer("total", act), at + left)
        act.total_left = None


def _ready(model: Model, act: Act) -> None:
    expect(model, act, "fire")
    if act.unlet:
        model.blame("E2", f"{act.place} runs, and its join had failed")
    if not act.fired and act.item is None:
        guards.look(model, act)
    if act.item is not None:
        owner = model.get(act.node, act.scope)
        if owner.state != "waiting" or owner.wait != "items":
            model.blame("E2", f"{act.place} is an item of a map that is {owner.state}")
        act.graph, act.hop = owner.graph, owner.hop
    fire(model, act)
    node = model.graph_of(act).nodes.get(act.node)
    most = (node.max_hops if node is not None else None) or model.graph.limits.max_hops
    if act.hop > most and not act.attempt and act.item is None:  # an item is where its map is, which got there before
        model.blame("E5", f"{act.place} is {act.hop} hops from the start; {most} are allowed")


def _abandon(model: Model, act: Act, after: str, unbegun: str) -> None:
    node = model.node_of(act)
    act.crashes += after == "crashed"
    if after == "crashed" and node is not None and act.crashes >= node.max_crashes:
        model.blame("rule 2", f"{act.place} goes on after {act.crashes} crashes; {node.max_crashes} are allowed")
    if unbegun and unbegun == act.ask and after == "handed_back" and act.state == "running":
        act.spent, act.claimed, act.ask = False, act.attempt - 1, ""  # the wish that was granted began nothing
    if after and act.claimed == act.attempt and act.attempt and at_most_once(model, act):
        model.blame("V6", f"{act.place} is at_most_once, began, and is given to another worker after it {after}")


def held(model: Model, place: e.NodeHeld | e.Place, after: str = "", unbegun: str = "") -> None:
    act = get(model, place)
    _alive(model, act, "is held", "running", "paused", "failing", "cancelling")
    _in_time(model, act, "is held")
    _ready(model, act)
    _abandon(model, act, after, unbegun)
    _has_answers(model, act)
    if act.state != "held" or not editions.sources(model, act):  # a reader may be held for another reason until then
        move(model, act, "held")
    model.stop_waiting(act)
    model.clear(act, "retry", "queue")
    act.retry_at = None
    model.set_state(act, "held")


def _has_answers(model: Model, act: Act) -> None:
    if act.asks:
        model.blame("rule 78", f"{act.place} goes on, and {', '.join(name for name, _ in act.asks)} has no answer")


def _asks(model: Model, act: Act, event: e.NodeWaiting) -> None:
    """Rule 77: an attempt ends by asking for things that have no answer yet, each under a name of its own."""
    names = {ask.name for ask in event.asks}
    if not 0 < len(names) == len(event.asks) <= 64 or names & act.steps:
        model.blame("V9", f"{act.place} asks for {len(event.asks)} things under {len(names - act.steps)} new names")
    if at_most_once(model, act):
        model.blame("V6", f"{act.place} is at_most_once and asks, so that it would run again")
    if event.attempt != act.attempt:
        model.blame("V4", f"attempt {event.attempt} of {act.place} asks; current is {act.attempt}")
    act.asks, act.suspended = tuple((ask.name, ask.kind) for ask in event.asks), event.attempt
    act.asked |= names
    due = model.timers.pop(model.timer("total", act), None)
    act.total_left = None if due is None else max(due - event.at, 0.0)
    for ask in event.asks:
        if ask.until is not None and ask.kind != "approval":
            model.timers[f"{model.timer('ask', act)}:{ask.name}"] = ask.until


def _answered(model: Model, act: Act, event: e.NodeCheckpointed) -> None:
    kind = dict(act.asks).get(event.step)
    if kind is None or act.state != "waiting":
        model.blame("V9", f"{event.step!r} of {act.place} gets an answer, and waits for none")
        return
    if event.signal:
        left = model.signals[event.signal] = model.signals.get(event.signal, 0) - 1
        if left < 0 or kind != "signal":
            model.blame("rule 37", f"{act.place} takes a signal {event.signal} that nobody sent, or another took")
    model.close_ask(act, event.step, kind)
    act.asks = tuple(ask for ask in act.asks if ask[0] != event.step)


def waiting(model: Model, event: e.NodeWaiting) -> None:
    act, wait = get(model, event), event.wait
    _alive(model, act, "waits", "running", "paused")
    _in_time(model, act, "waits")
    _ready(model, act)
    move(model, act, "waiting")
    if act.state == "retrying" and wait.kind != "trigger":
        model.blame("V5", f"{act.place} waits, and was to be tried again")
    model.clear(act, "queue", "retry")
    act.retry_at = None
    model.set_state(act, "waiting")
    act.wait, act.wait_name = wait.kind, wait.name
    if wait.kind == "asks":
        _asks(model, act, event)
    if wait.kind == "event":
        taken = model.heard.get((event.node, event.item, wait.name, wait.key), 0)
        if wait.since < taken or wait.since_at is None:
            model.blame("rule 53", f"{act.place} listens behind {wait.since}, and has taken {taken} before")
        model.listening[act.key] = (wait.key, wait.since)
    if wait.until is not None and wait.kind in ("timer", "signal", "delay", "event"):
        model.timers[model.timer("delay" if wait.kind == "delay" else "wait", act)] = wait.until
    if wait.kind == "items":
        most = model.graph.widest[act.node]
        if wait.count > most:
            model.blame("E5", f"{act.place} has {wait.count} items; {most} are allowed")
        for number in range(wait.count):
            item = model.acts.get((act.node, act.scope, number))
            if item is not None and item.state in ("failed", "cancelled"):
                item.state, item.accepted, item.spent = "pending", False, False
                item.failures = item.crashes = 0


def resumed(model: Model, event: e.NodeResumed) -> None:
    act = get(model, event)
    released = act.state == "parked" and act.child_ended
    if act.state != "waiting" and not released:
        model.blame("V5", f"{act.place} resumes and is {act.state}")
    if act.wait == "event":
        key, since = model.listening.pop(act.key, ("", 0))
        if not event.event or event.position <= since:
            model.blame("rule 53", f"{act.place} waits for an event behind {since}, and takes {event.position}")
        model.heard[(event.node, event.item, act.wait_name, key)] = event.position
    if act.wait == "signal":
        left = model.signals[act.wait_name] = model.signals.get(act.wait_name, 0) - 1
        if left < 0:
            model.blame("rule 37", f"{act.place} takes a signal {act.wait_name} that nobody sent, or another took")


def started(model: Model, event: e.NodeStarted) -> None:
    act = get(model, event)
    if event.undo:
        if model.state != "compensating" or not model.plan or model.plan[-1] != act.key:
            model.blame("R3", f"the compensation of {act.place} starts out of turn")
        if event.attempt != act.undo_attempt:
            model.blame("V2", f"attempt {event.attempt} of the compensation of {act.place} was not scheduled")
        return
    ending = ("running", "paused") if at_most_once(model, act) else ("running", "paused", "failing", "cancelling")
    _alive(model, act, "starts", *ending)
    _in_time(model, act, "starts")
    if event.attempt > act.attempt or not act.attempt:
        model.blame("V2", f"attempt {event.attempt} of {act.place} starts, scheduled was {act.attempt}")
    if event.attempt < act.attempt or event.attempt < act.claimed:
        model.blame("V4", f"attempt {event.attempt} of {act.place} starts after attempt {act.attempt}")
    if at_most_once(model, act):
        if act.spent:
            model.blame("V6", f"{act.place} is at_most_once and starts again")
        act.spent = True
    move(model, act, "running")
    act.claimed, act.ask = max(act.claimed, event.attempt), event.ask
    model.clear(act, "queue")
    model.set_state(act, "running")


def checkpointed(model: Model, event: e.NodeCheckpointed) -> None:
    act = get(model, event)
    if event.version == 2:
        _answered(model, act, event)
    elif event.version == 6:
        if act.state != "parked" or event.step not in act.begun:
            model.blame("V10", f"a person says what step {event.step!r} of {act.place} gave, which is not in doubt")
    elif event.attempt != act.attempt or act.state not in ("queued", "running"):
        model.blame("V4", f"attempt {event.attempt} of {act.place} writes a checkpoint; current is {act.attempt}")
    if event.version != 2 and event.step in act.asked:
        model.blame("V9", f"{act.place} writes the step {event.step!r}, which is an ask: only its answer becomes one")
    if event.signal and event.version != 2:
        _read_mail(model, act, event)
    if event.number and (event.attempt, event.number) <= act.checkpointed:
        model.blame("T2", f"checkpoint {event.number} of {act.place} is kept again, or after a later one")
    if event.version not in (2, 5, 6):
        act.checkpointed = (event.attempt, event.number)
    if event.step and event.step in act.steps:
        model.blame("V9", f"step {event.step!r} of {act.place} has a result, and gets another one")
    if not event.step:
        editions.checkpointed(model, act, event)
    if event.step:
        act.steps |= {event.step}
        act.begun -= {event.step}
    elif not event.number:  # of before checkpoints were numbered: it took the place of all that was kept
        act.steps = frozenset()


def _read_mail(model: Model, act: Act, event: e.NodeCheckpointed) -> None:
    """Check that mail is read by the activation that it names, each letter once (rule 86)."""
    left = model.signals[event.signal] = model.signals.get(event.signal, 0) - 1
    if left < 0:
        model.blame("rule 86", f"{act.place} reads a letter that was not sent, or was read before")
    if event.signal != f"agent:{act.place}" or not event.step.startswith("mail/"):
        model.blame("rule 86", f"{act.place} reads {event.signal!r} as {event.step!r}")


def step_started(model: Model, event: e.StepStarted) -> None:
    act = get(model, event)
    _alive(model, act, "begins a step", "running", "paused")
    if event.attempt != act.attempt or act.state not in ("queued", "running"):
        model.blame("V4", f"attempt {event.attempt} of {act.place} begins a step; current is {act.attempt}")
    if event.step in act.begun or event.step in act.steps or (act.key, event.step) in model.purse.open:
        model.blame("V10", f"step {event.step!r} of {act.place} may happen at most once, and begins again")
    if event.effect == "at_most_once":
        act.begun |= {event.step}


def step_released(model: Model, event: e.StepReleased) -> None:
    act = get(model, event)
    if event.step not in act.begun and (act.key, event.step) not in model.purse.open:
        model.blame("V10", f"step {event.step!r} of {act.place} did not happen, and had not begun")
    act.begun -= {event.step}


# -- outcomes ----------------------------------------------------------------------------------------------------------


def _outcome(model: Model, act: Act, attempt: int, what: str) -> None:
    """V3, V4: one outcome, from the attempt that may speak for the activation."""
    if model.state in RUN_OVER or model.state == "compensating":
        model.blame("R3", f"{act.place} {what} while the run is {model.state}")
    _in_time(model, act, what)
    if act.accepted:
        model.blame("V3", f"{act.place} {what} and has an outcome already")
    unclaimed = act.claimed < act.attempt and act.state in ("queued", "held", "retrying")
    if attempt != act.attempt and not (attempt == act.attempt - 1 and unclaimed):
        model.blame("V3", f"{act.place} {what} by attempt {attempt}; current is {act.attempt}")
    if attempt < act.claimed:
        model.blame("V4", f"{act.place} {what} by attempt {attempt} after attempt {act.claimed} started")
    act.accepted = True


def completed(model: Model, event: e.NodeCompleted) -> None:
    act = get(model, event)
    if event.adopted:
        fire(model, act)
        act.accepted, act.rejected = True, event.rejected
    else:
        _outcome(model, act, event.attempt, "completes")
        _of_this_generation(model, act, event.attempt)
        editions.completed(model, act, event.attempt)
    move(model, act, "completed")
    model.finish(act, "completed")
    act.completed_seq = event.seq
    if event.rejected and not act.rejected:
        model.blame("W2", f"{act.place} completes as rejected, and nobody decided so")
    _check_choice(model, act, event.choice, event.route)
    if event.route is not None:
        _routed(model, act, event.route, TAKEN)


def _of_this_generation(model: Model, act: Act, attempt: int) -> None:
    if attempt <= act.suspended:
        model.blame(
            "V3", f"{act.place} completes by attempt {attempt}, and attempt {act.suspended} asked for something"
        )
    if attempt < act.floor:
        model.blame("V3", f"{act.place} completes by attempt {attempt}, which belongs to an older generation")


def _check_choice(model: Model, act: Act, choice: tuple[str, ...] | None, route: Route | None) -> None:
    allowed = model.graph_of(act).agents.get(act.node)
    if allowed is None:
        return
    chosen = set(choice or ())
    if route is not None and route.rule.endswith("branch.agent"):
        chosen |= set(route.taken or ()) - model.graph_of(act).unchosen[act.node]
    if not chosen <= allowed:
        model.blame("S3", f"the agent {act.place} chose {', '.join(sorted(chosen - allowed))}")


def _routed(model: Model, act: Act, route: Route, status: str) -> None:
    if route.rule == "rejection_path" and not act.rejected:
        model.blame("W2", f"{act.place} goes the way of a rejection, and nobody decided so")
    if model.state in ("failing", "cancelling"):
        model.blame("R3", f"the outcome of {act.place} is routed while the run is {model.state}")
    past.look(model, act, "routed")
    width = len(route.taken) if route.taken is not None else len(model.graph_of(act).outgoing.get(act.node, ()))
    inherited = route.rule == "adopted" and model.continues  # a patch may have brought edges since, or other limits
    most = model.graph.widest.get(act.node, model.graph.limits.max_fanout)
    if width > most and not inherited:
        model.blame("E5", f"{act.place} takes {width} edges; {most} are allowed")
    follow_route(model, act, route, status)


def routed(model: Model, event: e.NodeRouted) -> None:
    act = get(model, event)
    if act.routed:
        model.blame("E1", f"{act.place} is routed twice")
    if act.state == "parked":
        move(model, act, "completed")
        model.set_state(act, "completed")
    elif act.state not in ("completed", "failed"):
        model.blame("V5", f"{act.place} is routed while it is {act.state}")
    _check_choice(model, act, None, event.route)
    _routed(model, act, event.route, ERROR if act.state == "failed" else TAKEN)


def _withdraw(model: Model, act: Act) -> None:
    """Rule 25: a kept outcome without a way on is a failure when it is routed. Nothing else takes one back (V3)."""
    graph = model.graph_of(act)
    node = graph.nodes[act.node]
    no_way_on = act.rejected and node.rejection_path is None and node.branch is None
    if node.loop is not None and node.loop.timeout_path is None and node.loop.max_iterations is not None:
        no_way_on |= act.scope[graph.loops[act.node].index(act.node)] >= node.loop.max_iterations
    past.look(model, act, "routed")
    if no_way_on and not act.routed:
        act.accepted = False


def failed(model: Model, event: e.NodeFailed) -> None:
    act = get(model, event)
    expect(model, act, "fail", "fire")
    act.unlet = act.unlet or is_unlet(model, act)
    if act.state == "parked" and act.discarded:
        act.accepted = False
    elif act.state in ("completed", "parked") and act.accepted:
        _withdraw(model, act)
    _outcome(model, act, event.attempt, "fails")
    if model.state in ("failing", "cancelling") and event.outcome != "kept":
        model.blame("R3", f"the failure of {act.place} is {event.outcome} while the run is {model.state}")
    move(model, act, "failed")
    fire(model, act)
    model.finish(act, "failed")
    act.handled = event.outcome in ("absorbed", "continue", "path")
    if event.outcome == "absorbed":
        fail_edges(model, act)
    elif act.handled and event.route is not None:
        follow_route(model, act, event.route, ERROR)


def upstream_failed(model: Model, event: e.NodeUpstreamFailed) -> None:
    act = get(model, event)
    _alive(model, act, "is decided", "running", "paused")
    expect(model, act, "fail")
    move(model, act, "upstream_failed")
    fire(model, act)
    model.finish(act, "upstream_failed")
    act.handled = event.outcome == "absorbed"
    if act.handled:
        fail_edges(model, act)


def retrying(model: Model, event: e.NodeRetrying) -> None:
    act = get(model, event)
    _alive(model, act, "is tried again", "running", "paused")
    act.failures += 1
    node = model.node_of(act)
    polls = node is not None and node.type == "trigger"  # for ever (rule 51)
    if node is not None and not polls and act.failures >= node.retry.max_attempts:
        model.blame("rule 2", f"{act.place} has failed {act.failures} times and is tried again")
    if event.attempt != act.attempt:
        model.blame("V4", f"attempt {event.attempt} of {act.place} fails; current is {act.attempt}")
    move(model, act, "retrying")
    model.stop_waiting(act)
    model.clear(act, "queue")
    model.set_state(act, "retrying")
    act.retry_at, act.spent = event.retry_at, False
    model.timers[model.timer("retry", act)] = event.retry_at


def skipped(model: Model, place: e.NodeSkipped | e.Place) -> None:
    act = get(model, place)
    if act.state == "pending" and not act.fired:
        node = model.graph_of(act).nodes.get(act.node)
        guarded = node is not None and node.when is not None
        expect(model, act, "skip", *(("fire",) if guarded else ()))
    elif act.state == "held" and not act.attempt:
        pass  # parked because `when` could not be evaluated, requeued, and now `when` is false
    elif act.state != "pending" and not act.discarded:
        model.blame("V5", f"{act.place} is {act.state} and is skipped, and nobody discarded it")
    _alive(model, act, "is skipped", "running", "paused")
    move(model, act, "skipped")
    lose(model, act)
    fire(model, act)
    model.finish(act, "skipped")
    if act.item is None:
        resolve_all(model, act, SKIPPED)


def cancelled(model: Model, place: e.NodeCancelled | e.Place, reason: str) -> None:
    act = get(model, place)
    if reason == "loop" and not model.closing(act):
        model.blame("E7", f"{act.place} is cancelled for its loop, whose iteration is not closing")
    move(model, act, "cancelled")
    act.for_loop = reason == "loop"
    model.tokens -= act.tokens
    act.tokens = 0
    model.finish(act, "cancelled")
    if reason == "join" and act.item is None:
        act.fired = True
        win(model, act)
        resolve_all(model, act, SKIPPED)


def item_completed(model: Model, event: e.ItemCompleted) -> None:
    act = get(model, event)
    _outcome(model, act, event.attempt, "completes")
    _of_this_generation(model, act, event.attempt)
    move(model, act, "completed")
    model.finish(act, "completed")
    act.completed_seq, act.routed = event.seq, True


def item_failed(model: Model, event: e.ItemFailed) -> None:
    act = get(model, event)
    if act.state == "parked" and act.discarded:
        act.accepted = False
    _outcome(model, act, event.attempt, "fails")
    move(model, act, "failed")
    model.finish(act, "failed")


# -- people ------------------------------------------------------------------------------------------------------------


def parked(model: Model, event: e.NodeParked) -> None:
    act = get(model, event)
    if event.undo:
        act.undo_parked = True
        return
    expect(model, act, "fire", "fail")
    act.unlet = act.unlet or is_unlet(model, act)
    if model.state in RUN_OVER or model.state == "compensating":
        model.blame("R3", f"{act.place} is parked while the run is {model.state}")
    if event.failed:
        _withdraw(model, act)
        if act.accepted:
            model.blame("V3", f"{act.place} is parked as failed and has an outcome already")
    move(model, act, "parked")
    fire(model, act)
    model.finish(act, "parked")
    act.discarded = False


def requeued(model: Model, event: e.NodeRequeued) -> None:
    act = get(model, event)
    if event.undo:
        act.undo_retry_at = None
        return
    _alive(model, act, "is requeued", "running", "paused")
    if act.state != "parked":
        model.blame("V5", f"{act.place} is {act.state} and is requeued")
    if act.accepted:  # the work stays done (R7), and only its routing is open
        model.set_state(act, "completed")
        return
    act.spent, act.begun = False, frozenset()
    act.failures = act.crashes = 0
    if act.item is None:
        for item in _items(model, act):
            item.spent = False
    model.set_state(act, "held")


def _items(model: Model, owner: Act) -> list[Act]:
    found: list[Act] = []
    while (item := model.acts.get((owner.node, owner.scope, len(found)))) is not None:
        found.append(item)
    return found


def discarded(model: Model, event: e.NodeDiscarded) -> None:
    act = get(model, event)
    if act.state != "parked":
        model.blame("V5", f"{act.place} is {act.state} and is discarded")
    if event.as_ == "continue":
        guards.pass_by(model, act)
    act.discarded = True


def ignored(model: Model, event: e.ResultIgnored) -> None:
    """Accept an ignored result: the one thing an old attempt may leave behind (V4)."""


def each(handler: Any, *fields: str) -> Any:
    """The handler of a batch event, which is its places, one after the other."""

    def handle(model: Model, event: Any) -> None:
        for place in event.places:
            handler(model, place, *(getattr(event, name) for name in fields))

    return handle
