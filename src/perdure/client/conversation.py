"""The conversation behind one call: what is sent, when it is sent again, and what comes out. Written once, for both
clients.

It is a generator that yields what it needs, a request or a pause, and is given the answer or the error. It touches no
socket and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import httpx2
import msgspec

from perdure.client.errors import ApiError, Invalid, RateLimited, Unavailable, Unreachable, read_error
from perdure.client.http_calls import Call
from perdure.plain import NotData, encode

T = TypeVar("T")

PREFIX = "/api/v1"
CONNECT_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
LONGEST_RETRY_AFTER_SECONDS = 60.0
"""The longest `Retry-After` that is waited for here; beyond it the caller gets the error."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a client."""

    url: str
    api_key: str = ""
    timeout: float = 30.0
    """How many seconds the server may take to answer, beyond what it was asked to wait."""
    retries: int = 4

    def headers(self) -> dict[str, str]:
        headers = {"User-Agent": "perdure", "Accept": "application/json"}
        return headers | ({"Authorization": f"Bearer {self.api_key}"} if self.api_key else {})


class Sending(msgspec.Struct, frozen=True):
    """A request that is to be sent."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None
    timeout: httpx2.Timeout


class Pause(msgspec.Struct, frozen=True):
    seconds: float


Talk = Generator[Sending | Pause, httpx2.Response | None, T]


def talk(options: Options, call: Call[T], chance: Callable[[], float]) -> Talk[T]:
    """Carry one call to its end. Connection errors are thrown into the generator, answers are sent into it."""
    sending = prepare(options, call)
    for number in range(options.retries + 1):
        last = number == options.retries
        try:
            response = yield sending
        except httpx2.TransportError as error:
            if last or not (call.repeatable or was_not_sent(error)):
                raise unreachable(options, error) from error
            yield Pause(backoff(number, chance()))
            continue
        assert response is not None
        if response.is_success:
            try:
                return call.read(response.content)
            except msgspec.DecodeError as error:
                raise error_of(response) from error
        refused = error_of(response)
        if last or not _is_passing(refused, call):
            raise refused
        yield Pause(max(refused.retry_after or 0.0, backoff(number, chance())))
    raise AssertionError("the last try returns or raises")


def prepare(options: Options, call: Call[Any]) -> Sending:
    headers = dict(call.headers)
    content = None
    if isinstance(call.body, bytes):
        content = call.body
    elif call.body is not None:
        try:
            content = encode(call.body)
        except NotData as error:
            raise Invalid(f"the request cannot be written as JSON: {error}") from error
        headers.setdefault("Content-Type", "application/json")
    # The query is written by hand, so that a list is repeated and a bool is written as in JSON.
    pairs = [
        (name, _text(value))
        for name, values in call.query.items()
        for value in (values if isinstance(values, list | tuple) else [values])
        if value is not None
    ]
    url = httpx2.URL(options.url + PREFIX + call.path, params=pairs) if pairs else options.url + PREFIX + call.path
    timeout = httpx2.Timeout(options.timeout + call.wait_seconds, connect=min(CONNECT_SECONDS, options.timeout))
    return Sending(call.method, str(url), headers, content, timeout)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def backoff(number: int, chance: float) -> float:
    """The seconds until the next try: twice as long each time, and spread, so that clients do not collide."""
    return min(FIRST_PAUSE_SECONDS * 2.0**number, LONGEST_PAUSE_SECONDS) * (0.5 + chance / 2)


def was_not_sent(error: httpx2.TransportError) -> bool:
    """Whether no connection was made, so that certainly nothing was done."""
    return isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)


def _is_passing(error: ApiError, call: Call[Any]) -> bool:
    """Whether the same call may succeed a little later without anything happening twice."""
    if (error.retry_after or 0.0) > LONGEST_RETRY_AFTER_SECONDS:
        return False
    if isinstance(error, RateLimited) or error.code == "overloaded":  # refused before anything was done
        return True
    return isinstance(error, Unavailable) and call.repeatable


def error_of(response: httpx2.Response) -> ApiError:
    """The error of a response that has been read."""
    headers = response.headers
    media_type, hints = headers.get("content-type", ""), (headers.get("retry-after"), headers.get("location"))
    return read_error(response.status_code, media_type, response.content, *hints)


def unreachable(options: Options, error: httpx2.TransportError) -> Unreachable:
    why = str(error) or type(error).__name__
    if was_not_sent(error):
        return Unreachable(f"cannot reach {options.url}: {why}; is the server running?")
    return Unreachable(
        f"no answer from {options.url}: {why}; it may have done what was asked, so look before you ask again"
    )
