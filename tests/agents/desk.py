"""An agent's node without an engine and without time: its steps and asks in memory, and a process that dies where it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure import functions
from perdure.agents import agent_node
from perdure.asks import Suspended
from perdure.model import money
from perdure.nodes.registry import has_template
from perdure.outcomes import Failure
from perdure.runtime.worker.context import Context
from perdure.spending import Terms
from perdure.transport import AgentTerms, Task


class Dies(BaseException):
    """The process is gone."""


class Journal:
    """What is durable of one activation."""

    def __init__(self, dies_at: int = 0) -> None:
        self.steps: dict[str, Any] = {}
        self.asked: dict[str, str] = {}
        self.begun: dict[str, str] = {}
        self.data: Any = None
        self.written: list[str] = []
        self.asks: list[dict[str, Any]] = []
        """All that was asked for, in order."""
        self._point = 0
        self._dies_at = dies_at

    def point(self) -> None:
        """A moment at which the process may die."""
        self._point += 1
        if self._point == self._dies_at:
            raise Dies

    @property
    def points(self) -> int:
        return self._point

    def keep(self, step: str, value: Any) -> None:
        self.point()
        if step:
            assert step not in self.steps, f"{step} has two results"
            self.steps[step] = msgspec.json.decode(msgspec.json.encode(value))
            self.written.append(step)
            self.begun.pop(step, None)
        else:
            self.data = value
        self.point()

    def begin(self, step: str, effect: str) -> None:
        self.point()
        if effect == "at_most_once":
            assert step not in self.begun, f"{step} begins twice"
            self.begun[step] = effect
        self.point()


class DeskContext(Context):
    __slots__ = ("_journal",)

    def __init__(self, task: Task, journal: Journal) -> None:
        super().__init__(task)
        self._journal = journal

    def _on_loop(self) -> bool:
        return True

    def _new_wish(self) -> str:
        return "wish"

    async def _say(self, step: str, wish: str, terms: Terms, *, not_done: bool = False) -> None:
        self._journal.begin(step, "at_most_once" if terms.once else "idempotent")

    async def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    async def load_inputs(self) -> dict[str, Any]:
        return {}

    def _save(self, checkpoint: Any, step: str = "", usage: money.Usage | None = None) -> Any:
        return self._store(step, checkpoint)

    async def _store(self, step: str, value: Any) -> None:
        await asyncio.sleep(0)  # others may come in between
        self._journal.keep(step, value)


Answers = Callable[[dict[str, Any]], Any]


async def enter(
    config: dict[str, Any],
    journal: Journal,
    *,
    routes: tuple[str, ...] = (),
    label: str = "",
    terms: AgentTerms | None = None,
) -> Any:
    """One attempt. Raises Suspended, Failure or Dies."""
    kept = {"data": journal.data, "steps": dict(journal.steps)} if journal.steps or journal.data else None
    task = Task(
        run_id="r1",
        node="agent",
        type="agent",
        idempotency_key="r1/agent/do",
        checkpoint=kept,
        asked=dict(journal.asked),
        begun=tuple(journal.begun),
        routes=routes,
        label=label,
        terms=terms,
    )
    assert not has_template(config)
    ctx = DeskContext(task, journal)
    try:
        return await agent_node.handle(config, ctx)
    except Suspended:
        journal.asks += ctx.asks or []
        raise


async def work(
    config: dict[str, Any], answers: Answers | None = None, journal: Journal | None = None, **more: Any
) -> tuple[Any, Journal]:
    """Enter the node until it has an output: asks are answered, and a process that died is followed by another."""
    journal = journal or Journal()
    for _ in range(200):
        before = len(journal.asks)
        try:
            return await enter(config, journal, **more), journal
        except Dies:
            continue
        except Suspended:
            assert answers is not None, journal.asks[before:]
            for ask in journal.asks[before:]:
                journal.asked[ask["name"]] = ask["content"]
                journal.steps[ask["name"]] = answers(ask)
                journal.written.append(ask["name"])
    raise AssertionError("the agent does not end")


def tools(*given: Callable[..., Any]) -> list[str]:
    """Make functions known, and give the names by which a config has them."""
    return [functions.define(one, one) for one in given]


async def fails(
    code: str, config: dict[str, Any], answers: Answers | None = None, **more: Any
) -> tuple[Failure, Journal]:
    journal = more.pop("journal", None) or Journal()
    with pytest.raises(Failure) as raised:
        await work(config, answers, journal, **more)
    assert raised.value.code == code
    return raised.value, journal
