"""What all calls of a server share: the engine, who is asked about credentials, limits, metrics, the feed."""

from __future__ import annotations

from functools import cached_property

import msgspec
from starlette.requests import Request

from perdure.access import (
    LOCAL,
    Audit,
    Authenticator,
    Failures,
    Links,
    Places,
    Principal,
    RateLimiter,
    Unauthenticated,
    make_principal,
)
from perdure.api.bodies import Bodies
from perdure.api.metrics import Metrics
from perdure.api.protocol import Bounds
from perdure.api.routing import Call
from perdure.engine import Engine
from perdure.service.feed import Feed
from perdure.service.scope import archive_of

MIB = 1024 * 1024


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a server behaves. What is a setting of the process is read in `perdure.settings` and given here."""

    max_body_bytes: int = MIB
    public_body_bytes: int = MIB // 4
    """Where no credential is asked for: a decision with what was written into its form."""
    public_bodies_bytes: int = 16 * MIB
    """All of them together, at one time."""
    tenant_bodies_bytes: int = 256 * MIB
    """Those of one tenant together, at one time."""
    hosts: tuple[str, ...] = ()
    """Names an open server answers to beside those of the loopback interface; one with authentication answers to any."""
    public_url: str = ""
    """Where people reach this server: for links (empty: they are relative), and pages from there may ask for changes."""
    connections: Bounds = Bounds()
    streams_per_key: int = 100
    """Streams and waiting requests, each of which holds a connection for as long as its reader likes."""
    streams_per_tenant: int = 400


class Context:
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
        self.feed = Feed(engine)
        self.limiter = limiter or RateLimiter(engine.clock, per_key=0, per_tenant=0)
        self.bodies = Bodies(options.public_body_bytes, options.public_bodies_bytes, options.tenant_bodies_bytes)
        self.failures = Failures(engine.clock)
        self.places = Places(options.streams_per_key, options.streams_per_tenant)
        self.nobody = make_principal(tenant="", name="nobody", kind="link", roles=())
        """Who calls what is public: may nothing and owns nothing."""
        self._authenticator = authenticator

    @property
    def open(self) -> bool:
        """Whoever reaches this server is let in."""
        return self._authenticator is None or self._authenticator.is_open

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
        try:
            return await self._authenticator.authenticate(shown)
        except Unauthenticated:
            if shown:
                self.count_failure(request)
            raise

    def count_failure(self, request: Request) -> None:
        """A credential was wrong: a key, a token, a link, a signature. Raises RateLimited where that happens too often."""
        self.failures.count(request.client.host if request.client else "")

    async def audited(self, call: Call, action: str) -> None:
        """Raises when it cannot be written: the caller must not hear that all is well."""
        await self.audit.record(call.principal, action, call.object[:500], after=call.noted, request_id=call.request_id)
