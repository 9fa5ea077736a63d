"""What all calls of a server share: the engine, the authenticator, limits and metrics."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec
from starlette.requests import Request

from perdure.access import (
    LOCAL,
    Audit,
    Authenticator,
    Buckets,
    Failures,
    Links,
    Places,
    Principal,
    RateLimiter,
    Sessions,
    Unauthenticated,
    make_principal,
)
from perdure.api.bodies import Bodies
from perdure.api.metrics import Metrics
from perdure.api.own_pages import check_own_page, read_cookie
from perdure.api.protocol import Bounds
from perdure.api.readiness import Readiness
from perdure.engine import Engine
from perdure.service.overview import Overviews
from perdure.service.tenancy import archive_of
from perdure.settings import DEFAULTS

MIB = 1024 * 1024
LOGINS_PER_MINUTE = 10


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a server behaves. Settings of the process are read in `perdure.settings` and given here."""

    max_body_bytes: int = MIB
    public_body_bytes: int = MIB // 4
    """The largest body where no credential is asked for: a decision with what was written into its form."""
    public_bodies_bytes: int = 16 * MIB
    """All bodies without a credential together, at one time."""
    tenant_bodies_bytes: int = 256 * MIB
    """All bodies of one tenant together, at one time."""
    hosts: tuple[str, ...] = ()
    """Host names an open server answers to besides loopback ones; a server with authentication answers to any name."""
    public_url: str = ""
    """Where people reach this server. Links begin with it (empty: they are relative), and pages of this origin may ask
    for changes."""
    connections: Bounds = Bounds()
    streams_per_key: int = DEFAULTS.max_streams_per_key
    """Streams and waiting requests of one key: each holds a connection for as long as its reader likes."""
    streams_per_tenant: int = DEFAULTS.max_streams_per_tenant
    auth: Literal["open", "keys", "jwt", "keys,jwt"] = "keys"
    """What a server that is not open asks for; the web interface words its login by it."""
    hook_max_bytes: int = DEFAULTS.hook_max_bytes
    """The largest body of a delivery to a webhook."""
    hook_rate: float = DEFAULTS.hook_rate
    """Deliveries a second to one webhook."""
    ui: bool = False
    """Whether the web interface is served at `/`."""
    mcp: bool = False
    """Whether `/mcp` answers clients of the Model Context Protocol."""
    mcp_approvals: bool = False
    """Whether these may decide approvals, with a credential that may."""


class Site:
    def __init__(
        self,
        engine: Engine,
        options: Options,
        authenticator: Authenticator | None,
        limiter: RateLimiter | None,
    ) -> None:
        self.engine = engine
        self.options = options
        self.metrics = Metrics(engine)
        self.limiter = limiter or RateLimiter(engine.clock, per_key=0, per_tenant=0)
        self.bodies = Bodies(options.public_body_bytes, options.public_bodies_bytes, options.tenant_bodies_bytes)
        self.failures = Failures(engine.clock)
        self.logins = Buckets(engine.clock, LOGINS_PER_MINUTE / 60, LOGINS_PER_MINUTE)
        self.hook_rates = Buckets(engine.clock, options.hook_rate)
        self.readiness = Readiness(engine)
        self.overviews = Overviews()
        self.places = Places(options.streams_per_key, options.streams_per_tenant)
        self.nobody = make_principal(tenant="", name="nobody", kind="link", roles=())
        """The principal of calls to public endpoints: it may do nothing and owns nothing."""
        self._authenticator = authenticator

    @property
    def open(self) -> bool:
        """Whether the server lets every caller in."""
        return self._authenticator is None or self._authenticator.is_open

    @cached_property
    def sessions(self) -> Sessions | None:
        """The sessions of browsers; None where every caller is let in."""
        if self._authenticator is None or self._authenticator.is_open:
            return None
        return Sessions(archive_of(self.engine), self.engine.clock, self._authenticator)

    @cached_property
    def audit(self) -> Audit:
        return Audit(archive_of(self.engine), self.engine.clock)

    @cached_property
    def links(self) -> Links:
        return Links(archive_of(self.engine), self.engine.clock)

    async def identify(self, request: Request) -> Principal:
        if self._authenticator is None:
            return LOCAL
        shown = request.headers.get("authorization")
        cookie = read_cookie(request) if shown is None and self.sessions is not None else None
        try:
            if cookie is None or self.sessions is None:
                return await self._authenticator.authenticate(shown)
            check_own_page(request, self.options.public_url)
            return await self.sessions.authenticate(cookie)
        except Unauthenticated:
            if shown or cookie:
                self.count_failure(request)
            raise

    def count_failure(self, request: Request) -> None:
        """Count a wrong credential (a key, token, link or signature) against the client's address. Raises RateLimited
        when there were too many."""
        self.failures.count(request.client.host if request.client else "")
