"""The checker is not blind to triggers, and the walks are not either: each planted corruption and each planted bug is caught."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure.invariants import check
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.decider import Decider
from perdure.kernel.facts.fold_rules import HANDLERS
from perdure.kernel.lifecycle import IntegrityError, RunState
from perdure.kernel.state import State
from perdure.kernel.triggers import carried, hand_out, trigger_commands, windows
from perdure.kernel.triggers.mailbox import Item, Mailbox, Over, Rate, Windowing
from perdure.kernel.triggers.trigger_events import TriggerEnded, TriggerReceived
from perdure.kernel.triggers.trigger_run import TRIGGER
from tests.kernel.mailboxes import TriggerRun
from tests.property.test_mailbox import walk

replace = msgspec.structs.replace


def journal() -> list[Any]:
    """A hook with keys and limits: 1 and 4 run, 2 and 3 wait behind 1; then 1 ends and 2 runs."""
    run = TriggerRun()
    run.webhook(open=2, per_key=1)
    run.deliver("a", "b", "c", key="k")
    run.deliver("d", key="l")
    run.end(run.started[0].run_id)
    return run.journal


def moments() -> list[Any]:
    run = TriggerRun()
    run.schedule(overlap="buffer")
    run.pass_time(150)
    return run.journal


def change(events: list[Any], type_: str, edit: Callable[[Any], Any], *, last: bool = False) -> list[Any]:
    places = [place for place, event in enumerate(events) if event.type == type_]
    place = places[-1 if last else 0]
    return [*events[:place], edit(events[place]), *events[place + 1 :]]


def change_item(events: list[Any], edit: Callable[[Item], Item]) -> list[Any]:
    return change(
        events, "trigger.received", lambda event: replace(event, items=tuple(map(edit, event.items))), last=True
    )


def change_start(events: list[Any], **fields: Any) -> list[Any]:
    def edit(event: Any) -> Any:
        return replace(event, starts=tuple(replace(one, **fields) for one in event.starts))

    return change(events, "trigger.started", edit, last=True)


def pause_before_start(events: list[Any]) -> list[Any]:
    place = next(place for place, event in enumerate(events) if event.type == "trigger.started")
    run = TriggerRun()
    run.tell(c.Pause)
    paused = replace(run.journal[-1], seq=events[place].seq)
    return [*events[:place], paused, *(replace(event, seq=event.seq + 1) for event in events[place:])]


CORRUPTIONS: dict[str, tuple[str, Callable[[], list[Any]]]] = {
    "a number is left out": ("TG1", lambda: change_item(journal(), lambda item: replace(item, number=9))),
    "an item is started twice": ("TG1", lambda: change_start(journal(), numbers=(1,))),
    "an item is skipped that was started": (
        "TG1",
        lambda: change(moments_skipped(), "trigger.skipped", lambda event: replace(event, numbers=(1,))),
    ),
    "the cursor is not where it was": (
        "TG2",
        lambda: change(moments(), "trigger.received", lambda event: replace(event, after=5.0), last=True),
    ),
    "a run ends that is not open": (
        "TG3",
        lambda: change(journal(), "trigger.ended", lambda event: replace(event, ends=(Over("x", 1, "completed"),))),
    ),
    "a run ends for another firing": (
        "TG3",
        lambda: change(
            journal(), "trigger.ended", lambda event: replace(event, ends=(replace(event.ends[0], number=4),))
        ),
    ),
    "another run is started": ("TG4", lambda: change_start(journal(), run_id="x")),
    "an item has the run of another": (
        "TG4",
        lambda: change_item(moments(), lambda item: replace(item, run_id="tr~t1000020")),
    ),
    "too many runs are open": (
        "TG5",
        lambda: change(
            journal(), "trigger.registered", lambda event: replace(event, policy=replace(event.policy, open=1))
        ),
    ),
    "too many runs of one key are open": ("TG5", lambda: change_item(journal(), lambda item: replace(item, key="k"))),
    "an item overtakes one of its key": ("TG6", lambda: change_start(journal(), numbers=(3,))),
    "a moment is received before its time": (
        "TG7",
        lambda: change_item(moments(), lambda item: replace(item, nominal=2_000_000.0)),
    ),
    "a moment is received again": (
        "TG7",
        lambda: change_item(moments(), lambda item: replace(item, nominal=1_000_020.0)),
    ),
    "an old revision is received": (
        "TG8",
        lambda: change(journal(), "trigger.received", lambda event: replace(event, revision=0)),
    ),
    "a paused trigger starts": ("TG9", lambda: pause_before_start(journal())),
    "a window is started in part": ("TG13", lambda: change_start(grouped(), numbers=(1, 2))),
    "a window is started before it closes": (
        "TG13",
        lambda: change_policy(grouped(), window=Windowing(within=5.0, items=4)),
    ),
    "an item joins a window that is closed": (
        "TG13",
        lambda: change_policy(grouped(), window=Windowing(within=5.0, items=2)),
    ),
    "an item joins the window of another key": (
        "TG13",
        lambda: change_item(grouped(), lambda item: replace(item, key="l")),
    ),
    "a window has the run of another": ("TG4", lambda: change_start(grouped(), run_id="tr~w1")),
    "more runs start than the rate allows": ("TG5", lambda: change_policy(journal(), rate=Rate(1, 60.0))),
}


def grouped() -> list[Any]:
    """A hook with batches of three, one of which is full."""
    run = TriggerRun()
    run.webhook(window=Windowing(within=5.0, items=3))
    run.deliver("a", "b", key="k")
    run.deliver("c", key="k")
    return run.journal


def change_policy(events: list[Any], **fields: Any) -> list[Any]:
    return change(events, "trigger.registered", lambda event: replace(event, policy=replace(event.policy, **fields)))


def moments_skipped() -> list[Any]:
    run = TriggerRun()
    run.schedule()
    run.pass_time(100)
    return run.journal


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_caught(name: str) -> None:
    invariant, make = CORRUPTIONS[name]
    found = check(make(), {TRIGGER.hash: TRIGGER})
    assert invariant in {violation.id for violation in found}, found


def test_without_a_corruption_nothing_is_found() -> None:
    for make in (journal, moments, moments_skipped, grouped):
        assert check(make(), {TRIGGER.hash: TRIGGER}) == []


# -- planted bugs ------------------------------------------------------------------------------------------------------


def _key_order_ignored(patch: pytest.MonkeyPatch) -> None:
    def find(box: Mailbox, most: int, at: float) -> list[Any]:
        stripped = replace(box, waiting={n: replace(item, key="") for n, item in box.waiting.items()})
        found = real(stripped, most, at)
        return [replace(ready, items=tuple(box.waiting[item.number] for item in ready.items)) for ready in found]

    real = hand_out.find_eligible
    patch.setattr(hand_out, "find_eligible", find)


def _open_never_counted_down(patch: pytest.MonkeyPatch) -> None:
    handlers: Any = HANDLERS
    patch.setitem(handlers, TriggerEnded, lambda state, event: None)


def _duplicate_id_started_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("perdure.kernel.facts.trigger_facts.SEEN", 0)


def _paused_trigger_starts(patch: pytest.MonkeyPatch) -> None:
    def give(d: Decider) -> None:
        for node, box in d.state.triggers.items():
            if d.state.state in (RunState.RUNNING, RunState.PAUSED) and hand_out.find_eligible(box, 1, d.at):
                hand_out._start(d, node, box, hand_out.find_eligible(box, 1, d.at))

    patch.setattr(sys.modules["perdure.kernel.decide"], "hand_out", give)


def _moments_left_out_without_a_fact(patch: pytest.MonkeyPatch) -> None:
    real = trigger_commands._sift

    def sift(d: Decider, node: str, box: Mailbox, found: list[Any], *, more: bool) -> list[Any]:
        return real(d, node, box, found[-1:], more=more)

    patch.setattr(trigger_commands, "_sift", sift)


def _moments_from_now(patch: pytest.MonkeyPatch) -> None:
    def look(d: Decider, node: str, box: Mailbox) -> float | None:
        asked = c.MomentsAsked(trigger=box.trigger, spec=box.spec, since=d.at - 60, until=d.at, most=100)
        found = hand_out.ask(d, c.Need("moments", node), asked).value
        if found["moments"]:
            trigger_commands._receive(d, node, box, found["moments"], found["moments"][-1][0])
        following: float | None = found["next"]
        return following

    patch.setattr(trigger_commands, "look", look)


def _old_revision_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trigger_commands, "check_revision", lambda box, revision: None)
    real = Decider.emit

    def emit(d: Decider, kind: Any, /, **fields: Any) -> None:
        if kind is TriggerReceived and isinstance(d.command, c.Deliver):
            fields["revision"] = d.command.revision
        real(d, kind, **fields)

    patch.setattr(Decider, "emit", emit)


def _mailbox_not_carried_over(patch: pytest.MonkeyPatch) -> None:
    real = carried._carry
    patch.setattr(carried, "_carry", lambda state, node: _emptied(real(state, node)))


def _pause_lost_on_continuation(patch: pytest.MonkeyPatch) -> None:
    real = Decider.effect

    def effect(d: Decider, one: fx.Effect) -> None:
        real(d, replace(one, pauses=()) if isinstance(one, fx.ContinueRun) else one)

    patch.setattr(Decider, "effect", effect)


def _emptied(one: c.Carried) -> c.Carried:
    return replace(one, mailbox=replace(one.mailbox, waiting={}))


def _run_id_from_the_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trigger_commands, "run_of_item", lambda trigger, id, turn=0, by_hand=False: f"{trigger}~i{len(id)}")


def _cancel_starts_before_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mailbox, "limit", lambda box, lane: 1_000)


def _window_lost_when_carried(patch: pytest.MonkeyPatch) -> None:
    real = carried._carry

    def lose(state: State, node: str) -> c.Carried:
        one = real(state, node)
        box = one.mailbox
        left = {n: item for n, item in box.waiting.items() if not item.window}
        return replace(one, mailbox=replace(box, windows={}, newest={}, waiting=left))

    patch.setattr(carried, "_carry", lose)


def _window_starts_when_it_opens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hand_out, "find_closed", lambda box, at: list(box.windows))


def _item_joins_what_is_closed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(windows, "is_closed", lambda box, number, at: False)


def _rate_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hand_out, "count_allowed", lambda box, at, most: most)


BUGS = (
    _window_lost_when_carried,
    _window_starts_when_it_opens,
    _item_joins_what_is_closed,
    _rate_ignored,
    _key_order_ignored,
    _open_never_counted_down,
    _duplicate_id_started_again,
    _paused_trigger_starts,
    _moments_left_out_without_a_fact,
    _moments_from_now,
    _old_revision_accepted,
    _mailbox_not_carried_over,
    _pause_lost_on_continuation,
    _run_id_from_the_position,
    _cancel_starts_before_the_end,
)


@pytest.mark.slow
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_bug_is_caught(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(200):
        try:
            walk(seed, monkeypatch, steps=60)
        except (AssertionError, IntegrityError):
            return
    raise AssertionError(f"{plant.__name__} is not noticed")
