"""Endpoints as data (method, path, permission, what is read and what is answered), and the one way they are called.

Every call is authenticated, counted against its limit, allowed, read, executed and audited, in this order. The OpenAPI
document is made from the same data, so the two cannot differ. This file must not know what an endpoint does.
"""

from __future__ import annotations

import hashlib
import logging
import typing
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from perdure.access import Permission, Principal
from perdure.api.bodies import BODY
from perdure.api.compression import compressed
from perdure.api.parameters import idempotency_key
from perdure.api.problem_details import Broken, problem
from perdure.api.request_reader import AnyQuery, Body, NoQuery, Query, read_body, read_query
from perdure.api.revalidation import is_known
from perdure.api.site import Site
from perdure.errors import NotFound, PerdureError
from perdure.model.reader import ODD_TEXT
from perdure.service import Service
from perdure.service.tenancy import LONGEST_ID

logger = logging.getLogger("perdure.api")

PREFIX = "/api/v1"
PUBLIC = frozenset(
    {
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/links/{token}",
        f"{PREFIX}/hooks/approvals/{{approval_id}}",
        f"{PREFIX}/hooks/{{hook}}",
        f"{PREFIX}/session",
        f"{PREFIX}/ui/boot",
    }
)
"""The endpoints that answer without credentials. A link is a credential of its own, a hook has a signature and a session
begins with one; the others reveal no tenant's data (X20)."""
_SAFE = {"GET", "HEAD"}

Handler = Callable[..., Awaitable[Any]]


class Call:
    """One request, allowed and about to be executed."""

    __slots__ = ("key", "noted", "object", "principal", "request", "request_id", "service", "site")

    def __init__(self, site: Site, request: Request, principal: Principal, request_id: str) -> None:
        self.site = site
        self.request = request
        self.principal = principal
        self.request_id = request_id
        self.service = Service(site.engine, principal)
        self.key: str | None = None
        """The idempotency key of a POST."""
        self.object = "/".join(str(part) for part in request.path_params.values())
        """The object of the call, for the audit."""
        self.noted: dict[str, Any] | None = None
        """Further notes for the audit: hashes of what was given, never what was given."""

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])


def hash_of(value: Any) -> str:
    """A hash for the audit, by which a value can be recognized by a reader who has it, but not read."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


class Answer(msgspec.Struct, frozen=True):
    """A JSON answer with another status than the endpoint's usual one, or with headers."""

    content: Any
    status: int = 200
    headers: dict[str, str] = {}


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    """The path with its prefix."""
    permission: Permission | None
    """The permission a caller needs; None for endpoints on the public list."""
    handler: Handler
    query: type[Query]
    body: type[Body] | None
    needs_body: bool
    answers: dict[int, Any]
    """The type of the content for each status; None is no content, a string is a media type."""
    tag: str
    name: str
    """The operation id, which is also the action in the audit."""
    audited: bool
    sends: tuple[str, ...]
    """Media types of a body that the handler reads by itself."""
    signed: type[Body] | None
    """The struct of a signed body, which the handler reads once it has verified the signature."""
    secret: bool
    """The answer shows a secret, and is not compressed."""

    @property
    def lists(self) -> bool:
        """Whether it answers with a page of a list, or with counts: what is asked for again and again, and seldom changed."""
        fields = getattr(self.answers.get(200), "__struct_fields__", ())
        return self.method == "GET" and ("next_cursor" in fields or "capped" in fields)

    @property
    def path_names(self) -> list[str]:
        return [part[1:].partition(":")[0].rstrip("}") for part in self.path.split("/") if part.startswith("{")]

    @property
    def template(self) -> str:
        """The path as the OpenAPI document and the metrics name it, without converters."""
        return "/".join(part.partition(":")[0] + "}" if ":" in part else part for part in self.path.split("/"))


