"""The web interface: the built files, served with the headers under which browsers run them.

Nothing is made here: `make ui` builds `static` from the folder `ui`, and a test compares the two. This package knows no
engine and no data. Whatever is seen on a page comes from the API, which asks for its own credentials.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGES = (
    "/",
    "/login",
    "/welcome",
    "/runs",
    "/runs/{run_id}",
    "/runs/{run_id}/edit",
    "/runs/{run_id}/print",
    "/approvals",
    "/approvals/{approval_id}",
    "/dead-letters",
    "/dead-letters/{dead_letter_id}",
    "/workflows",
    "/workflows/new",
    "/workflows/{name}",
    "/workflows/{name}/diff",
    "/workflows/{name}/edit",
    "/workflows/{name}/start",
    "/search",
    "/settings",
    "/workers",
    "/queues/{queue}",
    "/triggers",
    "/triggers/{name}",
    "/agents",
    "/assets",
    "/costs",
    "/node-types/{name}",
    "/schedules",
    "/admin",
    "/admin/{part}",
)
"""The addresses of screens. Each answers with the same page, whose script shows what the address means."""

NEVER_PAGES = frozenset({"api", "links", "mcp", "assets", "healthz", "readyz", "metrics", "openapi.json"})
"""Where the first part of an address is one of these, programs ask: what is not there is told as a problem, not as a page."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), clipboard-read=(), "
    "fullscreen=(self), clipboard-write=(self)",
}
_ONE_YEAR = 31_536_000
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_THEMES = frozenset({"light", "dark"})


class Built:
    """What `make ui` made: read once, when a server starts, so that a file that is missing is noticed then."""

    def __init__(self) -> None:
        folder = files("perdure.web") / "static"
        found: dict[str, Any] = json.loads((folder / "build.json").read_bytes())
        self.build: str = found["build"]
        """The name of this build. It stands in the address of every asset, so that an address never changes its content."""
        self.page: str = (folder / "index.html").read_text(encoding="utf-8")
        self.assets = {name: (folder / name).read_bytes() for name in found["files"] if name != "index.html"}


class Interface:
    """The web interface of one server. Under a path prefix, `public_url` names the prefix."""

    def __init__(self, public_url: str = "") -> None:
        self._built = Built()
        address = urlsplit(public_url)
        self.base = address.path.rstrip("/")
        self._headers = dict(HEADERS)
        if address.scheme == "https":
            self._headers["Strict-Transport-Security"] = f"max-age={_ONE_YEAR}"
        self._pages = {theme: self._fill_in(theme) for theme in ("", *_THEMES)}

    @property
    def build(self) -> str:
        return self._built.build

    def routes(self) -> list[Route]:
        pages = [Route(path, self._show_page, methods=["GET"], name=f"page {path}") for path in PAGES]
        return [*pages, Route("/assets/{build}/{name:path}", self._show_asset, methods=["GET"], name="asset")]

    def _fill_in(self, theme: str) -> tuple[bytes, str]:
        given = {"base": self.base, "build": self.build, "theme": theme}
        text = re.sub(r"\{\{(\w+)\}\}", lambda found: html.escape(given[found[1]]), self._built.page)
        return text.encode(), f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'

    async def _show_page(self, request: Request) -> Response:
        """The page in the theme that the browser was told to keep: known before the first paint, without a script."""
        content, etag = self._page_for(request)
        headers = {**self._headers, "Cache-Control": "no-cache", "ETag": etag, "Vary": "Cookie"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(content, 200, headers, "text/html")

    def show_nothing(self, request: Request) -> Response | None:
        """The page, which says that there is no screen here, to a browser that asked for one; nothing to other callers."""
        first = request.url.path.lower().lstrip("/").partition("/")[0]
        wanted = request.method in ("GET", "HEAD") and "text/html" in _accepted(request.headers.get("accept", ""))
        if not wanted or first in NEVER_PAGES:
            return None
        content, _ = self._page_for(request)
        headers = {**self._headers, "Cache-Control": "no-cache", "Vary": "Accept, Cookie"}
        return Response(content, 404, headers, "text/html")

    def _page_for(self, request: Request) -> tuple[bytes, str]:
        theme = request.cookies.get("theme", "")
        return self._pages[theme if theme in _THEMES else ""]

    async def _show_asset(self, request: Request) -> Response:
        name, build = request.path_params["name"], request.path_params["build"]
        if build != self.build or name not in self._built.assets or name.endswith((".br", ".gz")):
            return Response("there is no such file in this build\n", 404, self._headers, "text/plain")
        cached = f"public, max-age={_ONE_YEAR}, immutable"
        headers = {**self._headers, "Cache-Control": cached, "Vary": "Accept-Encoding"}
        accepted = _accepted(request.headers.get("accept-encoding", ""))
        for encoding, suffix in _ENCODINGS:
            if encoding in accepted and name + suffix in self._built.assets:
                headers["Content-Encoding"] = encoding
                name += suffix
                break
        kind = _TYPES[name.removesuffix(".br").removesuffix(".gz").rpartition(".")[2]]
        return Response(self._built.assets[name], 200, {**headers, "Content-Type": kind})


def _accepted(header: str) -> set[str]:
    """The encodings or types that a client takes. One with the weight 0 is one that it does not take."""
    found = set()
    for one in header.lower().split(","):
        name, _, weight = one.partition(";")
        if not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight):
            found.add(name.strip())
    return found
