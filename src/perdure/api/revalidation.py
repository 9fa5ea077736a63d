"""Answers that a client may keep and ask about again: `ETag` and `If-None-Match`.

An answer that is kept is still asked for each time, so that a lost permission counts at once (`no-cache`).
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

_KEPT = "private, no-cache"


def is_known(request: Request, tag: str) -> bool:
    """Whether the client has the answer with this tag. The comparison is the weak one (RFC 9110, 13.1.2)."""
    asked = request.headers.get("if-none-match", "")
    return asked.strip() == "*" or f'"{tag}"' in (one.strip().removeprefix("W/") for one in asked.split(","))


def headers_of(tag: str) -> dict[str, str]:
    """A weak tag: the same answer may be sent compressed or not."""
    return {"ETag": f'W/"{tag}"', "Cache-Control": _KEPT}


def unchanged(tag: str) -> Response:
    return Response(status_code=304, headers=headers_of(tag))
