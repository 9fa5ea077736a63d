"""The tests of holes in triggers (docs/internals/holes.md) are worth something: with the bug that a hole is about, each fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel.triggers import hand_out, trigger_commands, windows
from perdure.kernel.triggers.mailbox import run_of_item
from tests.kernel.rules import test_schedules as schedules
from tests.kernel.rules import test_triggers as pushed
from tests.kernel.rules import test_windows as windowed

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]

_HANDLERS: Any = sys.modules["perdure.kernel.decide"]._HANDLERS


def _any_end_counts(patch: Patch) -> None:
    """The end of a run counts, whichever firing of it is meant (G6)."""
    real = trigger_commands.end_firing

    def end(d: Any, command: c.EndFiring) -> None:
        open_now = d.state.triggers[command.node].open
        there = [one for one in command.ends if one.run_id in open_now]
        ends = tuple(msgspec.structs.replace(one, number=open_now[one.run_id].number) for one in there)
        real(d, msgspec.structs.replace(command, ends=ends))

    patch.setitem(_HANDLERS, c.EndFiring, end)


def _a_pause_forgets_what_was_due(patch: Patch) -> None:
    patch.setattr(trigger_commands, "look_at_all", lambda d: None)


def _a_change_forgets_what_was_due(patch: Patch) -> None:
    patch.setattr(trigger_commands, "look", lambda d, node, box: None)


def _each_start_has_an_id_of_its_own(patch: Patch) -> None:
    """An item that comes again, and is known no longer, is another run (G13)."""
    count = iter(range(1000))
    patch.setattr(trigger_commands, "run_of_item", lambda *given, **more: f"{run_of_item(*given, **more)}{next(count)}")


def _each_page_runs_its_last(patch: Patch) -> None:
    real = trigger_commands._sift
    patch.setattr(trigger_commands, "_sift", lambda d, node, box, found, *, more: real(d, node, box, found, more=False))


def _deleting_forgets_what_waits(patch: Patch) -> None:
    patch.setattr(trigger_commands, "give_up", lambda d: None)


def _windows_without_end(patch: Patch) -> None:
    patch.setattr(windows, "_find_excess", lambda box: None)


def _a_mailbox_without_end(patch: Patch) -> None:
    patch.setattr(trigger_commands, "_has_room", lambda box, items: None)


def _poison_without_end(patch: Patch) -> None:
    patch.setattr(hand_out, "pause", lambda d, reason: None)


CAUGHT: dict[Plant, Callable[[Patch], None]] = {
    _any_end_counts: lambda patch: pushed.test_rule_49_an_end_counts_once_and_for_the_firing_it_is_about(),
    _a_pause_forgets_what_was_due: lambda patch: (
        schedules.test_rule_55_what_is_due_before_the_pause_is_not_lost_to_it()
    ),
    _a_change_forgets_what_was_due: lambda patch: (
        schedules.test_rule_56_a_change_decides_first_what_was_due_by_the_old_spec()
    ),
    _each_start_has_an_id_of_its_own: pushed.test_rule_47_an_item_that_is_no_longer_known_asks_for_the_run_it_had,
    _each_page_runs_its_last: schedules.test_rule_56_pages_before_the_last_only_supersede,
    _deleting_forgets_what_waits: lambda patch: pushed.test_rule_50_a_deleted_trigger_leaves_no_item_without_a_fate(),
    _windows_without_end: windowed.test_rule_46_one_window_more_than_may_be_closes_the_oldest,
    _a_mailbox_without_end: lambda patch: pushed.test_rule_45_a_full_mailbox_takes_nothing_and_one_key_takes_a_tenth(),
    _poison_without_end: pushed.test_rule_50_much_poison_pauses_the_trigger,
}


@pytest.mark.parametrize("plant", CAUGHT, ids=lambda plant: plant.__name__.strip("_"))
def test_the_test_of_a_hole_fails_with_its_bug(plant: Plant, monkeypatch: Patch) -> None:
    CAUGHT[plant](monkeypatch)
    plant(monkeypatch)
    with pytest.raises((AssertionError, AttributeError)):
        CAUGHT[plant](monkeypatch)
