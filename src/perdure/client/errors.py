"""The errors that a call to a server can raise, made from the problem it answered with (RFC 9457).

    PerdureError
    └── ApiError            any answer that is no success; `http_status`, `code`, `message`, `problems`,
                            `request_id`
        ├── Invalid         400, 413, 415, 422: what was sent does not fit; `problems` has everything that is wrong
        ├── Unauthenticated 401: no credential, or not a good one
        ├── Forbidden       403: the credential does not allow it
        ├── NotFound        404: also a perdure.errors.NotFound
        ├── Conflict        409: the state of a thing does not allow it; also a perdure.errors.Refused
        ├── RateLimited     429: `retry_after`
        ├── Unavailable     503, 504: the server, or what it needs, cannot answer now; `retry_after`
        ├── ServerBroken    any other 5xx
        └── Unreachable     no answer at all; `http_status` is 0

It must not know how answers arrive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure import errors
from perdure.client.views import Problem

MEDIA_TYPE = "application/problem+json"


class ApiError(errors.PerdureError):
    """An answer that is no success. `code` is stable; the message is for people."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        status: int = 0,
        problems: Sequence[Problem] = (),
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        # Not through super(): the classes beside this one take other arguments.
        errors.PerdureError.__init__(self, message)
        if code:
            self.code = code
        self.http_status = status
        self.problems = tuple(problems)
        self.request_id = request_id
        self.retry_after = retry_after
        """The seconds after which the server wants to be asked again, if it said so."""

    def __str__(self) -> str:
        shown = [f"  {one['path'] or '(the whole)'}: {one['message']}" for one in self.problems[:_SHOWN]]
        more = len(self.problems) - _SHOWN
        return "\n".join([self.message, *shown, *([f"  … and {more} more"] if more > 0 else [])])


class Invalid(ApiError):
    code = "invalid_request"
    status = 422


class Unauthenticated(ApiError):
    code = "unauthenticated"
    status = 401


class Forbidden(ApiError):
    code = "forbidden"
    status = 403


class NotFound(ApiError, errors.NotFound):
    pass


class Conflict(ApiError, errors.Refused):
    pass


class RateLimited(ApiError):
    code = "rate_limited"
    status = 429


class Unavailable(ApiError):
    code = "server_unavailable"
    status = 503


class ServerBroken(ApiError):
    code = "internal_error"
    status = 500


class Unreachable(ApiError):
    """No answer. If no connection was made, the request was not carried out; otherwise the client cannot know."""

    code = "server_unreachable"
    status = 503


_SHOWN = 20
_KINDS: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: RateLimited,
    503: Unavailable,
    504: Unavailable,
}


def read_error(
    status: int, media_type: str, content: bytes, retry_after: str | None = None, location: str | None = None
) -> ApiError:
    """The error that an answer stands for. Something other than Perdure may have answered: a proxy, another server. No
    redirect is followed: a key goes only to the server it was given for."""
    kind = _KINDS.get(status, ServerBroken if status >= 500 else ApiError)
    seconds = _seconds(retry_after)
    body = _read_problem(media_type, content)
    if body is None:
        text = " ".join(content[:200].decode(errors="replace").split())
        said = f"it points to {location[:200]}" if location else text
        message = f"the server answered {status}, but not as a Perdure server does{f': {said}' if said else ''}; is the URL right?"
        return kind(message, status=status, retry_after=seconds)
    return kind(
        str(body.get("detail") or body.get("title") or f"the server answered {status}"),
        code=str(body.get("code", "")),
        status=status,
        problems=body.get("problems") or (),
        request_id=str(body.get("request_id", "")),
        retry_after=seconds,
    )


def _read_problem(media_type: str, content: bytes) -> dict[str, Any] | None:
    if not media_type.startswith(MEDIA_TYPE):
        return None
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def _seconds(text: str | None) -> float | None:
    """`Retry-After` in seconds. The other form, a date, is not read: Perdure never sends it."""
    return float(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 9 else None
