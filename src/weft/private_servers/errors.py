"""What can go wrong with a private server."""

from __future__ import annotations

from weft.errors import WeftError


class ServerFailed(WeftError):
    """A private server did not start, or one of its programs failed."""

    code = "private_server_failed"
