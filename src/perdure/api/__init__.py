"""The HTTP API: `create_app` makes the application, `server.serve` runs it. See docs/reference/http.md."""

from perdure.api.app import create_app
from perdure.api.site import Options, Site

__all__ = ["Options", "Site", "create_app"]
