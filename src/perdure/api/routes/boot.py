"""What the web interface asks first, before it has a credential: how to get one, and which build the server has."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Literal

from perdure.api.endpoints import Call, Routes
from perdure.api.schemas.general_schemas import View

routes = Routes("ui")


class Boot(View, frozen=True, kw_only=True):
    auth: Literal["open", "keys", "jwt", "keys,jwt"]
    """Who may use the server, as in the setting `auth`."""
    version: str
    build: str
    """The build of the web interface; empty where the server has none."""
    dev: bool
    """Whether this is `perdure dev` on this machine: it has a sample, and a process that may be killed."""


@routes.get("/ui/boot", None, Boot)
async def boot(call: Call) -> Any:
    """Get what the web interface needs before anyone has logged in."""
    options = call.site.options
    return {
        "auth": "open" if call.site.open else options.auth,
        "version": version("perdure"),
        "build": call.request.app.state.build,
        "dev": call.request.app.state.dev,
    }
