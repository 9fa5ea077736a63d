"""What a decision will surely ask: answered beforehand, the command is decided once, and not begun, taken back and decided again.

Only a shortcut, taken for what comes most often. An answer that is not asked for does nothing, and what was not foreseen is asked.
"""

from __future__ import annotations

import msgspec

from perdure.kernel import commands as c
from perdure.kernel.hand_out import MOST_STARTS, Ready, ask_target
from perdure.kernel.lifecycle import RunState
from perdure.kernel.state import State
from perdure.kernel.triggers import find_new, fired_item

_PUSHES = (c.Deliver, c.Fire)


def foresee(state: State, command: c.Command) -> list[c.Question]:
    """What deciding on a push will ask, where that is as simple as mostly: nothing waits, so its items start at once."""
    if not isinstance(command, _PUSHES) or state.state is not RunState.RUNNING:
        return []
    box = state.triggers.get(command.node)
    if box is None or box.inner or box.waiting or box.policy.window is not None or command.revision != box.revision:
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
