"""One call of a provider over HTTP: sent, streamed, measured, and put together by the codec of its wire format.

It owns time and size: how long the first token and every later one may take, and how much of an answer is read. It makes one
request; whether another is made is decided in `calls.py`. Redirects are not followed: the key is for one origin (X08).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import httpcore2
import msgspec

from perdure import egress, weight
from perdure.clock import system
from perdure.egress.errors import EgressError, EgressRefused, TimedOut
from perdure.egress.retry_after import LONGEST_SECONDS, read_retry_after
from perdure.llms.answers import read_error
from perdure.llms.operator_file import Found
from perdure.llms.port import LlmError, OnDelta, Reader, Request, Response
from perdure.llms.sse import MAX_BYTES, Events
from perdure.threads import aside

MAX_REQUEST = 32 * 1024 * 1024
MAX_ERROR = 64 * 1024
LIGHT = 64 * 1024
"""Up to this size an answer is decoded on the loop."""
_RESETS = (
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-reset",
)
_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")
_SPANS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class Timing:
    """When the first token came, for the record."""

    def __init__(self) -> None:
        self.began = system.monotonic()
        self.first: float | None = None

    def note_first(self) -> None:
        if self.first is None:
            self.first = system.monotonic()


async def exchange(
    found: Found,
    request: Request,
    key: str,
    *,
    tenant: str,
    on_delta: OnDelta | None = None,
    timing: Timing | None = None,
) -> Response:
    """Ask a model once. Raises LlmError."""
    provider, codec = found.provider, found.provider.codec
    content = codec.body(
        request,
        stream=provider.stream,
        native_schema=found.row.schema == "native",
        limit=found.row.max_output,
    )
    body = await aside(tenant, msgspec.json.encode, content)
    if len(body) > MAX_REQUEST:
        message = f"the request has {len(body):,} bytes, and {MAX_REQUEST:,} are allowed"
        raise LlmError("llm:context_too_long", message, sent=False)
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream" if provider.stream else "application/json",
        "accept-encoding": "identity",
        **codec.headers(key),
    }
    progress = _Progress()
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(provider.first_seconds) as watch:
            response = await egress.shared(provider.also).open(
                provider.url, "POST", headers, body, timeouts={"write": provider.first_seconds}, trace=progress.trace
            )
            try:
                if response.status != 200:
                    raise await _refusal(response)
                reader = codec.reader(on_delta)
                if _header(response, "content-type").partition(";")[0].strip().lower() == "text/event-stream":
                    await _stream(response, reader, watch, loop, provider.between_seconds, tenant, timing)
                else:
                    await _whole(response, reader, tenant, timing)
                return reader.finish()
            finally:
                await response.aclose()
    except TimeoutError:
        begun = timing is not None and timing.first is not None
        what = "stopped in the middle of its answer" if begun else f"said nothing within {provider.first_seconds:g} s"
        raise LlmError("llm:timeout", f"{found.full} {what}", retryable=True, sent=progress.sent) from None
    except EgressRefused as error:
        raise LlmError("llm:network", error.message, sent=progress.sent or error.sent) from None
    except EgressError as error:
        code = "llm:timeout" if isinstance(error, TimedOut) else "llm:network"
        raise LlmError(code, error.message, retryable=True, sent=progress.sent or error.sent) from None
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError):
        message = f"the connection to {found.row.provider} broke in the middle of an answer"
        raise LlmError("llm:network", message, retryable=True) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        message = f"what {found.row.provider} sent is no answer of {provider.kind}"
        raise LlmError("llm:network", message, retryable=True) from None


class _Progress:
    """Whether the provider may have seen the request."""

    def __init__(self) -> None:
        self.sent = False

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "http11.send_request_headers.started":
            self.sent = True


async def _stream(
    response: httpcore2.Response,
    reader: Reader,
    watch: asyncio.Timeout,
    loop: asyncio.AbstractEventLoop,
    between: float,
    tenant: str,
    timing: Timing | None,
) -> None:
    _refuse_encoding(response)
    events = Events()
    begun = False
    async for chunk in response.aiter_stream():
        for event, data in events.feed(chunk):
            begun = True
            if timing is not None:
                timing.note_first()
            if len(data) > LIGHT:
                _refuse_heavy(data)
                is_last = await aside(tenant, reader.feed, event, data)
            else:
                is_last = reader.feed(event, data)
            if is_last:
                return
        if begun:  # until then, comments that only keep the line open do not count
            watch.reschedule(loop.time() + between)


async def _whole(response: httpcore2.Response, reader: Reader, tenant: str, timing: Timing | None) -> None:
    _refuse_encoding(response)
    data = await _read(response, MAX_BYTES)
    if len(data) > MAX_BYTES:
        raise LlmError("llm:network", f"the model's answer is not read: it has more than {MAX_BYTES:,} bytes")
    if timing is not None:
        timing.note_first()
    _refuse_heavy(data)
    await aside(tenant, reader.whole, data)


def _refuse_heavy(data: bytes) -> None:
    if weight.is_heavy(data):
        raise LlmError("llm:network", "the model's answer is not read: it has too many parts")


def _refuse_encoding(response: httpcore2.Response) -> None:
    if _header(response, "content-encoding").lower() not in ("", "identity"):
        raise LlmError("llm:network", "the provider packed its answer, though it was asked not to")


async def _read(response: httpcore2.Response, most: int) -> bytes:
    """The body, or a little more than `most` bytes of it."""
    found = bytearray()
    async for chunk in response.aiter_stream():
        found += chunk
        if len(found) > most:
            break
    return bytes(found)


async def _refusal(response: httpcore2.Response) -> LlmError:
    error = read_error(response.status, await _read(response, MAX_ERROR))
    if error.retryable:
        error.retry_after = _retry_after(response)
    return error


def _retry_after(response: httpcore2.Response) -> float | None:
    """How long the provider wants to be left alone: `Retry-After`, or when a limit that is used up is reset."""
    milliseconds = _header(response, "retry-after-ms")
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", milliseconds):
        return min(float(milliseconds) / 1000, LONGEST_SECONDS)
    said = read_retry_after(_header(response, "retry-after"), _header(response, "date"), system.now())
    if said is not None:
        return said
    resets = [
        seconds
        for name in _RESETS
        if _header(response, name.replace("reset", "remaining")) in ("", "0")
        and (seconds := _until(_header(response, name))) is not None
    ]
    return max(resets, default=None)


def _until(text: str) -> float | None:
    """`6m0s`, `120ms`, or a moment such as 2026-01-31T12:00:00Z."""
    spans = _SPAN.findall(text) if len(text) < 50 and _SPAN.sub("", text) == "" else []
    if spans:
        return min(sum(float(number) * _SPANS[unit] for number, unit in spans), LONGEST_SECONDS)
    try:
        moment = datetime.fromisoformat(text) if text and len(text) < 50 else None
    except ValueError:
        return None
    if moment is None or moment.tzinfo is None:
        return None
    return min(max(moment.timestamp() - system.now(), 0.0), LONGEST_SECONDS)


def _header(response: httpcore2.Response, name: str) -> str:
    wanted = name.encode()
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == wanted), "")
