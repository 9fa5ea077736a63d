"""Commands about triggers: what comes in, when a schedule is due, and what people say (rules 45, 49, 50, 55 to 59).

A trigger is a run of one node that never completes. What has come in waits in its mailbox; `hand_out.py` starts runs for it. Which
moments a schedule has is asked for, like every condition: time zones change, and a journal must fold without a calendar.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.continuations import next_id
from perdure.kernel.decider import Decider, Refusal
from perdure.kernel.facts.trigger_facts import timer_of
from perdure.kernel.lifecycle import R
from perdure.kernel.triggers.carried import carry
from perdure.kernel.triggers.hand_out import ask, count_open, hand_out, park, pause, stop_open
from perdure.kernel.triggers.mailbox import MOST_BYTES, Cursor, Item, Mailbox, Over, Overlap, run_of_item, run_of_moment
from perdure.kernel.triggers.poll_stops import change_source, stop_polls
from perdure.kernel.triggers.receivers import starts_runs
from perdure.kernel.triggers.windows import assign, find_replaced
from perdure.kernel.values import Error

SCHEDULE = "schedule"
PAGE = 10_000
"""The most moments that one look finds."""
EACH_PAGE = 200
"""The most of them where each is received."""
LATE_SECONDS = 60.0
"""How late a moment may be that is not made up for (`catchup: none`)."""
DEEPEST = 10
"""The longest chain of triggers, each started by a run of the one before."""
MOST_LANES = 10
LONG_MAILBOX = 200_000
"""Events after which a trigger goes on as a new run."""
_EMPTY = "empty"


def register(d: Decider, command: c.Register) -> None:
    """Register the trigger, or give it its next revision. First, what was due by the old spec is decided by it."""
    state = d.state
    if not any(node is not None and node.id == command.node and node.type == "trigger" for node in state.ir.nodes):
        raise Refusal("no_trigger", f"run {state.run_id} has no trigger {command.node}")
    _live(d)
    box = state.triggers.get(command.node)
    scheduled = command.kind == SCHEDULE
    cursor: Cursor = d.at if scheduled else command.cursor if command.topic else None
    revision = 1
    if box is not None:
        if box.kind != command.kind or box.name != command.name:
            raise Refusal(
                "kind_changed", f"{box.name} is a {box.kind} and stays one; give another trigger another name"
            )
        if (box.spec, box.policy) == (command.spec, command.policy):
            return
        if scheduled:
            look(d, command.node, box)
        revision = box.revision + 1
        if isinstance(box.cursor, float):
            cursor = max(box.cursor, d.at)
        elif not command.topic:
            cursor = change_source(d, command, box)
        elif command.topic == box.topic:  # otherwise it begins now: the past of another topic is not missed
            cursor = box.cursor
    d.emit(
        e.TriggerRegistered,
        node=command.node,
        name=command.name,
        kind=command.kind,
        spec=command.spec,
        policy=command.policy,
        revision=revision,
        cursor=cursor,
        source=command.source,
        manner=command.manner,
        begins="" if command.begins == "cursor" else command.begins,
        topic=command.topic,
        by=command.by,
        hook=command.hook if box is None else box.hook,
        **({"inner": True, "version": 2} if command.inner else {}),
    )
    if scheduled:
        _begin(d, command.node, state.triggers[command.node])


def _begin(d: Decider, node: str, box: Mailbox) -> None:
    """Set the timer of a schedule that is new, or has changed."""
    found = _ask_next(d, node, box.trigger, box.spec, _moment(box))
    if isinstance(found, Error):
        raise Refusal(found.code, found.message)
    _set_next(d, node, found)


def _ask_next(d: Decider, node: str, trigger: str, spec: Any, cursor: float) -> float | Error:
    """When the first moment after the cursor is due."""
    asked = c.MomentsAsked(trigger=trigger, spec=spec, since=cursor, until=cursor, most=1)
    verdict = ask(d, c.Need("moments", node, (), -1), asked)
    if verdict.error is not None:
        return Error("bad_schedule", verdict.error.message)
    if verdict.value["next"] is None:
        return Error("no_more_moments", f"{node} has no moment after this one")
    return float(verdict.value["next"])


def find_bad_schedule(d: Decider, command: c.Register) -> Error | None:
    """Why a schedule cannot be registered."""
    found = _ask_next(d, command.node, d.state.run_id, command.spec, d.at)
    return found if isinstance(found, Error) else None


def _set_next(d: Decider, node: str, due_at: float | None) -> None:
    box = d.state.triggers[node]
    most = box.policy.max_firings
    if due_at is not None and (not most or box.counted < most):
        d.emit(e.TimerSet, timer=timer_of(node), due_at=due_at)


# -- schedules ---------------------------------------------------------------------------------------------------------


def fire_timer(d: Decider, timer: str) -> None:
    node = timer.partition(":")[2]
    box = d.state.triggers.get(node)
    if box is not None and box.kind == SCHEDULE and d.state.state in (R.RUNNING, R.PAUSED):
        _set_next(d, node, look(d, node, box))


def look_again(d: Decider, node: str) -> None:
    """Look for moments where no timer does: the run has ended, and was retried."""
    if timer_of(node) not in d.state.timers:
        _set_next(d, node, look(d, node, d.state.triggers[node]))


def look_at_all(d: Decider) -> None:
    """Decide what is due now: before a pause by the rules, after one as what it kept from running (rule 56)."""
    for node, box in d.state.triggers.items():
        if box.kind == SCHEDULE:
            due_at = look(d, node, box)
            if timer_of(node) not in d.state.timers:
                _set_next(d, node, due_at)
    hand_out(d)


def look(d: Decider, node: str, box: Mailbox) -> float | None:
    """Give every moment after the cursor that is due a fate (rule 56), and say when the next one is due. Moments are found from
    the cursor, never from now."""
    cursor = _moment(box)
    question = ask_moments(node, box, d.at)
    verdict = ask(d, question.need, question.evidence)
    if verdict.error is not None:
        pause(d, "bad_schedule")
        return None
    found: list[list[Any]] = verdict.value["moments"]
    more, following = bool(verdict.value.get("more")), verdict.value["next"]
    upto = max([cursor, *(moment[0] for moment in found[-1:]), verdict.value.get("upto") or cursor])
    if upto > cursor:
        _receive(d, node, box, _sift(d, node, box, found, more=more), upto)
    return d.at if more else following


def ask_moments(node: str, box: Mailbox, at: float) -> c.Question:
    """The question which moments have come since the cursor."""
    most = EACH_PAGE if box.policy.catchup == "all" else PAGE
    asked = c.MomentsAsked(trigger=box.trigger, spec=box.spec, since=_moment(box), until=at, most=most)
    return c.Question(c.Need("moments", node), asked)


def _sift(d: Decider, node: str, box: Mailbox, found: list[list[Any]], *, more: bool) -> list[list[Any]]:
    """Choose the moments that are received; what is left out is a fact."""
    left: dict[str, list[float]] = {}
    kept: list[list[Any]] = []
    policy = box.policy
    room = policy.max_firings - box.counted if policy.max_firings else len(found)
    for place, moment in enumerate(found):
        nominal, due = moment[0], moment[1]
        last = place == len(found) - 1 and not more
        if d.state.state is R.PAUSED:
            reason = "paused"
        elif d.at - due > (LATE_SECONDS if policy.catchup == "none" else policy.within):
            reason = "catchup"
        elif policy.catchup != "all" and not last:
            reason = "superseded"
        elif run_of_moment(box.trigger, nominal) in box.seen:
            reason = "duplicate"
        elif len(kept) >= room:
            reason = "limit"
        else:
            kept.append(moment)
            continue
        left.setdefault(reason, []).append(nominal)
    for reason, moments in left.items():
        d.emit(e.TriggerSkipped, node=node, reason=reason, count=len(moments), since=moments[0], until=moments[-1])
    return kept


def _receive(d: Decider, node: str, box: Mailbox, moments: list[list[Any]], cursor: float) -> None:
    after = box.cursor
    if not moments:
        d.emit(e.TriggerAdvanced, node=node, after=after, cursor=cursor, reason=_EMPTY)
        return
    items = tuple(item_of(d.at, box, moment, place) for place, moment in enumerate(moments, 1))
    d.emit(e.TriggerReceived, node=node, after=after, cursor=cursor, revision=box.revision, items=items)
    _arrive(d, node, box, items)


def item_of(at: float, box: Mailbox, moment: list[Any], place: int) -> Item:
    """The item of a moment: that many places behind the last one that was received."""
    nominal, _, previous, following = moment
    return Item(
        number=box.position + place,
        id=f"{nominal:.3f}",
        run_id=run_of_moment(box.trigger, nominal),
        at=at,
        nominal=nominal,
        previous=previous,
        next=following,
    )


def _moment(box: Mailbox) -> float:
    if not isinstance(box.cursor, float):
        raise Refusal("not_a_schedule", f"{box.name} is a {box.kind} and has no moments")
    return box.cursor


def backfill(d: Decider, command: c.Backfill) -> None:
    box = box_of(d, command)
    _moment(box)
    if not command.since < command.until <= d.at:
        raise Refusal(
            "bad_range", "a backfill is about a range of the past: since comes before until, and until is not to come"
        )
    under_way = sum(lane.cursor < lane.until for lane in box.lanes.values())
    if under_way >= MOST_LANES:
        raise Refusal(
            "too_many_backfills", f"{under_way} backfills of {box.name} are under way; wait until one is done"
        )
    d.emit(
        e.TriggerBackfilling,
        node=command.node,
        lane=box.laned + 1,
        since=command.since,
        until=command.until,
        round=box.round + 1 if command.again else 0,
        open=max(1, command.open),
        by=command.by,
    )


def catch_up(d: Decider, command: c.Resume) -> None:
    """Make up for what a pause kept from running, by the policy for what was missed (rule 56): in a lane, as a backfill is."""
    for node, box in d.state.triggers.items():
        if box.missed is None:
            continue
        policy, (since, last) = box.policy, box.missed
        since = max(since, d.at - (LATE_SECONDS if policy.catchup == "none" else policy.within))
        if policy.catchup != "all":
            since = max(since, math.nextafter(last, -math.inf))  # the last one alone
        if since < last:
            d.emit(
                e.TriggerBackfilling,
                node=node,
                lane=box.laned + 1,
                since=since,
                until=last,
                open=max(1, policy.open),
                by=command.by,
            )


# -- what is pushed ----------------------------------------------------------------------------------------------------


def deliver(d: Decider, command: c.Deliver) -> None:
    """Take in what was pushed. An item whose id is known is the same item, and is answered with its number."""
    box = box_of(d, command)
    if box.kind == SCHEDULE:
        raise Refusal("not_a_source", f"{box.name} is a schedule; fire it instead")
    if box.source:
        raise Refusal("not_a_hook", f"{box.name} is a {box.kind}, which is polled; nothing is delivered to it")
    if box.topic:
        raise Refusal("not_a_hook", f"{box.name} listens to {box.topic}; nothing is delivered to it")
    check_revision(box, command.revision)
    items, inputs, errors = find_new(d.at, box, ((given, 0) for given in command.items))
    if items:
        _has_room(box, items)
        _add(d, command.node, box, items, inputs, errors)


def find_new(
    at: float, box: Mailbox, delivered: Iterable[tuple[c.Delivered, int]]
) -> tuple[list[Item], list[Any], dict[int, Error]]:
    """The items that are not known yet, numbered and put into windows, with their inputs; and which of them are poison. Each comes
    with its round."""
    items: list[Item] = []
    inputs: list[Any] = []
    errors: dict[int, Error] = {}
    new: set[str] = set()
    for given, turn in delivered:
        run_id = run_of_item(box.trigger, given.id, turn)
        if run_id in box.seen or run_id in new:
            continue
        new.add(run_id)
        number = box.position + len(items) + 1
        items.append(
            Item(
                number=number,
                id=given.id,
                run_id=run_id,
                key=given.key,
                at=at,
                round=turn,
                depth=given.depth,
                size=given.size,
            )
        )
        inputs.append(given.inputs)
        if given.error is not None:
            errors[number] = given.error
        elif given.depth >= DEEPEST:
            errors[number] = Error(
                "trigger_cycle", f"{DEEPEST} triggers led to this item, each by a run of the one before"
            )
    grouped = {one.number: one for one in assign(box, [one for one in items if one.number not in errors], at)}
    return [grouped.get(one.number, one) for one in items], inputs, errors


def _has_room(box: Mailbox, items: list[Item]) -> None:
    """Refuse what the mailbox cannot hold; one key holds at most a tenth of it, so no other is kept out by it."""
    most = box.policy.buffer
    if len(box.waiting) + len(items) > most:
        raise Refusal(
            "trigger_full", f"{len(box.waiting)} items of {box.name} wait, and {most} may; send it again later"
        )
    if box.bytes + sum(item.size for item in items) > MOST_BYTES:
        message = f"{len(box.waiting)} items of {box.name} wait and take {box.bytes:,} bytes of {MOST_BYTES:,} that may"
        raise Refusal("trigger_full", f"{message}; send it again later")
    keys = {item.key for item in items if item.key}
    share = max(1, most // 10, 0 if box.policy.window is None else box.policy.window.items)
    if box.policy.per_key and keys and len(box.waiting) + len(items) > share:
        for key in sorted(keys):
            count = sum(item.key == key for item in box.waiting.values()) + sum(item.key == key for item in items)
            if count > share:
                raise Refusal("trigger_full", f"{count} items of one key of {box.name} would wait; send it again later")


def fire(d: Decider, command: c.Fire) -> None:
    box = box_of(d, command)
    check_revision(box, command.revision)
    item = fired_item(box, command)
    if item.run_id not in box.seen:
        if box.mode(item) == "allow":  # under any other mode it takes a place that there is, or that of another
            _has_room(box, [item])
        _add(d, command.node, box, [item], [command.inputs], {})


def fired_item(box: Mailbox, command: c.Fire) -> Item:
    run_id = run_of_item(box.trigger, command.firing, by_hand=True)
    return Item(
        number=box.position + 1,
        id=command.firing,
        run_id=run_id,
        at=command.at,
        overlap=command.overlap,
        by_hand=True,
        by=command.by,
    )


def _add(d: Decider, node: str, box: Mailbox, items: list[Item], inputs: list[Any], errors: dict[int, Error]) -> None:
    add_items(d, box, items, inputs, errors, {"node": node, "after": box.cursor, "cursor": box.cursor})


def add_items(
    d: Decider, box: Mailbox, items: list[Item], inputs: list[Any], errors: dict[int, Error], moved: dict[str, Any]
) -> None:
    """Receive items; `moved` says which node's, and how the cursor moves with them."""
    node = moved["node"]
    given = inputs if any(one is not None for one in inputs) else None
    d.emit(e.TriggerReceived, **moved, revision=box.revision, items=tuple(items), inputs=given)
    for item in items:
        error = errors.get(item.number)
        if error is not None:
            park(d, node, item.number, error)
    if replaced := find_replaced(box, items):
        d.emit(e.TriggerSkipped, node=node, reason="superseded", numbers=replaced)
    # What is in a window waits for that to close, whatever is open now.
    _arrive(d, node, box, tuple(item for item in items if item.number in box.waiting and not item.window))


