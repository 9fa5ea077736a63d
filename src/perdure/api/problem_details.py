"""Errors as `application/problem+json` (RFC 9457): a stable `code`, a sentence, and every problem with its path.

It must not know routes. Callers are shown nothing of an error that was not raised on purpose.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
from starlette.responses import Response

from perdure.access import RateLimited, Unauthenticated
from perdure.api.byte_ranges import RangeUnsatisfiable
from perdure.errors import PerdureError, StoreUnavailable
from perdure.model import DefinitionError
from perdure.service.errors import Invalid, Overloaded, Trouble
from perdure.service.views import problem_view

MEDIA_TYPE = "application/problem+json"

TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Content too large",
    415: "Unsupported media type",
    416: "Range not satisfiable",
    421: "Misdirected request",
    422: "Invalid content",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
    504: "Timeout",
}


class BadQuery(Invalid):
    """The query has parameters that are unknown or not of their type."""

    code = "invalid_query"
    status = 400


class BadHeader(Invalid):
    """A header that may stand only once is given twice."""

    code = "invalid_header"
    status = 400


class BadBody(Invalid):
    """The body is not JSON as this server accepts it."""

    code = "invalid_json"
    status = 400


class TooLarge(PerdureError):
    code = "body_too_large"
    status = 413


class TooSlow(PerdureError):
    """The body did not arrive in time."""

    code = "body_too_slow"
    status = 408


class WrongType(PerdureError):
    code = "unsupported_media_type"
    status = 415


class CrossOrigin(PerdureError):
    """A page of another site asked for a change (X26)."""

    code = "cross_origin"
    status = 403


class WrongHost(PerdureError):
    """The request names another host. An open server answers to its own names only, however others resolve (X26)."""

    code = "wrong_host"
    status = 421


class NoRoute(PerdureError):
    code = "no_such_route"
    status = 404


class NoMethod(PerdureError):
    code = "method_not_allowed"
    status = 405


class Broken(PerdureError):
    """An unforeseen error. The server's log has it under the same request id."""

    code = "internal_error"


def problem(error: PerdureError, request_id: str) -> Response:
    # A wrong definition in a request is the caller's mistake; the class of the error has no status of its own.
    status = 422 if isinstance(error, DefinitionError) else error.status
    body: dict[str, Any] = {
        "type": f"urn:perdure:error:{error.code}",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "code": error.code,
        "detail": error.message,
        "request_id": request_id,
    }
    if isinstance(error, DefinitionError):
        body["problems"] = [problem_view(one) for one in error.problems]
    elif isinstance(error, Invalid) and error.troubles:
        body["problems"] = [_trouble(one) for one in error.troubles]
    return Response(msgspec.json.encode(body), status, _headers(error), MEDIA_TYPE)


def _trouble(one: Trouble) -> dict[str, Any]:
    return {"path": one.path, "code": one.code, "message": one.message}


def _headers(error: PerdureError) -> dict[str, str]:
    match error:
        case Unauthenticated():
            return {"WWW-Authenticate": 'Bearer realm="perdure"'}
        case RangeUnsatisfiable():
            return {"Content-Range": f"bytes */{error.size}"}
        case RateLimited():
            return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
        case StoreUnavailable() | Overloaded():
            return {"Retry-After": "1"}
        case _:
            return {}
