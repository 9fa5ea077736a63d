"""Simulated histories with a schedule or with windows: every moment is accounted for; and planted bugs do not hide there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.decider import Decider
from perdure.kernel.facts.fold_rules import HANDLERS
from perdure.kernel.lifecycle import RunState
from perdure.kernel.state import State
from perdure.kernel.triggers import carried, hand_out, trigger_commands
from perdure.kernel.triggers.mailbox import Mailbox
from perdure.runtime.coordinator import loaded
from perdure.runtime.coordinator.inbox import Handling
from perdure.runtime.coordinator.messages import Noticed
from perdure.runtime.coordinator.ownership.listener import Listener
from perdure.runtime.lost_runs import LostRuns
from perdure.simulation.plan import DIVIDED_FROM, SCHEDULES_FROM, TRIGGERS_FROM, make_plan
from perdure.simulation.worlds.schedule_world import ScheduleWorld, make_world
from perdure.simulation.worlds.trigger_world import TriggerWorld

replace = msgspec.structs.replace
Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 4, 5, DIVIDED_FROM + 2, DIVIDED_FROM + 3])
def test_every_moment_is_accounted_for(seed: int) -> None:
    world = make_world(make_plan(SCHEDULES_FROM + seed)).run()
    assert isinstance(world, ScheduleWorld)
    assert world.failures == []


@pytest.mark.slow
@pytest.mark.parametrize("start", [100, 120, DIVIDED_FROM + 100, DIVIDED_FROM + 120])
def test_so_it_is_in_many_histories(start: int) -> None:
    for seed in range(start, start + 20):
        assert make_world(make_plan(SCHEDULES_FROM + seed)).run().failures == [], seed


def test_seeds_below_are_as_they_were() -> None:
    assert type(make_world(make_plan(TRIGGERS_FROM + 7))) is TriggerWorld
    assert type(make_world(make_plan(SCHEDULES_FROM + DIVIDED_FROM + 7))) is ScheduleWorld


# -- planted bugs ------------------------------------------------------------------------------------------------------


def _items_without_the_cursor(patch: pytest.MonkeyPatch) -> None:
    real = Decider.emit

    def emit(d: Decider, kind: Any, /, **fields: Any) -> None:
        if kind is e.TriggerReceived:
            fields["cursor"] = fields["after"]
        real(d, kind, **fields)

    patch.setattr(Decider, "emit", emit)


def _moments_left_out_without_a_fact(patch: pytest.MonkeyPatch) -> None:
    real = trigger_commands._sift

    def sift(d: Decider, node: str, box: Mailbox, found: list[Any], *, more: bool) -> list[Any]:
        return real(d, node, box, found[-1:], more=more)

    patch.setattr(trigger_commands, "_sift", sift)


def _moment_from_now(patch: pytest.MonkeyPatch) -> None:
    """What passed while no process looked is passed over."""
    real = trigger_commands.look

    def look(d: Decider, node: str, box: Mailbox) -> float | None:
        if isinstance(box.cursor, float) and d.at - box.cursor > 40.0:
            d.emit(e.TriggerAdvanced, node=node, after=box.cursor, cursor=d.at - 1.0)
        return real(d, node, box)

    patch.setattr(trigger_commands, "look", look)


def _catch_up_runs_the_superseded(patch: pytest.MonkeyPatch) -> None:
    """With `latest`, each is received; the fact that it is not is written all the same."""
    real = trigger_commands._sift

    def sift(d: Decider, node: str, box: Mailbox, found: list[Any], *, more: bool) -> list[Any]:
        kept = real(d, node, box, found, more=more)
        return found if kept else kept

    patch.setattr(trigger_commands, "_sift", sift)


def _paused_trigger_starts(patch: pytest.MonkeyPatch) -> None:
    def give(d: Decider) -> None:
        for node, box in d.state.triggers.items():
            if d.state.state in (RunState.RUNNING, RunState.PAUSED) and (found := hand_out.find_eligible(box, 1, d.at)):
                hand_out._start(d, node, box, found)

    patch.setattr(sys.modules["perdure.kernel.decide"], "hand_out", give)


def _cancel_starts_before_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mailbox, "limit", lambda box, lane: 1_000)


def _open_never_counted_down(patch: pytest.MonkeyPatch) -> None:
    handlers: Any = HANDLERS
    patch.setitem(handlers, e.TriggerEnded, lambda state, event: None)


def _run_id_from_the_position(patch: pytest.MonkeyPatch) -> None:
    """After the journal went back, what comes again gets the number of something else."""
    real = trigger_commands.item_of

    def number(at: float, box: Mailbox, moment: list[Any], place: int) -> Any:
        item = real(at, box, moment, place)
        return replace(item, run_id=f"{box.trigger}~t{item.number}")

    patch.setattr(trigger_commands, "item_of", number)


def _backfill_repeats(patch: pytest.MonkeyPatch) -> None:
    """The page of a backfill is received, and its cursor stays."""
    real = Decider.emit

    def emit(d: Decider, kind: Any, /, **fields: Any) -> None:
        if kind is e.TriggerReceived and fields.get("lane"):
            fields["cursor"] = fields["after"]
        real(d, kind, **fields)

    patch.setattr(Decider, "emit", emit)


def _window_lost_on_restart(patch: pytest.MonkeyPatch) -> None:
    """What a window holds is known to the process that received it, and is not in the snapshot nor carried over."""
    real = carried._carry

    def lose(state: State, node: str) -> c.Carried:
        one = real(state, node)
        left = {n: item for n, item in one.mailbox.waiting.items() if not item.window}
        return replace(one, mailbox=replace(one.mailbox, windows={}, newest={}, waiting=left))

    patch.setattr(carried, "_carry", lose)


def _mailbox_not_carried_over(patch: pytest.MonkeyPatch) -> None:
    real = carried._carry

    def lose(state: State, node: str) -> c.Carried:
        one = real(state, node)
        return replace(one, mailbox=replace(one.mailbox, open={}))

    patch.setattr(carried, "_carry", lose)


def _notice_consumed_before_creation(patch: pytest.MonkeyPatch) -> None:
    real = Listener._tell_start

    async def consume(self: Any, notice: Any, begins: Any, there: Any) -> None:
        await self._journal.delete_notices([notice.notice_id])
        await self._clock.sleep(0.5)
        await real(self, replace(notice, notice_id=0), begins, there)

    patch.setattr(Listener, "_tell_start", consume)


def _notice_after_the_commit(patch: pytest.MonkeyPatch) -> None:
    """That a run is to begin is written with whatever the trigger decides next, if its process is still there then."""
    real_notice, real_commit = loaded.Loaded._notice, loaded.Loaded.commit
    late: dict[int, tuple[Any, list[Any]]] = {}

    def notice(self: Any, effect: Any) -> None:
        if isinstance(effect, fx.StartRun):
            late.setdefault(id(self), (self, []))[1].append(effect)
        else:
            real_notice(self, effect)

    def commit(self: Any, *arguments: Any) -> Any:
        made = real_commit(self, *arguments)
        for effect in late.pop(id(self), (self, []))[1]:
            real_notice(self, effect)
        return made

    patch.setattr(loaded.Loaded, "_notice", notice)
    patch.setattr(loaded.Loaded, "commit", commit)


def _notice_to_a_continued_run_dropped(patch: pytest.MonkeyPatch) -> None:
    """The end of a run is consumed by the trigger that has gone on as another, which is told nothing; and nobody looks for it."""
    real = Handling._handle

    def handle(self: Any, into: Any, message: Any, batch: Any) -> None:
        before = list(into.notices)
        real(self, into, message, batch)
        if isinstance(message, Noticed) and len(into.notices) > len(before) and into.notices[-1][1] == message.body:
            into.notices.pop()

    patch.setattr(Handling, "_handle", handle)
    _nobody_looks(patch)


def _lost_run_still_open(patch: pytest.MonkeyPatch) -> None:
    _end_not_told(patch)
    _nobody_looks(patch)


def _nobody_looks(patch: pytest.MonkeyPatch) -> None:
    async def look(self: Any) -> None:
        pass

    patch.setattr(LostRuns, "look", look)


def _end_not_told(patch: pytest.MonkeyPatch) -> None:
    real = loaded.Loaded._notice

    def forget(self: Any, effect: Any) -> None:
        if not isinstance(effect, fx.NotifyTrigger):
            real(self, effect)

    patch.setattr(loaded.Loaded, "_notice", forget)


@pytest.mark.slow
def test_an_end_that_is_not_told_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _end_not_told(monkeypatch)
    world = make_world(make_plan(SCHEDULES_FROM + 2)).run()
    assert world.failures == []


BUGS: dict[Plant, tuple[str, int]] = {
    _items_without_the_cursor: ("TG7", 7),
    _moments_left_out_without_a_fact: ("TG7", 16),
    _moment_from_now: ("TG7", 18),
    _catch_up_runs_the_superseded: ("TG7", 19),
    _paused_trigger_starts: ("TG9", 16),
    _cancel_starts_before_the_end: ("TG5", 16),
    _open_never_counted_down: ("TG3", 2),
    _run_id_from_the_position: ("TG4", 19),
    _backfill_repeats: ("TG7", 12),
    _window_lost_on_restart: ("TG1", 4),
    _mailbox_not_carried_over: ("TG1", 4),
    _notice_after_the_commit: ("TG3", 12),
    _notice_consumed_before_creation: ("TG3", 12),
    _notice_to_a_continued_run_dropped: ("TG10", 4),
    _lost_run_still_open: ("TG10", 2),
}
"""What tells of each, and a seed from which on it soon shows."""


@pytest.mark.slow
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_bug_is_caught_by_its_name(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    name, first = BUGS[plant]
    told = set()
    for seed in range(first, first + 300):
        told |= {failure.rule for failure in make_world(make_plan(SCHEDULES_FROM + seed)).run().failures}
        if name in told:
            return
    raise AssertionError(f"{plant.__name__} is not told by {name}, but by {told}")