def _arrive(d: Decider, node: str, box: Mailbox, items: tuple[Item, ...]) -> None:
    """Decide what becomes of items that come while as many runs are open as may be (rule 48)."""
    if not box.apart and not box.windows and not box.inner and box.policy.overlap in ("skip", "buffer_one", "buffer"):
        _arrive_alike(d, node, box, items)
        return
    left: dict[str, list[int]] = {}
    new = {item.number for item in items}
    lanes = {item.lane for item in items}
    queues = {
        lane: sorted(
            n
            for n, item in box.waiting.items()
            if item.lane == lane and n not in new and not item.window and box.mode(item) != "allow"
        )
        for lane in lanes
    }
    room = {lane: max(0, box.limit(lane) - count_open(box, lane)) for lane in lanes}
    if box.inner:
        room = dict.fromkeys(lanes, 0)  # nothing runs for them: what waits has `buffer` places
    stops: set[int] = set()
    for item in items:
        mode, queue, free = box.mode(item), queues[item.lane], room[item.lane]
        if mode == "allow":
            continue
        if len(queue) - free < _most_behind(box, mode):
            queue.append(item.number)
        elif mode in ("cancel", "terminate"):
            if queue[free:]:
                left.setdefault("superseded", []).extend(queue[free:])
            queues[item.lane] = [*queue[:free], item.number]
            stops.add(item.lane)
        else:
            left.setdefault("limit" if mode == "buffer" else "overlap", []).append(item.number)
    for reason, numbers in left.items():
        d.emit(e.TriggerSkipped, node=node, reason=reason, numbers=tuple(numbers))
    if stops:
        stop_open(d, box, stops)


