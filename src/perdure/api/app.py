"""The application: every endpoint is mounted, none without a permission, and one document describes them all.

`create_app` is the only way in. This file must not know what endpoints do, nor how a process is run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.access import Authenticator, RateLimiter, open_authenticator
from perdure.api import chunk_frames
from perdure.api.endpoints import Endpoint, Routes, check_declared, make_app_handler
from perdure.api.openapi import make_document
from perdure.api.problem_details import Broken, NoMethod, NoRoute, problem
from perdure.api.protocol import Bounds
from perdure.api.routes import (
    approvals,
    assets,
    audit,
    boot,
    budgets,
    dead_letters,
    events,
    hooks,
    keys,
    links,
    logs,
    mcp,
    pictures,
    run_lists,
    run_readings,
    runs,
    saved_views,
    sessions,
    system,
    tools,
    triggers,
    what_ifs,
    workflows,
)
from perdure.api.shell import Shell
from perdure.api.site import Options, Site
from perdure.engine import Engine
from perdure.errors import PerdureError
from perdure.service.tenancy import archive_of
from perdure.settings import Settings
from perdure.web import Interface

NOUNS: tuple[Routes, ...] = (
    run_lists.routes,
    runs.routes,
    run_readings.routes,
    what_ifs.routes,
    chunk_frames.routes,
    pictures.of_runs,
    workflows.routes,
    pictures.of_workflows,
    approvals.routes,
    hooks.routes,
    dead_letters.routes,
    triggers.routes,
    events.routes,
    assets.routes,
    budgets.routes,
    tools.routes,
    system.routes,
    keys.routes,
    saved_views.routes,
    sessions.routes,
    audit.routes,
    logs.routes,
    links.pages,
    boot.routes,
    mcp.routes,
    system.outside,
)


def create_app(
    engine: Engine,
    settings: Settings | None = None,
    *,
    options: Options | None = None,
    authenticator: Authenticator | None = None,
    limiter: RateLimiter | None = None,
    nouns: Iterable[Routes] = NOUNS,
) -> Starlette:
    """Make the application as the settings say; an authenticator that is given takes precedence. With neither, every
    caller is let in, and `server.serve` listens on the loopback interface only."""
    if settings is not None:
        authenticator = authenticator or open_authenticator(settings, archive_of(engine), engine.clock)
        limiter = limiter or RateLimiter(
            engine.clock, per_key=settings.rate_limit_per_key, per_tenant=settings.rate_limit_per_tenant
        )
        options = options or Options(
            public_url=settings.public_url,
            connections=Bounds(connections=settings.max_connections, per_address=settings.max_connections_per_address),
            streams_per_key=settings.max_streams_per_key,
            streams_per_tenant=settings.max_streams_per_tenant,
            hook_max_bytes=settings.hook_max_bytes,
            hook_rate=settings.hook_rate,
            auth=settings.auth,
            ui=settings.ui,
            mcp=settings.mcp,
            mcp_approvals=settings.mcp_approvals,
        )
    site = Site(engine, options or Options(), authenticator, limiter)
    nouns = list(nouns)
    endpoints = [endpoint for noun in nouns for endpoint in noun.endpoints]
    for endpoint in endpoints:
        check_declared(endpoint)
    app = Starlette(
        routes=[_route(site, endpoint) for endpoint in endpoints],
        exception_handlers={HTTPException: _unrouted, Exception: _broken},
        middleware=[Middleware(Shell, site=site)],
        lifespan=_lifespan,
    )
    app.router.redirect_slashes = False
    app.state.site = site
    app.state.document = cache(lambda: make_document(endpoints))
    app.state.build = ""
    app.state.interface = None
    app.state.dev = any(noun.tag == "dev" for noun in nouns)
    if site.options.ui:
        interface = Interface(site.options.public_url)
        app.state.build = interface.build
        app.state.interface = interface
        app.router.routes.extend(interface.routes())
    return app


def _route(site: Site, endpoint: Endpoint) -> Route:
    route = Route(endpoint.path, make_app_handler(site, endpoint), methods=[endpoint.method], name=endpoint.name)
    route.methods = {endpoint.method}  # as the document says; Starlette would add HEAD to every GET
    return route


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    site: Site = app.state.site
    site.metrics.start()
    site.engine.feed.open()
    try:
        yield
    finally:
        site.engine.feed.close()
        site.metrics.stop()


async def _unrouted(request: Request, error: Exception) -> Response:
    """Answer a request for a path or method that does not exist. Below /api a caller authenticates first (X20)."""
    assert isinstance(error, HTTPException)
    site: Site = request.app.state.site
    request_id = request.scope.get("perdure.request_id", "")
    path = request.url.path[:200]
    place = "" if path.startswith("/api/v1") else "the API is below /api/v1, and "
    answer: PerdureError = NoRoute(f"there is nothing at {path}; {place}GET /openapi.json lists what there is")
    if error.status_code == 405:
        answer = NoMethod(f"{request.method} is not possible here")
    try:
        if request.url.path.lower().lstrip("/").startswith("api"):
            await site.identify(request)
    except PerdureError as refused:
        answer = refused
    site.metrics.unrouted(request.method, answer.status)
    interface: Interface | None = request.app.state.interface
    page = interface.show_nothing(request) if interface is not None and isinstance(answer, NoRoute) else None
    if page is not None:
        return page
    response = problem(answer, request_id)
    if answer.status == 405:
        response.headers.update(error.headers or {})
    return response


async def _broken(request: Request, error: Exception) -> Response:
    request_id = request.scope.get("perdure.request_id", "")
    return problem(Broken(f"something went wrong here; the log of the server has request {request_id}"), request_id)
