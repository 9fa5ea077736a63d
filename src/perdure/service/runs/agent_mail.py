"""Mail to an agent at work, as the signal that carries it (rule 86)."""

from __future__ import annotations

from typing import Any

from perdure.errors import Refused
from perdure.kernel.lifecycle import OPEN
from perdure.kernel.state import State
from perdure.kernel.steps.mail import line_of
from perdure.plain_text import hide
from perdure.service.errors import Invalid, Trouble
from perdure.service.runs.node_values import Which, get_activation

LONGEST_TEXT = 4_000


def letter_to(state: State, node: str, item: int | None, text: str) -> tuple[str, dict[str, Any]]:
    """The name and the payload of a signal that is a letter to the activation of a node which is at work."""
    if not text.strip() or len(text) > LONGEST_TEXT:
        message = f"a message has 1 to {LONGEST_TEXT:,} characters, this one has {len(text):,}"
        raise Invalid(message, [Trouble("text", "wrong_value", message)])
    found = get_activation(state, Which(node=node, item=item))
    if state.pinned(found).type != "agent":
        message = f"{node} is no agent, and reads no messages; `perdure runs signal` sends a signal"
        raise Refused(message, code="no_mailbox")
    if state.terminal or found.state not in OPEN:
        raise Refused(f"{node} of run {state.run_id} is {found.state.value}, and reads no more", code="not_waiting")
    return line_of(state, found), {"text": hide(text), "label": "user"}