def _most_behind(box: Mailbox, mode: Overlap) -> float:
    """How many items may wait beyond those that there is room for."""
    if (box.source or box.topic) and mode == "buffer":
        return math.inf  # what the cursor has passed is kept: more is read only where there is room
    return {"buffer_one": 1, "buffer": box.policy.buffer}.get(mode, 0)


def _arrive_alike(d: Decider, node: str, box: Mailbox, items: tuple[Item, ...]) -> None:
    """`_arrive` where all that waits is in one lane and says nothing of its own: it is counted, and not looked at."""
    mode = box.policy.overlap
    beyond = len(box.waiting) - len(items) - max(0, box.limit(0) - count_open(box, 0))
    fit = max(0, min(len(items), _most_behind(box, mode) - beyond))
    if left := tuple(item.number for item in items[int(fit) :]):
        d.emit(e.TriggerSkipped, node=node, reason="limit" if mode == "buffer" else "overlap", numbers=left)


# -- ends and repair ---------------------------------------------------------------------------------------------------


def end_firing(d: Decider, command: c.EndFiring) -> None:
    """Count runs no more that have ended. An end counts for the firing it is about, and once."""
    box = d.state.triggers.get(command.node)
    if box is None or d.state.terminal:
        return
    said = {end.run_id: end for end in reversed(command.ends)}  # each run counts once, as it is named first
    ends = tuple(end for end in command.ends if said[end.run_id] is end and _is_open(box, end))
    if not ends:
        return
    d.emit(e.TriggerEnded, node=command.node, ends=ends)
    most = box.policy.pause_after_failures
    if most and box.failures >= most and any(end.state == "failed" for end in ends):
        pause(d, "failures")


