"""The HTTP API: `create_app` makes the application, `server.serve` runs it. See docs/reference/http.md."""

from perdure.api.app import create_app
from perdure.api.context import Context, Options

__all__ = ["Context", "Options", "create_app"]
