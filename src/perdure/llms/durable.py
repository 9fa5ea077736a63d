"""A conversation of a node with a model, kept as steps: asked once, and never again for what is answered.

    request    what is asked, as data: the history can rebuild every request from it
    call       the answer, with the hash of what was asked
    call.t2    the answer, if the first try gave none
    call.r1    the answer after the first repair, …

Every try is a step of its own, for which the budget sets aside what it may use (rule 82), and its answer says what it used. A try
that certainly cost nothing is released; one that broke in the middle counts as used when the attempt ends (rule 83). A node that fails because of what the model said begins a new round when it is tried again (`call~2`): the same bad answer
would be found otherwise. `ctx` is the worker's context.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from perdure.llms.calls import TRIES, Make, answer_data, ask, shape
from perdure.llms.exact_cache import ExactCache
from perdure.llms.operator_file import Found
from perdure.llms.port import Image, LlmError, Message, OnDelta, Part, Prefix, Request, Text, Usage, hash_of
from perdure.llms.structured import NotJson, ask_again, find_problems, read_json
from perdure.model.money import MILLIONTHS, Budget
from perdure.outcomes import Failure, NotDone
from perdure.plain_text import cut, hide
from perdure.spending import LONGEST_MODEL, Spent
from perdure.spending import Usage as Used
from perdure.threads import aside

_SHOWN = 300


class Said(msgspec.Struct, frozen=True):
    """What a conversation gave."""

    text: str
    data: Any
    finish: str
    model: str
    usage: Usage
    mended: bool
    has_data: bool
    is_cached: bool = False
    """Whether it was said before, to exactly the same request."""


class Talk:
    """One conversation."""

    def __init__(
        self, ctx: Any, models: Sequence[Found], limit: Budget | None = None, cache: ExactCache | None = None
    ) -> None:
        self._ctx = ctx
        self._models = models
        self._cache = cache
        before = ctx.last_checkpoint if isinstance(ctx.last_checkpoint, dict) else {}
        self._round = int(before.get("round", 1))
        self._usage = Usage()
        self._tried: dict[str, int] = {}
        """How many tries of an answer have begun in this attempt."""
        self._limit = limit

    @property
    def window(self) -> int | None:
        """How many tokens its model reads, if the operator says so."""
        return self._models[0].row.context

    async def converse(self, request: Request, *, repairs: int = 0, on_delta: OnDelta | None = None) -> Said:
        """Ask until the answer fits the schema. Raises Failure."""
        request = await self._keep(await aside(self._ctx.tenant, clean, request))
        number = 0
        while True:
            kept = await self._find(self._name(number), request) if number == 0 else None
            kept = kept or await self.answer(self._name(number), request, on_delta)
            self._usage += msgspec.convert(kept["usage"], Usage)
            message = msgspec.convert(kept["message"], Message)
            if kept["finish"] in ("refused", "filtered"):
                await self._spoil()
                what = (
                    "the model refuses"
                    if kept["finish"] == "refused"
                    else "the provider's filter holds the answer back"
                )
                raise Failure(f"llm:{kept['finish']}", f"{kept['alias']}: {what}", retryable=False)
            if request.schema is None:
                await self._remember(number, request, kept)
                return self._said(kept, message.text, None, mended=False, has_data=False)
            data, mended, problems = await aside(self._ctx.tenant, read_answer, request.schema, message.text)
            if not problems:
                await self._remember(number, request, kept)
                return self._said(kept, message.text, data, mended=mended, has_data=True)
            if kept["finish"] == "length":
                problems = ["it was cut off because it is too long; say less", *problems]
            if number == repairs:
                break
            number += 1
            request = ask_to_mend(request, message, problems)
        await self._spoil()
        told = "; ".join(cut(problem, _SHOWN) for problem in problems[:3])
        raise Failure(
            "llm:bad_output",
            f"{kept['alias']} was asked {repairs + 1} times, and no answer fits the schema: {told}",
            details={"problems": [cut(problem, _SHOWN) for problem in problems[:20]]},
        )

    async def _find(self, name: str, request: Request) -> dict[str, Any] | None:
        """The answer that is used again, as the step of this name; None: it has to be asked for, or was."""
        if self._cache is None or self._ctx.find_step(name) is not None:
            return None
        found = await self._cache.find(self._models[0], request)
        if found is None:
            return None

        async def give() -> Any:
            return found

        kept: dict[str, Any] = await self._ctx.step(name, give)
        return kept

    async def _remember(self, number: int, request: Request, kept: dict[str, Any]) -> None:
        """Let the same request be answered again. Only what was said at once: a repaired answer belongs to another request."""
        if self._cache is not None and number == 0:
            await self._cache.keep(self._models[0], request, kept)

    def _name(self, number: int) -> str:
        begin = "call" if self._round == 1 else f"call~{self._round}"
        return f"{begin}.r{number}" if number else begin

    async def _keep(self, request: Request) -> Request:
        """The request as the first attempt made it, so that a later one goes on with what was really asked."""

        async def give() -> Any:
            return msgspec.to_builtins(request)

        kept = await self._ctx.step("request", give)
        return msgspec.convert(kept, Request)

    async def answer(self, name: str, request: Request, on_delta: OnDelta | None = None) -> dict[str, Any]:
        """What is kept of the answer, as the step of this name, asked for unless an earlier attempt has it. Raises Failure."""
        most = 2 * TRIES * len(self._models)  # an agent may ask once more, after it has summed up
        for number in range(1, most + 1):
            kept = self._ctx.find_step(_try(name, number))
            if kept is not None:
                found: dict[str, Any] = kept
                return found

        async def begin(found: Found, guess: Usage, make: Make) -> dict[str, Any]:
            number = self._tried[name] = self._tried.get(name, 0) + 1
            return await self._begin(_try(name, number), found, guess, make)

        return await ask(
            self._models,
            request,
            reveal=self._ctx.reveal_secret,
            tenant=self._ctx.tenant,
            begin=begin,
            on_delta=on_delta,
        )

    async def _begin(self, step: str, found: Found, guess: Usage, make: Make) -> dict[str, Any]:
        """Make one request, if there is money for it. Raises LlmError."""
        if not guess.priced and ((self._limit is not None and self._limit.usd is not None) or self._ctx.metered):
            what = "the node has a limit in dollars" if self._limit is not None else "the run has a budget in dollars"
            message = (
                f"nobody has said what {found.full} costs, and {what}; the operator prices it in the agents file: "
                f'prices."{found.full}" = {{input = …, output = …}}'
            )
            raise LlmError("llm:price_unknown", message, sent=False)

        async def call() -> Spent:
            try:
                answered = await make()
            except LlmError as error:
                if error.is_free:
                    raise _Unsent(error) from None
                raise
            return Spent(answer_data(answered), _used(answered.response.usage))

        terms: dict[str, Any] = {"reserve": _used(guess), "limit": self._limit, "model": found.full[:LONGEST_MODEL]}
        if self._ctx.is_undoing:  # the journal sets nothing aside for what undoes
            self._keep_within(found, guess)
            terms = {}
        try:
            kept: dict[str, Any] = await self._ctx.step(step, call, **terms)
        except _Unsent as unsent:
            raise unsent.error from None
        return kept

    def _keep_within(self, found: Found, guess: Usage) -> None:
        """Keep to `max_usd` in a compensator. Raises LlmError."""
        if self._limit is not None and self._limit.usd is not None and self._usage.usd + guess.usd > self._limit.usd:
            message = f"a call of {found.name} may cost ${guess.usd / MILLIONTHS:.6f}, and max_usd has less left"
            raise LlmError("budget_exhausted", message, sent=False)

    async def _spoil(self) -> None:
        """Let the next attempt ask anew."""
        await self._ctx.checkpoint({"round": self._round + 1})

    def _said(self, kept: dict[str, Any], text: str, data: Any, *, mended: bool, has_data: bool) -> Said:
        is_cached = bool(kept.get("cached"))
        return Said(text, data, kept["finish"], kept["model"], self._usage, mended, has_data, is_cached)


class _Unsent(NotDone):
    """A request that cost nothing, as the context wants to hear it."""

    def __init__(self, error: LlmError) -> None:
        super().__init__(error.message)
        self.error = error


def _try(name: str, number: int) -> str:
    """The step of a try; the first has the name alone."""
    return name if number == 1 else f"{name}.t{number}"


def _used(usage: Usage) -> Used:
    """The usage in the words of a step."""
    amounts = {name: getattr(usage, name) for name in ("input", "cached", "written", "output", "reasoning", "calls")}
    return Used(**amounts, usd=Decimal(usage.usd) / MILLIONTHS if usage.priced else None)


def clean(request: Request) -> Request:
    """The request without secrets that this process has revealed: what is recorded is what is sent."""

    def without(part: Part) -> Part:
        return Text(hide(part.text)) if isinstance(part, Text) else part

    def message(one: Message) -> Message:
        return Message(one.role, tuple(without(part) for part in one.parts))

    prefix = Prefix(request.prefix.tools, hide(request.prefix.system), tuple(map(message, request.prefix.examples)))
    return msgspec.structs.replace(request, prefix=prefix, messages=tuple(map(message, request.messages)))


def read_answer(schema: Any, text: str) -> tuple[Any, bool, list[str]]:
    """The value in an answer, whether it was mended, and what is wrong with it."""
    try:
        data, mended = read_json(text)
    except NotJson as error:
        return None, False, [str(error)]
    return data, mended, find_problems(schema, data)


def find_misfits(schema: Any, kept: Mapping[str, Any]) -> list[str]:
    """What is wrong with an answer that is kept, as the model is told it; nothing, if it fits. It may take time."""
    _, _, problems = read_answer(schema, msgspec.convert(kept["message"], Message).text)
    if problems and kept["finish"] == "length":
        problems = ["it was cut off because it is too long; say less", *problems]
    return problems


def ask_to_mend(request: Request, message: Message, problems: list[str]) -> Request:
    """The same conversation, with the answer that does not fit and what is wrong with it."""
    answered = message if message.parts else Message("assistant", (Text("(nothing)"),))
    told = Message("user", (Text(ask_again(problems)),))
    return msgspec.structs.replace(request, messages=(*request.messages, answered, told))


def rebuild(steps: dict[str, Any]) -> dict[str, str]:
    """The hash of every request of a conversation, made again from its steps alone: it equals what each step recorded."""
    first = msgspec.convert(steps["request"], Request)
    found: dict[str, str] = {}
    for names in _rounds(steps).values():
        request = first
        for name in names:
            kept = steps[name]
            found[name] = hash_of(shape(request, **kept["sent"]))
            message = msgspec.convert(kept["message"], Message)
            if request.schema is not None:
                request = ask_to_mend(request, message, find_misfits(request.schema, kept))
    return found


def last_round(steps: Mapping[str, Any]) -> list[str]:
    """The answers of the last round, by their steps in order: the first, and what came of each repair."""
    rounds = _rounds(steps)
    return rounds[max(rounds, key=lambda name: int(name.partition("~")[2] or 1))] if rounds else []


def _rounds(steps: Iterable[str]) -> dict[str, list[str]]:
    """The steps of the answers of each round, in order."""
    rounds: dict[str, list[str]] = {}
    for name in steps:
        if name.startswith("call"):
            rounds.setdefault(name.partition(".")[0], []).append(name)
    return {name: sorted(names, key=_repair) for name, names in rounds.items()}


def _repair(name: str) -> int:
    """Which repair the step of an answer is; 0 is none."""
    return int(name.partition(".r")[2].partition(".t")[0] or 0)


def image_part(data: bytes, encoded: str) -> Image:
    """An image, by what its first bytes say it is. Raises Failure."""
    for media, begin in _MEDIA.items():
        if data.startswith(begin):
            return Image(media, encoded)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Image("image/webp", encoded)
    raise Failure("bad_config", "an image is neither PNG, JPEG, GIF nor WebP", retryable=False)


_MEDIA = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8"}
