"""Answers sent compressed to a client that takes gzip: JSON and pictures over 1 KB.

How long a compressed answer is tells something of what is in it. Where a secret is shown beside text that another caller
has chosen, that other could learn the secret from lengths; so answers that show a secret are never compressed, and the
rest hold none. Large answers are compressed in a thread. It must not know routes.
"""

from __future__ import annotations

import zlib

from starlette.requests import Request
from starlette.responses import Response

from perdure.threads import aside

LEAST_BYTES = 1000
_INLINE_BYTES = 64 * 1024
"""Up to so many bytes take a millisecond or two, less than a thread of their own would cost."""
_KINDS = ("application/json", "image/svg+xml")
_LEVEL = 5
_GZIP = 16 + zlib.MAX_WBITS


async def compressed(request: Request, response: Response, tenant: str) -> Response:
    """The answer, with its body compressed if it is worth it and the client takes it. Answers that last are sent as they
    come."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    body = getattr(response, "body", b"")
    if len(body) <= LEAST_BYTES or kind not in _KINDS or "content-encoding" in response.headers:
        return response
    response.headers["Vary"] = "Accept-Encoding"
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return response
    packed = _pack(body) if len(body) <= _INLINE_BYTES else await aside(tenant, _pack, bytes(body))
    response.body = packed
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(packed))
    return response


def accepts_gzip(accepted: str) -> bool:
    """Whether a client that sent this `Accept-Encoding` takes gzip. A weight of 0 means that it does not."""
    weights = {}
    for part in accepted.lower().split(","):
        name, _, more = part.partition(";")
        weights[name.strip()] = _weigh(more)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _weigh(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


def _pack(body: bytes | memoryview) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()
