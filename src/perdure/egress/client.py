"""One client for outgoing calls: every hop is read, looked up, checked, pinned, and only then connected to.

It owns redirects, size and time limits, and what a broken call is called. It keeps no cookies and asks no proxy:
variables such as HTTP_PROXY would send every call past the rules. It must not know nodes; `nodes/http.py`, webhooks and
agents use it.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any

import httpcore2
import msgspec

from perdure.egress import decoder
from perdure.egress.addresses import Address, unwrap
from perdure.egress.errors import AnswerInvalid, AnswerTooLarge, EgressError, EgressRefused, NetworkFailed, TimedOut
from perdure.egress.network import PinnedBackend, Resolve, pin, resolve
from perdure.egress.policy import Policy
from perdure.egress.urls import Url

MAX_REDIRECTS = 3
MAX_HEADER_BYTES = 64 * 1024
CONNECT_SECONDS = 10.0
KEEP_SECONDS = 5.0
MAX_CONNECTIONS = 1000
MAX_KEPT = 100
USER_AGENT = "perdure"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Headers that may follow to another origin. All others were meant for the first one: keys, cookies, names of customers.
_PORTABLE = frozenset({"accept", "accept-encoding", "accept-language", "user-agent", "idempotency-key"})
_OF_BODY = frozenset({"content-type", "content-length", "content-encoding", "content-language"})


class Request(msgspec.Struct, frozen=True, kw_only=True):
    url: Url
    method: str = "GET"
    headers: dict[str, str] = {}
    """Headers by name in lower case."""
    body: bytes = b""
    redirects: int = MAX_REDIRECTS
    """How many redirects are followed; with 0, the redirect is the answer."""
    seconds: float | None = 60.0
    """The time for everything: looking up, connecting, redirects, the last byte. None: the caller stops the call."""
    max_bytes: int = 10 * 1024 * 1024
    """How large the body may be, packed and unpacked."""
    as_sent: bool = False
    """The body is not unpacked: what it is packed with belongs to the content."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    url: Url
    """The URL of the answer: where the last redirect led."""
    status: int
    headers: tuple[tuple[str, str], ...]
    """Headers with their names in lower case."""
    body: bytes

    def header(self, name: str) -> str:
        return next((value for known, value in self.headers if known == name), "")


class Client:
    """A client, bound to the event loop it is first used on."""

    def __init__(
        self,
        policy: Policy,
        *,
        resolve: Resolve = resolve,
        backend: httpcore2.AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.policy = policy
        self._resolve = resolve
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context or httpcore2.default_ssl_context(),
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_KEPT,
            keepalive_expiry=KEEP_SECONDS,
            network_backend=PinnedBackend(backend),
        )

    async def close(self) -> None:
        await self._pool.aclose()

    async def send(self, request: Request) -> Answer:
        """The answer, whatever its status. Raises EgressError."""
        progress = _Progress(request.url)
        try:
            async with asyncio.timeout(request.seconds):
                return await self._follow(request, progress)
        except TimeoutError:
            message = f"{progress.url.shown} has not answered in {request.seconds:g} s"
            raise TimedOut(message, sent=progress.sent) from None
        except EgressError as error:
            error.sent = error.sent or progress.sent
            raise

    async def _follow(self, request: Request, progress: _Progress) -> Answer:
        followed = 0
        while True:
            answer = await self._exchange(request, progress)
            location = answer.header("location")
            if not request.redirects or answer.status not in _REDIRECTS or not location:
                return answer
            if followed == request.redirects:
                raise EgressRefused(f"{request.url.shown} redirects again after {followed} redirects")
            followed += 1
            request = _redirect(request, answer.status, location)
            progress.url = request.url

    async def _exchange(self, request: Request, progress: _Progress) -> Answer:
        """Send one request and read its whole answer."""
        response = await self.open(
            request.url, request.method, request.headers, request.body or None, trace=progress.trace
        )
        try:
            return await _read(request, response)
        except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise _broken(request.url, error) from None
        finally:
            await response.aclose()

    async def open(
        self,
        url: Url,
        method: str,
        headers: Mapping[str, str],
        content: bytes | AsyncIterable[bytes] | None = None,
        *,
        timeouts: Mapping[str, float | None] | None = None,
        trace: Any = None,
    ) -> httpcore2.Response:
        """The beginning of an answer, its body still to be read; close it. The only way out of the process."""
        addresses = await self._look_up(url)
        lines = [("host", url.authority), *_with_defaults(method, headers, content).items()]
        fields = [(name.title().encode("ascii"), value.encode("latin-1")) for name, value in lines]
        for number, address in enumerate(addresses):
            last = number == len(addresses) - 1
            limits = {"connect": CONNECT_SECONDS if last else CONNECT_SECONDS / 2, **(timeouts or {})}
            extensions: dict[str, Any] = {"sni_hostname": url.host, "timeout": limits}
            if trace is not None:
                extensions["trace"] = trace
            target = httpcore2.URL(
                scheme=url.scheme.encode(),
                host=pin(url.host, address).encode(),
                port=url.port,
                target=url.target.encode("ascii"),
            )
            request = httpcore2.Request(method, target, headers=fields, content=content, extensions=extensions)
            try:
                return await self._pool.handle_async_request(request)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                if not last:
                    continue  # nothing was sent: the next address may do better
                kind = TimedOut if isinstance(error, httpcore2.ConnectTimeout) else NetworkFailed
                raise kind(f"no connection to {url.shown}: {_reason(error)}") from None
            except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
                raise _broken(url, error) from None
        raise NetworkFailed(f"{url.host} has no address")

    async def _look_up(self, url: Url) -> list[Address]:
        """The addresses of the host, every one of them checked: a name that also leads inside is not called at all."""
        self.policy.check_port(url)
        if url.address is not None:
            addresses = [url.address]
        else:
            try:
                addresses = [ip_address(one) for one in await self._resolve(url.host, url.port)]
            except (OSError, UnicodeError):
                raise NetworkFailed(f"{url.host} cannot be resolved; check the name, and that DNS answers") from None
        for address in addresses:
            self.policy.check(url, address)
        return [unwrap(address) for address in addresses]


