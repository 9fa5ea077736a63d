"""The error of a private server."""

from __future__ import annotations

from perdure.errors import PerdureError


class ServerFailed(PerdureError):
    """A private server did not start, or one of its programs failed."""

    code = "private_server_failed"
