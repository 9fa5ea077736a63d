"""Asking a person on the terminal: approve or reject, right where the run is shown."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec

from perdure.cli.frame.database import user
from perdure.cli.frame.exits import say
from perdure.cli.terminal.output import shorten
from perdure.cli.terminal.speech import echo, style
from perdure.runtime.forms import fields_of, read_fields
from perdure.sdk.asks import Ask, Decision

_APPROVE, _REJECT, _LATER = ("a", "approve", "y", "yes"), ("r", "reject", "n", "no"), ("l", "later", "")


async def read_line(prompt: str) -> str | None:
    """A line from the terminal, or None at its end. Unlike a read in a thread, it can be cancelled."""
    echo(prompt, nl=False, err=True)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not answer.done():
            answer.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        line = await answer
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return line.strip() if line else None


async def ask_person(ask: Ask, form: Any = None) -> Decision | None:
    """Ask a person to decide, and give the decision; None: not now."""
    say()
    people = f" (for {', '.join(ask.approvers)})" if ask.approvers else ""
    say(style("? ", fg="yellow", bold=True) + style(ask.node, bold=True) + f" asks for a decision{people}")
    for line in _shown(ask.shown):
        say(f"    {line}")
    decision = await _decision()
    if decision is None:
        return None
    by = await _voter(ask.approvers)
    if by is None:
        return None
    data = await _fill_in(form) if decision == "approve" else None
    comments = await read_line("  Comments (enter for none): ")
    return Decision(decision=decision, by=by, comments=comments or "", data=data)


async def _fill_in(form: Any) -> dict[str, Any] | None:
    """Ask for each field of the form in a line. Whether the answers fit is decided elsewhere."""
    answers = {}
    for name, schema in fields_of(form).items():
        kind = schema.get("type", "any value") if isinstance(schema, dict) else "any value"
        needed = name in (form.get("required") or ())
        answers[name] = await read_line(f"  {name} ({kind}{'' if needed else ', enter for none'}): ") or ""
    return read_fields(form, answers)


async def _decision() -> Any:
    while True:
        answer = await read_line("  [a]pprove, [r]eject or [l]ater? ")
        word = (answer or "").lower()
        if word in _APPROVE:
            return "approve"
        if word in _REJECT:
            return "reject"
        if answer is None or word in _LATER:
            return None


async def _voter(approvers: tuple[str, ...]) -> str | None:
    me = user()
    if not approvers or me in approvers:
        return me
    if len(approvers) == 1:
        return approvers[0]
    while True:  # among several approvers, only a name that the person typed is recorded
        answer = await read_line(f"  As whom ({', '.join(approvers)})? ")
        if answer is None:
            return None
        if answer:
            return answer


def _shown(value: Any) -> list[str]:
    """The lines that a person should see before deciding, one for each part."""
    if value in (None, {}, []):
        return []
    parts = value.items() if isinstance(value, dict) else [("", value)]
    lines = []
    for name, part in list(parts)[:20]:
        text = part if isinstance(part, str) else msgspec.json.encode(part).decode()
        lines.append(f"{name}: {shorten(text, 200)}" if name else shorten(text, 200))
    return lines