def _is_open(box: Mailbox, end: Over) -> bool:
    firing = box.open.get(end.run_id)
    return firing is not None and firing.number == end.number


def settle_item(d: Decider, command: c.Settle) -> None:
    box = box_of(d, command)
    if command.number not in box.parked:
        raise Refusal("not_parked", f"item {command.number} of {box.name} is not parked")
    if command.as_ == "again":
        check_revision(box, command.revision)
    d.emit(
        e.TriggerReleased,
        node=command.node,
        number=command.number,
        as_=command.as_,
        key=command.key,
        inputs=command.inputs,
        by=command.by,
    )


def give_up(d: Decider) -> None:
    """Skip what waits, as the trigger is being deleted. Runs that were started go on, and those that are to start do."""
    for node, box in d.state.triggers.items():
        if box.waiting and not box.inner:
            d.emit(e.TriggerSkipped, node=node, reason="deleted", numbers=tuple(sorted(box.waiting)))


def box_of(d: Decider, command: c.MailboxCommand) -> Mailbox:
    _live(d)
    box = d.state.triggers.get(command.node)
    if box is None:
        raise Refusal("not_registered", f"run {d.state.run_id} has no trigger {command.node}")
    return box


def _live(d: Decider) -> None:
    if d.state.terminal:
        raise Refusal("run_ended", f"the trigger {d.state.run_id} is {d.state.state}")
    if d.state.state not in (R.RUNNING, R.PAUSED):
        raise Refusal("not_running", f"the trigger {d.state.run_id} is {d.state.state}")


def check_revision(box: Mailbox, revision: int) -> None:
    if revision != box.revision:
        raise Refusal("stale_revision", f"{box.name} has revision {box.revision}, and this was mapped by {revision}")


# -- going on as a new run ---------------------------------------------------------------------------------------------


def go_on_if_long(d: Decider) -> None:
    """Go on as a new run when the journal is long, with everything in the mailbox (rules 15 and 49)."""
    state = d.state
    if state.seq < LONG_MAILBOX or state.parent is not None or state.state not in (R.RUNNING, R.PAUSED):
        return
    if not starts_runs(state) or state.tokens:
        return
    carried = carry(state)
    pauses = tuple(sorted(state.pauses.items())) if state.state is R.PAUSED else ()
    new = next_id(state.run_id)
    stop_polls(d)
    d.emit(e.RunCompleted, continued_as=new)
    d.effect(fx.ContinueRun(run_id=new, adopted=(), inputs=state.inputs, pauses=pauses, mailboxes=carried))
