"""What a decision will surely ask: answered beforehand, the command is decided once, and not begun, taken back and decided again.

Only a shortcut, taken for what comes most often. An answer that is not asked for does nothing, and what was not foreseen is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from perdure.kernel import commands as c
from perdure.kernel.facts.trigger_facts import timer_of
from perdure.kernel.lifecycle import R
from perdure.kernel.state import State
from perdure.kernel.triggers.hand_out import MOST_STARTS, Ready, ask_target
from perdure.kernel.triggers.mailbox import Mailbox
from perdure.kernel.triggers.trigger_commands import SCHEDULE, ask_moments, find_new, fired_item, item_of


def foresee(state: State, command: c.Command, verdicts: Mapping[c.Need, c.Verdict]) -> list[c.Question]:
    """What deciding will surely ask next, with these answers; nothing more, where the list is empty."""
    if not state.triggers or state.state is not R.RUNNING:
        return []
    if isinstance(command, c.FireTimer):
        return _foresee_moment(state, command, verdicts)
    return [] if verdicts else _foresee_push(state, command)


def foresee_workflow(state: State, command: c.Command) -> str:
    """The workflow whose version deciding will ask for, as something comes that starts a run; empty where that is not sure. It is looked
    up somewhere else, so that nothing is to be decided before it is at hand."""
    if not state.triggers or state.state is not R.RUNNING:
        return ""
    box = _find_due(state, command) if isinstance(command, c.FireTimer) else _find_pushed(state, command)
    return "" if box is None or box.waiting or _is_full(box) else box.policy.workflow


def _foresee_moment(state: State, command: c.FireTimer, verdicts: Mapping[c.Need, c.Verdict]) -> list[c.Question]:
    """The one moment that is due, where nothing waits and a run may be open: first which it is, then what it starts."""
    node, box = command.timer.partition(":")[2], _find_due(state, command)
    if box is None:
        return []
    question = ask_moments(node, box, command.at)
    if not verdicts:
        return [question]
    verdict = verdicts.get(question.need)
    if len(verdicts) > 1 or verdict is None or verdict.error is not None or box.waiting or _is_full(box):
        return []
    moments = verdict.value["moments"]
    if len(moments) != 1 or verdict.value.get("more") or moments[0][1] < command.at - box.policy.within:
        return []
    item = item_of(command.at, box, moments[0], 1)
    return [] if item.run_id in box.seen else [ask_target(node, box, Ready((item,), item.run_id))]


def _find_due(state: State, command: c.FireTimer) -> Mailbox | None:
    """The schedule whose timer this is."""
    node = command.timer.partition(":")[2]
    box = state.triggers.get(node)
    return None if box is None or box.kind != SCHEDULE or box.inner or command.timer != timer_of(node) else box


def _find_pushed(state: State, command: c.Command) -> Mailbox | None:
    """The mailbox that takes what is pushed and starts it at once, if it starts anything."""
    if not isinstance(command, c.Deliver | c.Fire):
        return None
    box = state.triggers.get(command.node)
    if box is None or box.inner or box.waiting or box.policy.window is not None or command.revision != box.revision:
        return None
    return box


def _is_full(box: Mailbox) -> bool:
    return box.policy.overlap != "allow" and len(box.open) >= box.policy.open


def _foresee_push(state: State, command: c.Command) -> list[c.Question]:
    """What comes in is started at once where nothing waits."""
    box = _find_pushed(state, command)
    if box is None or not isinstance(command, c.Deliver | c.Fire):
        return []
    if isinstance(command, c.Fire):
        item = fired_item(box, command)
        pushed = [] if item.run_id in box.seen else [(item, command.inputs)]
    else:
        items, inputs, errors = find_new(command.at, box, ((given, 0) for given in command.items))
        pushed = [pair for pair in zip(items, inputs, strict=True) if pair[0].number not in errors]
    return [
        ask_target(command.node, box, Ready((msgspec.structs.replace(item, inputs=given),), item.run_id))
        for item, given in pushed[:MOST_STARTS]
    ]
