"""Starts runs for what waits in a mailbox, after every command, as far as its limits allow (rules 46 to 50, 58)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.decider import Decider, Unknown
from perdure.kernel.facts.trigger_facts import timer_of
from perdure.kernel.lifecycle import R
from perdure.kernel.triggers.mailbox import Begun, Item, Lane, Mailbox, run_of_moment, run_of_window
from perdure.kernel.triggers.poll_stops import stop_polls
from perdure.kernel.triggers.rates import count_allowed, next_allowed
from perdure.kernel.triggers.windows import find_closed, next_close
from perdure.kernel.values import Error, Fired

MOST_STARTS = 200
"""The most runs that one decision starts."""
PARKED_AT_ONCE = 20
"""The items after which a decision parks no more. Where one item waits for the one before, each is a question of its own, and a
decision begins anew with every answer: what it costs grows with the square of this."""
LANE_PAGE = 100
"""The most moments of a backfill that wait at once."""
MOST_PARKED = 1_000
"""The parked items that pause a trigger: so much poison has one cause."""


def ask(d: Decider, need: c.Need, asked: Any) -> c.Verdict:
    verdict = d.verdicts.get(need)
    if verdict is None:
        raise Unknown([c.Question(need, asked)])
    return verdict


def pause(d: Decider, reason: str) -> None:
    if d.state.state is R.RUNNING:
        stop_polls(d)
    if d.state.state is R.RUNNING or (d.state.state is R.PAUSED and reason not in d.state.pauses):
        d.emit(e.RunPaused, by="trigger", reason=reason)


def park(d: Decider, node: str, number: int, error: Error) -> None:
    """Put an item aside that can start no run: a person looks at it, and the others go on (rule 50)."""
    box = d.state.triggers[node]
    d.emit(e.TriggerParked, node=node, number=number, error=error)
    if box.policy.on_poison == "stop" or len(box.parked) >= MOST_PARKED:
        pause(d, "poison")


def stop_open(d: Decider, box: Mailbox, lanes: set[int]) -> None:
    for effect in find_stops(box):
        if box.open[effect.run_id].lane in lanes:
            d.effect(effect)


def find_stops(box: Mailbox) -> list[fx.StopRun]:
    """The runs that newer items wait to take the place of (rule 48)."""
    modes: dict[int, bool] = {}
    for item in box.waiting.values():
        mode = box.mode(item)
        if mode in ("cancel", "terminate"):
            modes[item.lane] = modes.get(item.lane, False) or mode == "terminate"
    return [
        fx.StopRun(run_id=run_id, number=firing.number, force=modes[firing.lane])
        for run_id, firing in sorted(box.open.items())
        if firing.lane in modes
    ]


def hand_out(d: Decider) -> None:
    for node, box in d.state.triggers.items():
        if d.state.state is R.RUNNING and not box.inner and (box.waiting or box.lanes):
            _hand_out(d, node, box)


def _hand_out(d: Decider, node: str, box: Mailbox) -> None:
    _turn_pages(d, node, box)
    left, parked = MOST_STARTS, len(box.parked)
    more = False
    while d.state.state is R.RUNNING:
        allowed = count_allowed(box, d.at, left)
        wanted = max(1, allowed)
        batch = find_eligible(box, wanted, d.at)
        more = bool(batch)
        if not more or not allowed or len(box.parked) - parked >= PARKED_AT_ONCE:
            break
        repeated = tuple(item.number for ready in batch if ready.run_id in box.open for item in ready.items)
        if repeated:
            d.emit(e.TriggerSkipped, node=node, reason="duplicate", numbers=repeated)
            continue
        started = _start(d, node, box, batch)
        left -= started
        if started == len(batch) < wanted:  # that was all, and nothing was put aside that others wait behind
            more = False
            break
    if d.state.state is not R.RUNNING:
        return
    due_at = _find_next_look(box, d.at, more=more)
    if due_at is not None:
        known = d.state.timers.get(timer_of(node))
        if known is None or known.due_at > due_at:
            d.emit(e.TimerSet, timer=timer_of(node), due_at=due_at)


def _find_next_look(box: Mailbox, at: float, *, more: bool) -> float | None:
    """When something may be started or received that may not be now. `more`: something waits for the next decision, or for the
    rate."""
    looks = [at] if _find_pages(box) else []
    if more:
        looks.append(next_allowed(box, at))
    closes = next_close(box, at)
    return min(looks if closes is None else [*looks, closes], default=None)


class Ready(msgspec.Struct, frozen=True):
    """The items of one run: one item, or all of a window."""

    items: tuple[Item, ...]
    run_id: str
    window: bool = False

    @property
    def last(self) -> Item:
        return self.items[-1]


def find_eligible(box: Mailbox, most: int, at: float) -> list[Ready]:
    """What may start a run now, in order: an item waits behind earlier ones of its key, and in a window until that closes (rule
    46)."""
    if not box.waiting:
        return []
    if not box.apart and box.policy.overlap != "allow":
        return _find_alike(box, most, at)
    lanes: dict[int, int] = {}
    keys: dict[str, int] = {}
    for firing in box.open.values():
        lanes[firing.lane] = lanes.get(firing.lane, 0) + 1
        keys[firing.key] = keys.get(firing.key, 0) + 1
    behind: set[str] = set()
    found: list[Ready] = []
    for number in _list_candidates(box, at):
        item = box.waiting[number]
        counted = box.mode(item) != "allow"
        full = counted and lanes.get(item.lane, 0) >= box.limit(item.lane)
        if item.key and (item.key in behind or (box.policy.per_key and keys.get(item.key, 0) >= box.policy.per_key)):
            full = True
        if full:
            if item.key:
                behind.add(item.key)
            continue
        if counted:
            lanes[item.lane] = lanes.get(item.lane, 0) + 1
            keys[item.key] = keys.get(item.key, 0) + 1
        found.append(_prepare(box, item))
        if len(found) == most:
            break
    return found


def _find_alike(box: Mailbox, most: int, at: float) -> list[Ready]:
    """`find_eligible` where all that waits is in one lane and says nothing of its own: thousands may wait, at every command."""
    policy, waiting = box.policy, box.waiting
    left = min(most, policy.open - count_open(box, 0))
    keys: dict[str, int] | None = None
    behind: set[str] = set()
    found: list[Ready] = []
    for number in _list_candidates(box, at) if left > 0 else ():
        item = waiting[number]
        key = item.key
        if key and policy.per_key:
            if key in behind:
                continue
            if keys is None:
                keys = {}
                for firing in box.open.values():
                    keys[firing.key] = keys.get(firing.key, 0) + 1
            count = keys.get(key, 0)
            if count >= policy.per_key:
                behind.add(key)
                continue
            keys[key] = count + 1
        found.append(_prepare(box, item))
        if len(found) == left:
            break
    return found


def count_open(box: Mailbox, lane: int) -> int:
    return sum(firing.lane == lane for firing in box.open.values()) if box.laned else len(box.open)


def _list_candidates(box: Mailbox, at: float) -> list[int]:
    """What waits, in order; of a window that is closed its first item, and nothing of one that is open, nor of what was put
    aside and came back behind it."""
    if not box.windows:
        return sorted(box.waiting)
    found = [number for number, item in box.waiting.items() if not item.window]
    closed = set(find_closed(box, at))
    for number in closed:
        window = box.windows[number]
        newest = box.newest.get(window.key, number) if window.key else number
        if newest >= number or newest in closed:
            found.append(window.numbers[0])
    return sorted(found)


def _prepare(box: Mailbox, item: Item) -> Ready:
    if not item.window:
        return Ready((item,), item.run_id)
    items = tuple(box.waiting[number] for number in box.windows[item.window].numbers)
    return Ready(items, run_of_window(box.trigger, (one.id for one in items)), window=True)


def ask_target(node: str, box: Mailbox, ready: Ready) -> c.Question:
    items = ready.items if ready.window else ()
    about: dict[str, Any] = {"workflow": box.policy.workflow, "spec": box.spec, "last_success": box.succeeded}
    asked = c.TargetAsked(**about, item=ready.last, items=items)
    return c.Question(c.Need("target", node, (), ready.last.number), asked)


def _start(d: Decider, node: str, box: Mailbox, batch: list[Ready]) -> int:
    """Start a run for each item or window whose workflow and inputs are in order; park the others. Gives how many were started."""
    workflow = box.policy.workflow
    needs = [c.Need("target", node, (), ready.last.number) for ready in batch]
    missing = [ask_target(node, box, ready) for need, ready in zip(needs, batch, strict=True) if need not in d.verdicts]
    if missing:
        raise Unknown(missing)
    starts: list[Begun] = []
    count = 0
    for need, ready in zip(needs, batch, strict=True):
        verdict, item = d.verdicts[need], ready.last
        if verdict.error is not None:
            count += _record(d, node, starts)  # what comes before it is started, also where the trigger stops at it
            for one in ready.items:
                park(d, node, one.number, verdict.error)
            if d.state.state is not R.RUNNING:
                return count
            continue
        found = verdict.value
        numbers = tuple(one.number for one in ready.items)
        starts.append(Begun(numbers, ready.run_id, workflow, found["version"], found["ir"]))
        depth = max(one.depth for one in ready.items) + 1
        d.effect(
            fx.StartRun(
                run_id=ready.run_id,
                workflow=workflow,
                version=found["version"],
                ir=found["ir"],
                inputs=found.get("inputs", item.inputs),
                trigger=Fired(box.trigger, item.number, depth, box.mode(item) != "allow"),
                name=box.name,
                item=item.id,
                asked_by=tuple(dict.fromkeys(by for by in (box.by, *(one.by for one in ready.items)) if by)),
            )
        )
    return count + _record(d, node, starts)


def _record(d: Decider, node: str, starts: list[Begun]) -> int:
    count = len(starts)
    if starts:
        d.emit(e.TriggerStarted, node=node, starts=tuple(starts))
        starts.clear()
    return count


# -- backfill ----------------------------------------------------------------------------------------------------------


def _find_pages(box: Mailbox) -> list[int]:
    """The backfills whose next moments may be received: none of those before waits any more."""
    if not box.lanes:
        return []
    busy = {item.lane for item in box.waiting.values()}
    return [number for number, lane in sorted(box.lanes.items()) if lane.cursor < lane.until and number not in busy]


def _turn_pages(d: Decider, node: str, box: Mailbox) -> None:
    for number in _find_pages(box):
        if d.state.state is R.RUNNING:
            _turn_page(d, node, box, number, box.lanes[number])


def _turn_page(d: Decider, node: str, box: Mailbox, number: int, lane: Lane) -> None:
    asked = c.MomentsAsked(
        trigger=box.trigger, spec=box.spec, since=lane.cursor, until=lane.until, most=LANE_PAGE, nominal=True
    )
    verdict = ask(d, c.Need("moments", node, (), number), asked)
    if verdict.error is not None:
        pause(d, "bad_schedule")
        return
    moments: list[list[Any]] = verdict.value["moments"]
    upto = lane.until
    if verdict.value.get("more"):
        upto = max([*(moment[0] for moment in moments[-1:]), verdict.value.get("upto") or lane.cursor])
    runs = [(moment, run_of_moment(box.trigger, moment[0], lane.round)) for moment in moments]
    known = [moment[0] for moment, run_id in runs if run_id in box.seen]
    if known:
        d.emit(
            e.TriggerSkipped,
            node=node,
            lane=number,
            reason="duplicate",
            count=len(known),
            since=known[0],
            until=known[-1],
        )
    items = tuple(
        Item(
            number=box.position + place,
            id=f"{moment[0]:.3f}",
            run_id=run_id,
            at=d.at,
            nominal=moment[0],
            previous=moment[2],
            next=moment[3],
            lane=number,
            round=lane.round,
        )
        for place, (moment, run_id) in enumerate([one for one in runs if one[1] not in box.seen], 1)
    )
    where: dict[str, Any] = {"node": node, "lane": number, "after": lane.cursor, "cursor": upto}
    if not items:
        d.emit(e.TriggerAdvanced, **where, reason="empty")
        return
    d.emit(e.TriggerReceived, **where, revision=box.revision, items=items)