class _Progress:
    """How far a call has come, so that it can be said what a timeout means."""

    def __init__(self, url: Url) -> None:
        self.url = url
        self.sent = False

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "http11.send_request_headers.started":
            self.sent = True


def _with_defaults(
    method: str, headers: Mapping[str, str], content: bytes | AsyncIterable[bytes] | None
) -> dict[str, str]:
    fields = {"user-agent": USER_AGENT, "accept": "*/*", "accept-encoding": decoder.ACCEPTED, **headers}
    if isinstance(content, bytes):
        fields["content-length"] = str(len(content))
    elif content is None and method in ("POST", "PUT", "PATCH"):
        fields["content-length"] = "0"
    return fields


def _redirect(request: Request, status: int, location: str) -> Request:
    """The next request, as the Fetch standard makes it, but with less that follows to another origin."""
    try:
        url = request.url.join(location)
    except EgressRefused as error:
        raise EgressRefused(f"{request.url.shown} redirects to a URL that is refused: {error.message}") from None
    if request.url.scheme == "https" and url.scheme != "https":
        raise EgressRefused(f"{request.url.shown} redirects from https to http, which is refused")
    method, body, headers = request.method, request.body, request.headers
    if (status == 303 and method not in ("GET", "HEAD")) or (status in (301, 302) and method == "POST"):
        method, body = "GET", b""
        headers = {name: value for name, value in headers.items() if name not in _OF_BODY}
    if url.origin != request.url.origin:
        if body:
            raise EgressRefused(
                f"{request.url.shown} redirects to {url.scheme}://{url.authority}, and the request has a body that was "
                "not meant for it; call that URL itself"
            )
        headers = {name: value for name, value in headers.items() if name in _PORTABLE}
    return msgspec.structs.replace(request, url=url, method=method, body=body, headers=headers)


async def _read(request: Request, response: httpcore2.Response) -> Answer:
    if response.status < 200:
        raise AnswerInvalid(f"{request.url.shown} answered {response.status}, which is not a final answer", sent=True)
    if sum(len(name) + len(value) for name, value in response.headers) > MAX_HEADER_BYTES:
        raise _long_headers(request.url)
    headers = tuple((name.decode("ascii").lower(), value.decode("latin-1")) for name, value in response.headers)
    answer = Answer(url=request.url, status=response.status, headers=headers, body=b"")
    if request.method == "HEAD":
        return answer
    length = answer.header("content-length")
    if length.isdecimal() and int(length) > request.max_bytes:
        raise decoder.too_large(request.max_bytes)
    body = decoder.Body("" if request.as_sent else answer.header("content-encoding"), request.max_bytes)
    async for chunk in response.aiter_stream():
        body.add(chunk)
    return msgspec.structs.replace(answer, body=body.finish())


def _long_headers(url: Url) -> AnswerTooLarge:
    return AnswerTooLarge(f"{url.shown} answered with more than {MAX_HEADER_BYTES} bytes of headers", sent=True)


def _broken(url: Url, error: Exception) -> EgressError:
    """The error for a connection that was made and did not hold."""
    if isinstance(error, httpcore2.LocalProtocolError):
        return EgressRefused(f"{url.shown}: the request cannot be written: {error}")
    if isinstance(error, httpcore2.TimeoutException):
        return TimedOut(f"{url.shown} stopped answering", sent=True)
    if any(getattr(cause, "error_status_hint", 0) == 431 for cause in _causes(error)):
        return _long_headers(url)
    return NetworkFailed(f"the connection to {url.shown} broke: {_reason(error)}", sent=True)


def _reason(error: BaseException) -> str:
    """Why a connection failed, without the address, which the system's texts name."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not valid: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {cause.reason or 'it failed'}"
        if isinstance(cause, OSError) and cause.errno is not None:
            return os.strerror(cause.errno)
    if isinstance(error, httpcore2.ConnectTimeout):
        return "it did not come about in time"
    return str(error) if isinstance(error, httpcore2.ProtocolError) and str(error) else "it was closed"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        yield error
        error = error.__cause__ or error.__context__
