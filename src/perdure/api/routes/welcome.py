"""The page at `/` of `perdure dev`, as long as there is no web interface: links, in plain HTML without scripts.

It must not know what is behind its links.
"""

from __future__ import annotations

import html

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

LINKS = (
    ("/api/v1/runs", "runs, newest first"),
    ("/api/v1/workflows", "workflows that are registered"),
    ("/api/v1/approvals?state=pending", "what waits for a person"),
    ("/api/v1/dead-letters?state=pending", "nodes that are parked after they failed"),
    ("/api/v1/node-types", "what a workflow can be made of"),
    ("/openapi.json", "the description of the API, for tools"),
    ("/metrics", "measurements, for Prometheus"),
    ("/healthz", "whether this process is well"),
)
_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}
_STYLE = "body{font:16px/1.5 system-ui;max-width:42rem;margin:3rem auto;padding:0 1rem}"


def show_links(app: Starlette) -> None:
    """Serve this page at `/`."""
    app.router.routes.append(Route("/", _show, methods=["GET"], name="welcome"))


async def _show(request: Request) -> Response:
    rows = "".join(f'<li><a href="{html.escape(path)}">{html.escape(path)}</a>: {what}</li>' for path, what in LINKS)
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Perdure</title><style>{_STYLE}</style></head><body><h1>Perdure</h1>"
        f"<p>This process serves the API and executes runs. Answers are JSON.</p><ul>{rows}</ul>"
        "<p>For people there is the command line: <code>perdure runs list</code>, <code>perdure --help</code>.</p></body></html>"
    )
    return Response(text, 200, _HEADERS, "text/html")
