"""Sessions of browsers over HTTP: log in with a key or token, log out, and see one's sessions. What a session is stands in
`perdure.access.sessions`.

Every failure to log in has the same answer, at the same time after it began: neither tells which part was wrong.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from perdure.access import Permission, RateLimited, Unauthenticated, network_of
from perdure.api.endpoints import Call, Routes
from perdure.api.own_pages import check_own_page, check_tls, read_cookie, set_cookie
from perdure.api.request_reader import Body
from perdure.api.routes.workflows import Paged
from perdure.api.schemas import session_schemas as s
from perdure.errors import Refused

routes = Routes("sessions")
FAILED_SECONDS = 0.25
"""When a failure is answered, counted from the beginning of the request."""


class LogIn(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    credential: Annotated[str, Meta(description="An API key or a token.", min_length=1, max_length=8192)]

    def __repr__(self) -> str:
        return "LogIn()"


@routes.post("/session", None, None, status=204, audited=False)
async def open_session(call: Call, body: LogIn) -> Any:
    """Log in: a key or token opens a session, which the browser gets as the cookie `__Host-perdure`.

    It ends after 12 hours without use, after 7 days, with its key or token, or when it is ended. The request must come from a
    page of this server (`Origin`) and have the header `X-Perdure-Request: 1`, as has every request with the cookie that changes
    something. An address may log in 10 times a minute.
    """
    site, request = call.site, call.request
    check_tls(request, site.options.public_url)
    check_own_page(request, site.options.public_url)
    if site.sessions is None:
        raise Refused(
            "this server lets every caller of this machine in; there is nothing to log in to", code="open_server"
        )
    begun = call.site.engine.clock.monotonic()
    _count(call)
    try:
        agent = request.headers.get("user-agent", "")
        opened = await site.sessions.open(body.credential.strip(), agent=agent, before=read_cookie(request))
    except Unauthenticated:
        await site.engine.clock.sleep(max(0.0, begun + FAILED_SECONDS - site.engine.clock.monotonic()))
        raise Unauthenticated(
            "the credential is not valid; check that it is complete, not expired and not revoked"
        ) from None
    await site.audit.record(
        opened.principal, "sessions.open_session", opened.session.session_id, request_id=call.request_id
    )
    response = Response(status_code=204)
    set_cookie(response, opened.text, opened.session.expires_at - site.engine.clock.now())
    return response


def _count(call: Call) -> None:
    name = network_of(call.request.client.host if call.request.client else "")
    if wait := call.site.logins.wait(name):
        raise RateLimited(f"too many logins came from this address; try again in {wait:.3g} s", wait)
    call.site.logins.spend(name)


@routes.delete("/session", None, None, status=204, audited=False)
async def close_session(call: Call) -> Any:
    """Log out: the session of the cookie ends, and the browser forgets it. Without a session nothing happens."""
    site, request = call.site, call.request
    check_own_page(request, site.options.public_url)
    text = read_cookie(request)
    if site.sessions is not None and text is not None and (ended := await site.sessions.end(text)) is not None:
        await site.audit.record(
            msgspec.structs.replace(site.nobody, tenant=ended.tenant, name=ended.name, key_id=ended.key_id),
            "sessions.close_session",
            ended.session_id,
            request_id=call.request_id,
        )
    response = Response(status_code=204)
    set_cookie(response, "", 0)
    return response


@routes.get("/sessions", Permission.SYSTEM_READ, s.SessionPage)
async def list_sessions(call: Call, query: Paged) -> Any:
    """List the sessions that were opened with your key, or for the subject of your token, newest first."""
    return await call.service.sessions.list(limit=query.limit, cursor=query.cursor).first()


@routes.delete("/sessions/{session_id}", Permission.SYSTEM_READ, s.Session)
async def end_session(call: Call) -> Any:
    """End one of your sessions. Within a second it is refused everywhere, and its streams end."""
    return await call.service.sessions.end(call.path("session_id"))
