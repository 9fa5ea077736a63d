"""Requests of the server's own pages: the cookie of their session, and the proof that no other site sent them (X26).

A browser adds the cookie by itself, so the cookie proves only who sits there. That a page of this server asked is proven by
`Origin`, which a page cannot choose, and by a header that no form and no link can set.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from perdure.access.authenticator import is_loopback
from perdure.api.problem_details import CrossOrigin
from perdure.errors import PerdureError

COOKIE = "__Host-perdure"
_SAFE = {"GET", "HEAD"}
_PLACE = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_PORTS = {"http": ":80", "https": ":443"}


class SessionNeedsTls(PerdureError):
    """A cookie would cross the network in clear text."""

    code = "session_needs_tls"
    status = 403


def read_cookie(request: Request) -> str | None:
    """The secret of the session that the request names. If it names two, it names none: one of them is not ours."""
    pairs = [part.partition("=") for line in request.headers.getlist("cookie") for part in line.split(";")]
    found = {value.strip() for name, _, value in pairs if name.strip() == COOKIE}
    if len(found) > 1:
        return ""
    return found.pop() if found else None


def check_own_page(request: Request, public_url: str) -> None:
    """Refuse a request that changes something unless a page of this server sent it."""
    if request.method in _SAFE:
        return
    own = own_origins(request, public_url)
    if _normal(request.headers.get("origin", "")) not in own:
        raise CrossOrigin(
            "with a session a change is accepted only from a page of this server, by the header Origin; programs send "
            "'Authorization: Bearer <API key>' instead"
        )
    if set(request.headers.getlist("sec-fetch-site")) - {"same-origin"}:
        raise CrossOrigin("a web page of another origin may not send this request")
    if request.headers.get("x-perdure-request") != "1":
        raise CrossOrigin("with a session a change needs the header 'X-Perdure-Request: 1'")


def check_tls(request: Request, public_url: str) -> None:
    if not own_origins(request, public_url):
        raise SessionNeedsTls(
            "a session needs TLS: set public_url to the https address of this server, or open it as http://127.0.0.1"
        )


def own_origins(request: Request, public_url: str) -> set[str]:
    """The origins of this server's own pages that may have a session: over TLS, or on this machine alone. The scheme counts:
    who can change what http carries is not let into https."""
    origins = set()
    scheme, _, rest = public_url.partition("://")
    if scheme.lower() == "https" or is_loopback(read_host(rest.partition("/")[0])):
        origins.add(_normal(public_url))
    host = request.headers.get("host", "")
    if is_loopback(read_host(host)):
        origins.add(_normal(f"http://{host}"))
    return origins - {""}


def set_cookie(response: Response, text: str, seconds: float) -> None:
    """Give the browser a session, or with an empty text take it away."""
    response.headers["Set-Cookie"] = (
        f"{COOKIE}={text}; Max-Age={max(0, int(seconds))}; Path=/; Secure; HttpOnly; SameSite=Strict"
    )


def _normal(origin: str) -> str:
    """An origin as browsers write it: in lower case, and without the port that its scheme has anyway."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    place = parts.netloc.lower()
    return f"{parts.scheme}://{place.removesuffix(_PORTS.get(parts.scheme, ' '))}" if place else ""


def read_host(place: str) -> str:
    """The name in a header Host, in lower case and without the port; empty if it is anything but a host and a port. A place with a
    user in it is none: programs differ in which part of that they take for the host."""
    found = _PLACE.fullmatch(place)
    return found[1].strip("[]").lower() if found else ""
