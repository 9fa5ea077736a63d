"""How access is denied. Messages never say which part of a credential was wrong.

perdure.errors.PerdureError
├── Unauthenticated     401: no credential, or none that is valid
├── Forbidden           403: the credential is valid, and does not allow this
│   └── LinkInvalid     403: unknown, used, expired, or for another decision
└── RateLimited         429: too many requests; `retry_after` says when to come back
"""

from __future__ import annotations

from perdure.errors import PerdureError


class Unauthenticated(PerdureError):
    code = "unauthenticated"
    status = 401


class Forbidden(PerdureError):
    code = "forbidden"
    status = 403


class LinkInvalid(Forbidden):
    code = "link_invalid"


class RateLimited(PerdureError):
    code = "rate_limited"
    status = 429

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """In how many seconds to come back."""
