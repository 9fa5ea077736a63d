"""Mail: words of people for a handler that is at work, which it reads before its next call that costs something (rule 86).

A letter is a signal that names its activation. A call that wishes to begin while one waits is refused as if there were no room
for it, so its worker lets other calls end and gives the work back; the append that sends it again makes steps of the letters.
"""

from __future__ import annotations

from typing import Any

from perdure.kernel import events as e
from perdure.kernel.decider import Decider, Refusal
from perdure.kernel.run_ids import place
from perdure.kernel.state import Activation, State
from perdure.kernel.values import steps_of

PREFIX = "agent:"
"""How the names of such signals begin."""
STEPS = "mail/"
MOST_LETTERS = 100
"""How many a run takes."""


def line_of(state: State, activation: Activation) -> str:
    """The name of the signals that are letters to this activation."""
    return PREFIX + place(state.name(activation.node), activation.scope, activation.item_index)


def has_mail(state: State, activation: Activation) -> bool:
    return bool(state.unconsumed) and line_of(state, activation) in state.unconsumed


def check_room(d: Decider, name: str) -> None:
    """Refuse a letter to a run that has had enough."""
    if not name.startswith(PREFIX):
        return
    waiting = sum(len(line.entries) - line.head for word, line in d.state.unconsumed.items() if word.startswith(PREFIX))
    read = sum(len(_letters(one)) for one in d.state.activations.values() if one.checkpoint is not None)
    if waiting + read >= MOST_LETTERS:
        raise Refusal("too_much_mail", f"run {d.state.run_id} has had {MOST_LETTERS} messages, and takes no more")


def read_mail(d: Decider, activation: Activation, before: str) -> None:
    """Make a step of each letter that waits, in order: `before` is the step that is to read them."""
    name, number = line_of(d.state, activation), len(_letters(activation))
    while (line := d.state.unconsumed.get(name)) is not None:
        number += 1
        payload = line.first[1]
        data: dict[str, Any] = {**payload, "before": before} if isinstance(payload, dict) else {"before": before}
        d.emit_for(e.NodeCheckpointed, activation, step=f"{STEPS}{number}", data=data, signal=name, version=5)


def _letters(activation: Activation) -> list[str]:
    return [name for name in steps_of(activation.checkpoint) if name.startswith(STEPS)]
