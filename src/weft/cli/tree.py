"""The run as a tree on a terminal, redrawn while it goes on: nodes, states, durations, and what each waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from weft.cli.lines import error_text
from weft.cli.output import COLOURS, duration, shorten, until
from weft.clock import system
from weft.kernel import events as e
from weft.kernel.explain import find_latest
from weft.kernel.state import Activation, NodeState, RunState, State
from weft.transport import task_id

if TYPE_CHECKING:
    from weft.model.ir import Node

N, R = NodeState, RunState
FRAMES_PER_SECOND = 8

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


class Tree:
    """A screen. It is redrawn by `beat`, which runs beside the follower, never from a thread of its own."""

    def __init__(self, console: Console, running: Callable[[], Collection[str]] = tuple) -> None:
        """`running` names the tasks that run in this process: the journal may know them as queued only."""
        self._console = console
        self._running = running
        self._live: Live | None = None
        self._state: State | None = None
        self._paused = False
        self._frame = 0

    def begin(self, state: State) -> None:
        self._state = state

    def show(self, state: State, event: e.Event) -> None:
        self._state = state

    def end(self) -> None:
        self._paused = False
        self.draw()
        if self._live is not None:
            self._live.stop()
            self._live = None

    async def beat(self) -> None:
        while True:
            self.draw()
            await system.sleep(1 / FRAMES_PER_SECOND)

    async def redraw(self, over: asyncio.Event) -> None:
        await self.beat()

    def draw(self) -> None:
        if self._paused or self._state is None or not self._state.irs:
            return
        self._frame += 1
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False)
            self._live.start()
        lines = render(self._state, self._frame, self._console.height - 4, frozenset(self._running()))
        self._live.update(Group(*lines), refresh=True)

    def pause(self) -> None:
        """Give the terminal to a question, below what is drawn so far."""
        self.draw()
        self._paused = True
        if self._live is not None:
            self._live.stop()
            self._live = None

    def go_on(self) -> None:
        self._paused = False


def render(state: State, frame: int, height: int, running: Collection[str] = ()) -> list[Text]:
    nodes = [(index, node) for index, node in enumerate(state.ir.nodes) if node is not None]
    width = min(max((len(node.id) + 2 * len(node.loops) for _, node in nodes), default=4), 40)
    rows = [(node, find_latest(state, index)) for index, node in nodes]
    shown, hidden = _fit(rows, max(height, 3))
    lines = [_head(state, frame)]
    for number, (node, activation) in enumerate(shown):
        last = number == len(shown) - 1 and not hidden
        word = _word(state, activation, running)
        lines.append(_row(state, node, activation, word, width, frame, "└─ " if last else "├─ "))
    if hidden:
        lines.append(Text(f"└─ … {hidden}", style="bright_black"))
    return lines


Row = tuple["Node", Activation | None]


def _fit(rows: list[Row], height: int) -> tuple[list[Row], str]:
    """All of them, or those that matter now and a count of the rest."""
    if len(rows) <= height:
        return rows, ""
    ranks = {id(row): _rank(row[1]) for row in rows}
    keep = {id(row) for row in sorted(rows, key=lambda row: ranks[id(row)])[: height - 1]}
    counts: dict[str, int] = {}
    for row in rows:
        if id(row) not in keep:
            name = (row[1].state if row[1] is not None else N.PENDING).value
            counts[name] = counts.get(name, 0) + 1
    return [row for row in rows if id(row) in keep], ", ".join(f"{count} {name}" for name, count in counts.items())


def _rank(activation: Activation | None) -> tuple[int, float]:
    if activation is None or activation.state is N.PENDING:
        return 3, 0.0
    if activation.state in _ENDED_WELL:
        return 4, -(activation.ended_at or 0.0)
    if activation.state in (N.FAILED, N.PARKED, N.RETRYING, N.WAITING):
        return 0, 0.0
    return (2 if activation.state is N.QUEUED else 1), 0.0


def _head(state: State, frame: int) -> Text:
    word = state.state.value
    symbol = {R.COMPLETED: "✓", R.PAUSED: "‖"}.get(state.state, "✗" if state.terminal else _spin(frame))
    passed = (state.ended_at if state.terminal and state.ended_at else system.now()) - state.created_at
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{symbol} ", style=COLOURS.get(word, ""))
    text.append(state.workflow, style="bold")
    text.append(f"  {word}", style=COLOURS.get(word, ""))
    generation = f"  generation {state.generation}" if state.generation > 1 else ""
    text.append(f"  {duration(passed)}{generation}  {state.run_id}", style="bright_black")
    return text


def _word(state: State, activation: Activation | None, running: Collection[str]) -> NodeState:
    if activation is None:
        return N.PENDING
    if activation.state is N.QUEUED and running:
        name = state.name(activation.node)
        place = task_id(state.run_id, name, activation.scope, None, activation.attempt, False, state.generation)
        return N.RUNNING if place in running else N.QUEUED
    return activation.state


def _row(
    state: State, node: Node, activation: Activation | None, word: NodeState, width: int, frame: int, branch: str
) -> Text:
    style = "bright_black" if word is N.PENDING else COLOURS.get(word.value, "")
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(branch + "↺ " * len(node.loops), style="bright_black")
    symbol = _spin(frame) if word is N.RUNNING else _SYMBOLS[word]
    text.append(f"{symbol} ", style=style)
    text.append(node.id.ljust(width - 2 * len(node.loops)), style="" if word not in (N.PENDING, N.SKIPPED) else style)
    if activation is not None and word is not N.PENDING:
        text.append(f"  {word.value:<9}", style=style)
        text.append(f"  {_passed(activation, word):>9}", style="bright_black")
        details = _details(state, activation)
        if details:
            text.append(f"  {details}", style="bright_black" if word in _ENDED_WELL else style)
    return text


def _spin(frame: int) -> str:
    return _SPINNER[frame % len(_SPINNER)]


def _passed(activation: Activation, word: NodeState) -> str:
    begun = activation.started_at or activation.scheduled_at
    if not begun or word in (N.SKIPPED, N.QUEUED, N.HELD, N.UPSTREAM_FAILED):
        return ""
    return duration((activation.ended_at or system.now()) - begun)


def _details(state: State, activation: Activation) -> str:
    parts = []
    if activation.scope:
        parts.append(f"iteration {'.'.join(map(str, activation.scope))}")
    if activation.attempt > 1:
        parts.append(f"attempt {activation.attempt}")
    wait = activation.wait
    if wait is not None and wait.kind == "items":
        parts.append(f"{activation.items_completed + activation.items_failed} of {wait.count} items")
    elif activation.state is N.WAITING and wait is not None:
        parts.append(_waits_for(state, activation))
    if activation.state is N.RETRYING and activation.retry_at is not None:
        parts.append(f"again {until(activation.retry_at)}")
    if activation.error is not None and activation.state is not N.COMPLETED:
        parts.append(error_text(activation.error, 80))
    elif activation.reason and activation.state in (N.HELD, N.SKIPPED, N.CANCELLED):
        parts.append(shorten(activation.reason, 60))
    if activation.route is not None and activation.route.taken and state.node(activation.node).branch is not None:
        parts.append(f"→ {', '.join(activation.route.taken[:3])}")
    return ", ".join(parts)


def _waits_for(state: State, activation: Activation) -> str:
    wait = activation.wait
    assert wait is not None
    match wait.kind:
        case "approval":
            people = ", ".join(state.approvals[wait.name].approvers) or "anyone"
            return f"for a decision by {people}"
        case "signal":
            return f"for the signal {wait.name}"
        case "child":
            return f"for {wait.name}"
        case _:
            return until(wait.until) if wait.until is not None else ""
