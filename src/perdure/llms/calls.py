"""Asking a model until there is an answer: tries in place, other models, and the record of what was asked.

Each request is made through `begin`, which decides whether there is money for it. Whatever `ask` raises is a `Failure` with one
of the codes `llm:…`; whether the node is tried again is its retry's affair.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from perdure.clock import system
from perdure.llms import schema_tools
from perdure.llms.estimates import estimate
from perdure.llms.operator_file import Found
from perdure.llms.port import LlmError, Message, OnDelta, Prefix, Request, Response, Thinking, Usage, hash_of
from perdure.llms.prices import priced
from perdure.llms.structured import tell_schema
from perdure.llms.wire import Timing, exchange
from perdure.outcomes import Failure
from perdure.threads import aside

TRIES = 4
"""How often a model is asked in place before the node fails: once, and three times again."""
LONGEST_WAIT_SECONDS = 20.0
"""A longer wait is the node's: it fails and says when to try again."""
FIRST_WAIT_SECONDS = 0.5
ELSEWHERE = frozenset({"llm:overloaded", "llm:rate_limited", "llm:timeout", "llm:context_too_long", "timeout"})
"""What another model may do better."""

Reveal = Callable[[str], str]
_places: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Semaphore]] = (
    weakref.WeakKeyDictionary()
)


class Answered(msgspec.Struct, frozen=True):
    """An answer, with what is recorded of it."""

    response: Response
    found: Found
    request: str
    """The hash of what was asked."""
    ms: int
    ttft_ms: int
    tries: int


Kept = TypeVar("Kept")
Make = Callable[[], Awaitable[Answered]]
Begin = Callable[[Found, Usage, Make], Awaitable[Kept]]
"""Makes one request of a model, which may use so much, and gives what is kept of its answer. Raises LlmError."""


def shape(request: Request, model: str, schema: str, provider: str = "", tools: str = "native") -> Request:
    """The request as a model gets it: under the provider's name, without what other providers wanted back, with the schema
    in the prompt (`prompt`) if the provider does not keep to one (`native`), and so with the tools (`schema`)."""
    messages = request.messages if not provider else tuple(_without_strange(one, provider) for one in request.messages)
    request = msgspec.structs.replace(request, model=model, messages=messages)
    if tools == "schema" and request.prefix.tools:
        request = schema_tools.told(request)
    if request.schema is not None and schema == "prompt":
        prefix = request.prefix
        system_text = tell_schema(prefix.system, request.schema)
        request = msgspec.structs.replace(request, prefix=Prefix(prefix.tools, system_text, prefix.examples))
    return request


def _without_strange(message: Message, provider: str) -> Message:
    kept = tuple(part for part in message.parts if not isinstance(part, Thinking) or part.provider in ("", provider))
    return message if len(kept) == len(message.parts) else Message(message.role, kept)


async def ask(
    models: Sequence[Found],
    request: Request,
    *,
    reveal: Reveal,
    tenant: str,
    begin: Begin[Kept],
    on_delta: OnDelta | None = None,
) -> Kept:
    """The first answer that one of the models gives. Raises Failure."""
    error: LlmError | None = None
    for found in models:
        try:
            shaped = shape(request, found.row.model, found.row.schema, found.row.provider, found.row.tools)
            read = partial(schema_tools.read, request) if found.told_tools(request) else None
            return await _ask_one(found, shaped, reveal, tenant, begin, on_delta, read)
        except LlmError as failed:
            error = failed
            if failed.code not in ELSEWHERE:
                break
    assert error is not None
    raise failure(error)


def failure(error: LlmError) -> Failure:
    return Failure(
        error.code,
        error.message,
        retryable=error.retryable,
        retry_after=error.retry_after if error.retryable else None,
        not_done=not error.sent,
        details=error.details or None,
    )


async def _ask_one(
    found: Found,
    request: Request,
    reveal: Reveal,
    tenant: str,
    begin: Begin[Kept],
    on_delta: OnDelta | None,
    read: Callable[[Response], Response] | None,
) -> Kept:
    key = _key(found, reveal)
    guess = estimate(found, request)
    tries = 0

    async def make() -> Answered:
        timing = Timing()
        if found.speaker is not None:
            response = await found.speaker(request)
        else:
            response = await exchange(found, request, key, tenant=tenant, on_delta=on_delta, timing=timing)
        usage = priced(response.usage, found.price) if response.counted else guess
        if read is not None:
            response = await aside(tenant, read, response)
        now, first = system.monotonic(), timing.first
        return Answered(
            msgspec.structs.replace(response, usage=usage),
            found,
            hash_of(request),
            ms=round((now - timing.began) * 1000),
            ttft_ms=round(((now if first is None else first) - timing.began) * 1000),
            tries=tries,
        )

    while True:
        tries += 1
        try:
            async with _place(found):  # before anything is set aside: what only waits for a place has cost nothing
                return await begin(found, guess, make)
        except LlmError as error:
            wait = error.retry_after
            if wait is None:
                wait = FIRST_WAIT_SECONDS * 4 ** (tries - 1) * (0.5 + system.random() / 2)
            if not error.retryable or tries == TRIES or wait > LONGEST_WAIT_SECONDS:
                raise
            await system.sleep(wait)


def _key(found: Found, reveal: Reveal) -> str:
    name = found.provider.secret
    if not name:
        return ""
    try:
        key = reveal(name)
    except LookupError:
        message = f"provider {found.row.provider} needs the secret {name}, and this worker has none; set PERDURE_SECRET_{name}"
        raise LlmError("llm:auth", message, sent=False) from None
    if not key.isascii() or not key.isprintable() or not key.strip() or key != key.strip():
        raise LlmError("llm:auth", f"the secret {name} has characters that a key cannot have", sent=False)
    return key


def _place(found: Found) -> asyncio.Semaphore:
    """The places of a provider: so many calls are made of it at once in this process."""
    loop = asyncio.get_running_loop()
    places = _places.setdefault(loop, {})
    name = f"{found.row.provider} {found.provider.max_calls}"
    if name not in places:
        places[name] = asyncio.Semaphore(found.provider.max_calls)
    return places[name]


def answer_data(answered: Answered) -> dict[str, Any]:
    """What is kept of an answer, as a step."""
    response, row = answered.response, answered.found.row
    sent = {"model": row.model, "schema": row.schema, "provider": row.provider}
    return {
        "request": answered.request,
        "sent": sent if row.tools == "native" else {**sent, "tools": row.tools},
        "alias": answered.found.name,
        "provider": answered.found.row.provider,
        "model": response.model or answered.found.row.model,
        "message": msgspec.to_builtins(response.message),
        "finish": response.finish,
        "usage": msgspec.to_builtins(response.usage),
        "id": response.id[:200],
        "ms": answered.ms,
        "ttft_ms": answered.ttft_ms,
        "tries": answered.tries,
    }
