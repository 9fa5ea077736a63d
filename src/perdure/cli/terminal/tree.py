"""A run as a tree on a terminal, redrawn while it goes on: nodes, states, durations, and what each waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rich.console import Console
from rich.text import Text

from perdure.cli.terminal.output import COLOURS, compact, duration, shorten, until
from perdure.cli.terminal.painter import Painter, Redirection
from perdure.clock import system
from perdure.kernel import events as e
from perdure.kernel.lifecycle import ENDED, N, NodeState, R
from perdure.kernel.readings.explain import find_latest
from perdure.kernel.readings.run_view import read_progress
from perdure.kernel.readings.seen import JOURNAL, Seen
from perdure.kernel.state import Activation, State
from perdure.kernel.triggers.receivers import say_source
from perdure.kernel.values import Asked
from perdure.model.ir import Node
from perdure.runtime.coordinator.projections import only_waits
from perdure.runtime.failures import show_place

FRAMES_PER_SECOND = 8
_SHARE = 0.1
"""The largest share of the time that goes into drawing: a run of 100,000 nodes is drawn less often."""

_SYMBOLS = {
    N.PENDING: "·",
    N.HELD: "‖",
    N.QUEUED: "○",
    N.RUNNING: "●",
    N.WAITING: "◔",
    N.RETRYING: "↻",
    N.PARKED: "■",
    N.COMPLETED: "✓",
    N.FAILED: "✗",
    N.UPSTREAM_FAILED: "✗",
    N.SKIPPED: "–",
    N.CANCELLED: "✗",
    N.COMPENSATED: "↶",
}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ENDED_WELL = (N.COMPLETED, N.SKIPPED)
_DIM = "bright_black"
_RECENT = 3
"""How many of the nodes that have just ended stay in sight when there is no room for all."""
_LEAST_ROWS = 3
"""On a terminal with no more rows than this, only the first line is drawn."""
_OVER = 5
"""The rank of rows that are only counted."""
_STATE_WIDTH = 60
"""The width below which a sign alone shows the state."""


class Tree:
    """A screen that draws a run as a tree. `beat` redraws it beside the follower, never a thread of its own."""

    def __init__(self, console: Console, look: Callable[[], Awaitable[Seen]] | None = None) -> None:
        """`look` says what is executed now: the journal may only know it as queued."""
        self._painter = Painter(console)
        self._redirection = Redirection(self._painter)
        self._look = look
        self._seen = JOURNAL
        self._state: State | None = None
        self._paused = True
        self._frame = 0
        self.for_people = False
        """The run, its children included, waits for people alone."""

    def begin(self, state: State) -> None:
        self._state = state
        self.go_on()

    def show(self, state: State, event: e.Event) -> None:
        self._state = state

    def end(self) -> None:
        if not self._paused:
            try:
                self.draw(last=True)
            finally:  # otherwise later output, this error included, would never be seen
                self._stop()

    async def beat(self) -> None:
        while True:
            if self._look is not None:
                self._seen = await self._look()
            begun = system.monotonic()
            self.draw()
            took = system.monotonic() - begun
            await system.sleep(max(1 / FRAMES_PER_SECOND, took / _SHARE))

    async def redraw(self, over: asyncio.Event) -> None:
        await self.beat()

    def draw(self, *, last: bool = False) -> None:
        if self._paused or self._state is None or not self._state.irs:
            return
        self._frame += 1
        width, height = self._painter.size
        waits = last and self._state.state is R.RUNNING and (self.for_people or only_waits(self._state))
        self._painter.paint(render(self._state, self._frame, width, height - 2, self._seen, waits=waits))

    def pause(self) -> None:
        """Give the terminal to a question: only the first line of the tree stays."""
        try:
            if self._state is not None and self._state.irs:
                rows = _rows(self._state, JOURNAL)
                self._painter.paint([_head(self._state, rows, None, self._painter.size[0])])
        finally:
            self._stop()

    def go_on(self) -> None:
        if self._paused:
            self._redirection.__enter__()
        self._paused = False

    def _stop(self) -> None:
        self._redirection.__exit__(None, None, None)
        self._paused = True
        self._painter.leave()


# -- what is drawn -----------------------------------------------------------------------------------------------------


class Row:
    __slots__ = ("activation", "node", "word", "working")

    def __init__(self, node: Node, activation: Activation | None, seen: Seen) -> None:
        self.node = node
        self.activation = activation
        self.working = None if activation is None else seen.find(activation)
        self.word = N.PENDING if activation is None else seen.state(activation)


def render(
    state: State, frame: int, width: int, height: int, seen: Seen = JOURNAL, *, waits: bool = False
) -> list[Text]:
    """The tree in at most `height` lines of at most `width` columns. `waits`: as it is left, the run does not go on
    by itself."""
    rows = _rows(state, seen)
    lines = [_head(state, rows, None if waits else frame, width)]
    if height <= _LEAST_ROWS:
        return lines
    ended, shown, rest = _fit(rows, height - 1)
    body = [_fold("✓", ended)] if ended else []
    names = min(max((len(row.node.id) for row in shown), default=4), max(width // 3, 10))
    words = max((len(row.word.value) for row in shown if row.word is not N.PENDING), default=0)
    body += [_row(state, row, names, max(words, 9), frame, width) for row in shown]
    body += [_fold("…", rest)] if rest else []
    for number, line in enumerate(body):
        branch = "└─ " if number == len(body) - 1 else "├─ "
        lines.append(Text(no_wrap=True).append(branch, style=_DIM).append_text(line))
    return lines


def _rows(state: State, seen: Seen) -> list[Row]:
    return [Row(node, find_latest(state, index), seen) for index, node in enumerate(state.ir.nodes) if node is not None]


def _fit(rows: list[Row], height: int) -> tuple[list[Row], list[Row], list[Row]]:
    """Three groups of rows: those that ended well and are only counted, those that are shown, and the others that are
    only counted. All are shown if there is room; else those that matter now."""
    if len(rows) <= height:
        return [], rows, []
    latest = sorted(
        (number for number, row in enumerate(rows) if row.word in _ENDED_WELL), key=lambda n: _ended(rows[n])
    )
    recent = set(latest[-_RECENT:])
    ranks = [_rank(row.word, number in recent) for number, row in enumerate(rows)]
    order = sorted((number for number, rank in enumerate(ranks) if rank < _OVER), key=lambda n: (ranks[n], n))
    keep = set(order[: height - 2])
    ended = [row for number, row in enumerate(rows) if number not in keep and row.word in _ENDED_WELL]
    rest = [row for number, row in enumerate(rows) if number not in keep and row.word not in _ENDED_WELL]
    return ended, [rows[number] for number in sorted(keep)], rest


def _ended(row: Row) -> float:
    return (row.activation.ended_at if row.activation is not None else None) or 0.0


def _rank(word: NodeState, recent: bool) -> int:
    match word:
        case N.RUNNING:
            return 1
        case N.QUEUED | N.HELD:
            return 2
        case N.PENDING:
            return 4
        case N.COMPLETED | N.SKIPPED:
            return 3 if recent else _OVER
        case _:
            return 0


def _fold(symbol: str, rows: list[Row]) -> Text:
    counts: dict[NodeState, int] = {}
    for row in rows:
        counts[row.word] = counts.get(row.word, 0) + 1
    text = Text().append(f"{symbol} ", style=_DIM)
    for number, (word, count) in enumerate(counts.items()):
        text.append(", " if number else "", style=_DIM)
        text.append(f"{count:,} {word.value}", style=_style(word))
    return text


def _style(word: NodeState) -> str:
    return _DIM if word is N.PENDING else COLOURS.get(word.value, "")


# -- lines -------------------------------------------------------------------------------------------------------------


def _head(state: State, rows: list[Row], frame: int | None, width: int) -> Text:
    """The first line, about the run itself. Without a frame, the run waits for the person at the terminal."""
    word = state.state.value if frame is not None else N.WAITING.value
    style = COLOURS.get(word, "")
    going_on = _SYMBOLS[N.WAITING] if frame is None else _spin(frame)
    symbol = {R.COMPLETED: "✓", R.PAUSED: "‖"}.get(state.state, "✗" if state.terminal else going_on)
    passed = (state.ended_at if state.terminal and state.ended_at else system.now()) - state.created_at
    text = Text(no_wrap=True)
    text.append(f"{symbol} ", style=style)
    text.append(state.workflow, style="bold")
    text.append(f"  {word}", style=style)
    if not state.terminal:
        done = sum(row.word in ENDED for row in rows)
        text.append("  ")
        text.append_text(_bar(done, len(rows), 16 if width >= 80 else 8, style))
    generation = f"  generation {state.generation}" if state.generation > 1 else ""
    text.append(f"  {duration(passed)}{generation}  {state.run_id}", style=_DIM)
    return text


def _bar(done: int, total: int, width: int, style: str, failed: int = 0) -> Text:
    """`━━━━━╺────── 12/30`"""
    filled = width * done // total if total else width
    bad = -(-width * failed // total) if total and failed else 0
    text = Text().append("━" * (filled - bad), style=style)
    text.append("━" * bad, style="red")
    text.append("─" * (width - filled), style=_DIM)
    text.append(f" {done:,}/{total:,}", style=style)
    return text


def _row(state: State, row: Row, names: int, words: int, frame: int, width: int) -> Text:
    word, activation = row.word, row.activation
    style = _style(word)
    text = Text(no_wrap=True)
    text.append(f"{_spin(frame) if word is N.RUNNING else _SYMBOLS[word]} ", style=style)
    name = row.node.id if len(row.node.id) <= names else row.node.id[: names - 1] + "…"
    text.append(name.ljust(names), style="" if word not in (N.PENDING, N.SKIPPED) else style)
    if word is N.PENDING or activation is None:
        return text.append(_comes_after(state, row.node, activation), style=_DIM)
    if width >= _STATE_WIDTH:
        text.append(f"  {word.value.ljust(words)}", style=style)
    text.append(f"  {_passed(row):>8}", style=_DIM)
    for part, colour in _details(state, row, width):
        text.append("  ")
        text.append_text(part) if isinstance(part, Text) else text.append(part, style=colour)
    text.rstrip()
    return text


def _spin(frame: int) -> str:
    return _SPINNER[frame % len(_SPINNER)]


def _passed(row: Row) -> str:
    activation, word = row.activation, row.word
    assert activation is not None
    since = None if row.working is None else row.working.since
    begun = since or activation.started_at or activation.scheduled_at
    if not begun or word in (N.SKIPPED, N.QUEUED, N.HELD, N.UPSTREAM_FAILED, N.RETRYING):
        return ""
    return duration((activation.ended_at or system.now()) - begun)


def _comes_after(state: State, node: Node, activation: Activation | None) -> str:
    """What a node that has not been reached yet waits for."""
    if state.terminal:
        return ""
    known = activation.edges if activation is not None else {}
    missing = [state.ir.edges[number].source for number in node.edges_in]
    names = [state.name(source) for source in missing if source not in known]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"  after {', '.join(names[:3])}{more}" if names else ""


Detail = tuple[str | Text, str]


def _details(state: State, row: Row, width: int) -> list[Detail]:
    activation, word = row.activation, row.word
    assert activation is not None
    style = _DIM if word in _ENDED_WELL else _style(word)
    parts: list[Detail] = []
    if activation.scope:
        parts.append((_iteration(state, row.node, activation), _DIM))
    if row.working is not None and (progress := read_progress(row.working.progress)) is not None:
        parts += _progress(progress, width)
    wait = activation.wait
    if wait is not None and wait.kind == "items" and word is N.WAITING:
        done = activation.items_completed + activation.items_failed
        bar = _bar(done, wait.count, 20 if width >= 90 else 10, COLOURS["running"], activation.items_failed)
        parts.append((bar, ""))
    elif word is N.WAITING and wait is not None:
        parts.append((_waits_for(state, activation), style))
    if word is N.RETRYING and activation.retry_at is not None:
        most = state.pinned(activation).retry.max_attempts
        parts.append((f"again {until(activation.retry_at)}, attempt {activation.failures} of {most} failed", style))
    elif activation.tries > 1:
        parts.append((f"attempt {activation.tries}", _DIM if word is N.RUNNING else style))
    if activation.error is not None and word in (N.RUNNING, N.QUEUED):
        parts.append((f"after {_say_error(activation)}", _DIM))
    elif activation.error is not None and word is not N.COMPLETED:
        parts.append((_say_error(activation), style))
    elif activation.detail and word is N.HELD:
        parts.append((shorten(activation.detail, 120), style))
    elif activation.reason and word in (N.HELD, N.SKIPPED, N.CANCELLED):
        parts.append((shorten(activation.reason, 60), style))
    if activation.undo is not None and state.state is R.COMPENSATING and activation.undo.state != "planned":
        parts.append((f"undo {activation.undo.state}", COLOURS["compensating"]))
    if activation.route is not None and activation.route.taken and row.node.branch is not None:
        parts.append((f"→ {', '.join(activation.route.taken[:3])}", _DIM))
    return parts


def _progress(said: Any, width: int) -> list[Detail]:
    """How far a handler says it is: a bar where it says `done` of `total`, and its text; else what it says."""
    if not isinstance(said, dict):
        return [(shorten(said if isinstance(said, str) else compact(said), 60), _DIM)]
    rest = dict(said)
    done, total = rest.get("done"), rest.get("total")
    parts: list[Detail] = []
    if type(done) is int and type(total) is int and 0 <= done <= total:
        parts.append((_bar(done, total, 20 if width >= 90 else 10, COLOURS["running"]), ""))
        del rest["done"], rest["total"]
    if isinstance(rest.get("text"), str):
        parts.append((shorten(rest.pop("text"), 60), _DIM))
    return [*parts, (shorten(compact(rest), 60), _DIM)] if rest else parts


def _iteration(state: State, node: Node, activation: Activation) -> str:
    loop = state.node(node.loops[-1]).loop if node.loops else None
    most = f" of {loop.max_iterations}" if loop is not None and loop.max_iterations is not None else ""
    return f"↺ {'.'.join(map(str, activation.scope))}{most}"


def _say_error(activation: Activation) -> str:
    error = activation.error
    assert error is not None
    said = error.message or error.code
    where = show_place(error.details)
    return shorten(said if error.code == "error" else f"{error.code}: {said}", 120) + (f" ({where})" if where else "")


def _waits_for(state: State, activation: Activation) -> str:
    wait = activation.wait
    assert wait is not None
    when = f" until {_moment(wait.until)}" if wait.until is not None else ""
    match wait.kind:
        case "approval":
            approval = state.approvals.get(wait.name)
            if approval is None:  # an import may say so
                return f"for the approval {wait.name}, which nobody was asked for"
            people = ", ".join(approval.approvers) or "anyone"
            votes = f" ({len(approval.votes)} of {approval.quorum} voted)" if approval.quorum > 1 else ""
            return f"for a decision by {people}{votes}"
        case "signal":
            return f"for the signal {wait.name}{when}"
        case "event":
            return f"for the event {wait.name}{f' of {wait.key}' if wait.key else ''}{when}"
        case "child":
            return f"for {wait.name}"
        case "trigger" if (box := state.triggers.get(state.name(activation.node))) is not None and box.inner:
            return f"for {say_source(box)}"
        case "asks":
            return f"for {', '.join(_ask(state, ask) for ask in activation.asks.values() if ask.open)}"
        case _:
            return f"goes on {until(wait.until)}" if wait.until is not None else ""


def _ask(state: State, ask: Asked) -> str:
    approval = state.approvals.get(ask.approval)
    if approval is not None:
        return f"a decision by {', '.join(approval.approvers) or 'anyone'} ({ask.name})"
    when = f" until {_moment(ask.until)}" if ask.until is not None else ""
    return f"the signal {ask.signal}{when}" if ask.signal else ask.child or f"{ask.name}{when}"


def _moment(seconds: float) -> str:
    from perdure.cli.terminal.output import hour, moment

    return f"{hour(seconds)} UTC" if seconds - system.now() < 43_200 else moment(seconds)