class Routes:
    """The endpoints of one noun."""

    def __init__(self, tag: str, prefix: str = PREFIX) -> None:
        self.tag = tag
        self.endpoints: list[Endpoint] = []
        self._prefix = prefix

    def get(self, path: str, permission: Permission | None, answer: Any, **more: Any) -> Callable[[Handler], Handler]:
        return self._add("GET", path, permission, {200: answer}, **more)

    def head(self, path: str, permission: Permission | None) -> Callable[[Handler], Handler]:
        return self._add("HEAD", path, permission, {200: None})

    def post(self, path: str, permission: Permission | None, answer: Any, **more: Any) -> Callable[[Handler], Handler]:
        return self._add("POST", path, permission, {more.pop("status", 200): answer}, **more)

    def put(self, path: str, permission: Permission | None, answer: Any, **more: Any) -> Callable[[Handler], Handler]:
        return self._add("PUT", path, permission, {200: answer}, **more)

    def delete(
        self, path: str, permission: Permission | None, answer: Any, **more: Any
    ) -> Callable[[Handler], Handler]:
        return self._add("DELETE", path, permission, {more.pop("status", 200): answer}, **more)

    def _add(
        self,
        method: str,
        path: str,
        permission: Permission | None,
        answers: dict[int, Any],
        *,
        also: dict[int, Any] | None = None,
        audited: bool = True,
        needs_body: bool = True,
        sends: tuple[str, ...] = (),
        signed: type[Body] | None = None,
        secret: bool = False,
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            kinds = typing.get_type_hints(handler)
            endpoint = Endpoint(
                method=method,
                path=self._prefix + path,
                permission=permission,
                handler=handler,
                query=kinds.get("query", NoQuery),
                body=kinds.get("body"),
                needs_body=needs_body,
                answers={**answers, **(also or {})},
                tag=self.tag,
                name=f"{self.tag}.{handler.__name__}",
                audited=audited and method not in _SAFE,
                sends=sends,
                signed=signed,
                secret=secret,
            )
            self.endpoints.append(endpoint)
            return handler

        return add


class UndeclaredRoute(Exception):
    """A route without a permission that is not on the public list: the server must not start (X19)."""


def check_declared(endpoint: Endpoint) -> None:
    if endpoint.permission is None and endpoint.template not in PUBLIC:
        raise UndeclaredRoute(f"{endpoint.method} {endpoint.template} has no permission and is not on the public list")


def make_app_handler(site: Site, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """Make what Starlette calls for an endpoint. It always gives an answer and never raises."""

    method, template = endpoint.method, endpoint.template

    async def handle(request: Request) -> Response:
        begun = site.engine.clock.monotonic()
        request_id = request.scope.get("perdure.request_id", "")
        try:
            response = await _execute(site, endpoint, request, request_id)
        except PerdureError as error:
            if error.status >= 500:
                logger.warning("%s %s: %s (request %s)", method, template, error, request_id)
            response = problem(error, request_id)
        except Exception:
            logger.exception("%s %s failed (request %s)", method, template, request_id)
            response = problem(
                Broken(f"something went wrong here; the log of the server has request {request_id}"), request_id
            )
        site.metrics.answered(method, template, response.status_code, site.engine.clock.monotonic() - begun)
        return response

    return handle


async def _execute(site: Site, endpoint: Endpoint, request: Request, request_id: str) -> Response:
    principal = site.nobody
    if endpoint.permission is not None:
        principal = await site.identify(request)
        site.limiter.check(principal)
        principal.require(endpoint.permission)
    _check_path(request)
    with site.bodies.counted(principal.tenant) as body:
        request.scope[BODY] = body
        return await _call(site, endpoint, request, request_id, principal)


async def _call(site: Site, endpoint: Endpoint, request: Request, request_id: str, principal: Principal) -> Response:
    arguments: dict[str, Any] = {}
    if endpoint.query is AnyQuery:
        arguments["query"] = AnyQuery()
    else:
        query = read_query(endpoint.query, request.query_params.multi_items())
        if endpoint.query is not NoQuery:
            arguments["query"] = query
    if endpoint.body is not None:
        arguments["body"] = await read_body(request, endpoint.body, required=endpoint.needs_body)
    call = Call(site, request, principal, request_id)
    call.key = idempotency_key(request) if endpoint.method == "POST" else None
    result = await endpoint.handler(call, **arguments)
    if endpoint.audited:
        # Crash here: the call is done and not in the audit. What it did to a run is in the run's journal all the same.
        # If it cannot be recorded, the caller hears of that, and not that all is well.
        target, noted = call.object[:500], call.noted
        await site.audit.record(principal, endpoint.name, target, after=noted, request_id=request_id)
    response = _respond(endpoint, result, request)
    return response if endpoint.secret else await compressed(request, response, principal.tenant)


def _check_path(request: Request) -> None:
    """Refuse path parameters that no database takes as text: nothing can be stored under them (X33)."""
    for name, value in request.path_params.items():
        if len(value) > LONGEST_ID or ODD_TEXT.search(value):
            raise NotFound(f"there is no such {name}: it is too long, or holds characters that are not accepted")


def _respond(endpoint: Endpoint, result: Any, request: Request) -> Response:
    if isinstance(result, Response):
        return result
    if not isinstance(result, Answer):
        result = Answer(result, next(iter(endpoint.answers)))
    content, headers = msgspec.json.encode(result.content), dict(result.headers)
    if endpoint.lists:
        tag = hashlib.sha256(content).hexdigest()[:32]
        headers["ETag"] = f'W/"{tag}"'  # weak: the same answer may be sent compressed or not
        if is_known(request, tag):
            return Response(status_code=304, headers=headers)
    return Response(content, result.status, headers, "application/json")
