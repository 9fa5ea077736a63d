"""The turns of an agent: the model is asked, its calls are judged and made, and it is told what they gave, until it answers.

Every answer and every call is a step, so this code begins at the first turn whenever the node is entered, and what is kept
answers at once. An agent that fails for what its model did goes on from there if a person retries the run: what it did stays done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from perdure.agents.left_behind import NOTE, SHAPE, TURN, short
from perdure.agents.tool_calls import ToolCalls
from perdure.agents.transcript import (
    SAME_MOST,
    Plan,
    Transcript,
    calls_of,
    mend,
    read_letters,
    read_message,
    step_name,
    summary_step,
    turn_of,
)
from perdure.llms.calls import LONGEST_WAIT_SECONDS
from perdure.llms.durable import Talk, read_answer
from perdure.llms.port import Request, Usage
from perdure.outcomes import Failure
from perdure.plain_text import cut
from perdure.threads import aside

MODEL_SECONDS = 600.0
"""How long one answer may take where the node sets no time."""
MOST_WAITS = 20
"""How often an agent waits for a provider in one turn, without keeping a worker."""
MOST_DENIALS = 5
FULL = 0.75
"""The part of what a model reads from which on older turns are summed up."""
_SHOWN = 300


class Answer(msgspec.Struct, frozen=True):
    """What an agent came to."""

    value: Any
    text: str
    turns: int
    calls: int
    usage: Usage
    model: str


class Agent:
    def __init__(self, plan: Plan, ctx: Any, talk: Talk, calls: ToolCalls) -> None:
        self._plan = plan
        self._ctx = ctx
        self._talk = talk
        self._calls = calls
        self._transcript = Transcript(plan)
        self._usage = Usage()
        self._is_full = False
        """Whether the last answer left little room in what the model reads."""
        before = ctx.last_checkpoint if isinstance(ctx.last_checkpoint, dict) else {}
        self._since = int(before.get("since", 1))
        """The turn from which on limits count: that of the last failure which a person had tried again."""
        self._again: dict[str, int] = dict(before.get("again", {}))
        """How often turns were asked anew."""

    async def run(self) -> Answer:
        """Take turns until there is an answer. Raises Failure."""
        answer = await self._converse()
        await self._leave(answer)
        return answer

    async def _leave(self, answer: Answer) -> None:
        """Keep what later runs find of this one. Nothing of a node whose results are sealed is shown to others."""
        if self._ctx.is_sealing:
            return
        plan, label = self._plan, str(self._transcript.label)
        left: dict[str, Any] = {f"{SHAPE}{name}": use for name, use in self._calls.shapes.items()}
        if plan.session:
            turn = msgspec.structs.replace(plan.turn, said=short(answer.text), label=label)
            left |= {f"{NOTE}{id}/{plan.session}": note for id, note in self._calls.notes.items()}
            left[f"{TURN}{plan.session}"] = turn
        for name, value in left.items():
            await self._ctx.step(name, partial(msgspec.to_builtins, value))

    async def _converse(self) -> Answer:
        turn, denials = 0, 0
        mail = {name: self._ctx.find_step(name) for name in self._ctx.list_steps("mail/")}
        letters = [*self._plan.letters, *read_letters(mail)]
        while True:
            turn += 1
            for letter in letters:
                if letter.turn == turn:
                    self._transcript.hear(letter)
            last = turn - self._since + 1 >= self._plan.max_turns
            name = step_name(turn, self._again.get(str(turn), 1), last=last)
            kept = await self._ask_in_time(turn, name, last=last)
            if kept["finish"] in ("refused", "filtered"):
                await self._spoil(turn, again=True)
                what = "refuses" if kept["finish"] == "refused" else "is held back by its provider's filter"
                raise Failure(f"llm:{kept['finish']}", f"{kept['alias']} {what} in turn {turn}", retryable=False)
            calls = calls_of(kept)
            if not calls:
                return await self._finish(turn, name, kept, last=last)
            if last:
                await self._spoil(turn, again=True)
                message = f"the agent has no answer after {self._plan.max_turns} turns; max_turns allows more"
                raise Failure("agent:max_turns", message, retryable=False)
            begin = turn_of(turn, name)
            made = await self._calls.make(begin, calls, self._transcript, read_message(kept).text)
            same = self._transcript.add(begin, kept, made)
            if turn < self._since:
                continue
            denials += sum(one.denied for one in made)
            if denials >= MOST_DENIALS:
                await self._spoil(turn + 1)
                raise Failure("agent:denied", f"{denials} calls of the agent were not allowed", retryable=False)
            if same >= SAME_MOST:
                await self._spoil(turn + 1)
                message = f"the agent made the same call {same} times, and it gave the same each time"
                raise Failure("agent:stuck", message, retryable=False)

    async def _ask_in_time(self, turn: int, name: str, *, last: bool) -> dict[str, Any]:
        """The answer of a turn. What is too much for the model is summed up before. Raises Failure."""
        begun = any(one.partition(".t")[0] == name for one in self._ctx.list_steps(name))
        summed_up = bool(self._ctx.list_steps(summary_step(turn) + ".t")) or self._has(summary_step(turn))
        if summed_up or (not begun and self._is_full and self._transcript.can_shrink):
            await self._shrink(turn)
        try:
            kept = await self._ask(name, self._transcript.request(last=last))
        except Failure as error:
            if error.code != "llm:context_too_long" or summed_up or not self._transcript.can_shrink:
                raise
            await self._shrink(turn)
            kept = await self._ask(name, self._transcript.request(last=last))
        used = msgspec.convert(kept["usage"], Usage)
        self._is_full = self._talk.window is not None and used.input + used.output > self._talk.window * FULL
        return kept

    def _has(self, step: str) -> bool:
        return self._ctx.find_step(step) is not None

    async def _shrink(self, turn: int) -> None:
        """Let the model sum up its older turns, once, however often the agent is entered."""
        kept = await self._ask(summary_step(turn), self._transcript.sum_up())
        if kept["finish"] in ("refused", "filtered"):
            message = f"{kept['alias']} does not sum up what it has done, which is too long for it"
            raise Failure(f"llm:{kept['finish']}", message, retryable=False)
        self._transcript.shrink(read_message(kept).text)

    async def _ask(self, name: str, request: Request) -> dict[str, Any]:
        """The answer to a request. A provider that wants a long pause gets it, without a worker that waits. Raises Failure."""
        waited = 0
        while True:
            try:
                async with asyncio.timeout(MODEL_SECONDS if self._ctx.timeout_seconds is None else None):
                    kept = await self._talk.answer(name, request)
                self._usage += msgspec.convert(kept["usage"], Usage)
                return kept
            except TimeoutError:
                raise Failure("llm:timeout", f"{name}: no answer in {MODEL_SECONDS:g} s") from None
            except Failure as error:
                if not error.retryable or (error.retry_after or 0) <= LONGEST_WAIT_SECONDS:
                    raise
                while waited < MOST_WAITS and self._ctx.find_step(_wait(name, waited)) is not None:
                    waited += 1
                if waited == MOST_WAITS:
                    raise
                await self._pause(_wait(name, waited), error)

    async def _pause(self, name: str, error: Failure) -> None:
        """Let the time pass that a provider asked for. Raises Suspended."""
        await self._ctx.sleep(name, error.retry_after or 0)

    async def _finish(self, turn: int, name: str, kept: dict[str, Any], *, last: bool) -> Answer:
        """The answer, asked for again until it fits. Raises Failure."""
        schema = self._transcript.schema
        request = self._transcript.request(last=last)
        number = 0
        while True:
            text = read_message(kept).text
            if schema is None:
                return self._answer(text, text, turn, kept)
            value, _, problems = await aside(self._ctx.tenant, read_answer, schema, text)
            if not problems:
                return self._answer(await self._lead(turn, name, value), text, turn, kept)
            number += 1
            if number > self._plan.repairs:
                break
            request = await aside(self._ctx.tenant, mend, request, schema, kept)
            kept = await self._ask(f"{name}.r{number}", request)
        await self._spoil(turn, again=True)
        if outside := _find_outside(value, self._transcript.routes):
            listed = ", ".join(self._transcript.routes)
            message = f"the agent chose {', '.join(outside)}; it may choose from {listed}"
            raise Failure("route_not_allowed", message, retryable=False)
        told = "; ".join(cut(one, _SHOWN) for one in problems[:3])
        raise Failure("llm:bad_output", f"no answer of {kept['alias']} fits the schema: {told}", retryable=False)

    async def _lead(self, turn: int, name: str, value: Any) -> Any:
        """The answer with the route that it may take. Raises Failure."""
        if not self._transcript.routes or not value["next_nodes"]:
            return value
        chosen, refusal = await self._calls.lead(turn_of(turn, name), value, self._transcript)
        if refusal is not None:
            await self._spoil(turn, again=True)
            raise Failure("route_not_allowed", refusal, retryable=False)
        return {**value, "next_nodes": chosen}

    def _answer(self, value: Any, text: str, turn: int, kept: dict[str, Any]) -> Answer:
        return Answer(value, text, turn, self._transcript.calls, self._usage, kept["model"])

    async def _spoil(self, turn: int, *, again: bool = False) -> None:
        """Let a person who retries the run go on from this turn; `again`: with another answer."""
        if again:
            self._again[str(turn)] = self._again.get(str(turn), 1) + 1
        await self._ctx.checkpoint({"since": turn, "again": self._again})


def _wait(name: str, number: int) -> str:
    return f"{name.replace('/', '-')}.wait{number + 1}"


def _find_outside(value: Any, routes: Sequence[str]) -> list[str]:
    chosen = value.get("next_nodes") if isinstance(value, dict) and routes else None
    return [cut(str(one), 100) for one in chosen if one not in routes][:10] if isinstance(chosen, list) else []
