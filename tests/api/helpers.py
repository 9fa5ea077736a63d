"""A server for a test: a real engine, a real uvicorn on a free port of the loopback interface, and a client for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import jwt

from perdure.access import Authenticator
from perdure.access.tokens import TokenRules, Tokens
from perdure.api import Options, create_app
from perdure.api.server import serve
from perdure.clock import system
from perdure.engine import Engine
from perdure.settings import Settings
from perdure.tempo import TEMPO
from tests.engine.helpers import DEADLINE

API = "/api/v1"


class Server:
    """What a test has in hand."""

    def __init__(self, engine: Engine, app: Any, url: str, client: httpx2.AsyncClient) -> None:
        self.engine = engine
        self.app = app
        self.url = url
        self.client = client

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        return await self.client.get(API + path, **more)

    async def post(self, path: str, json: Any = None, **more: Any) -> httpx2.Response:
        return await self.client.post(API + path, **({} if json is None else {"json": json}), **more)

    async def ok(self, path: str, json: Any = None, *, method: str = "", **more: Any) -> Any:
        """The content of an answer that must be a good one."""
        method = method or ("GET" if json is None else "POST")
        response = await self.client.request(method, API + path, **({} if json is None else {"json": json}), **more)
        assert response.is_success, (method, path, response.status_code, response.text)
        return response.json()

    async def start(
        self,
        definition: dict[str, Any],
        inputs: Any = None,
        *,
        wait: float = DEADLINE,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> Any:
        body = {"definition": definition, "wait_seconds": wait, "inputs": inputs, **more}
        return await self.ok("/runs", body, headers=headers)


@asynccontextmanager
async def served(engine: Engine, *, options: Options | None = None, **more: Any) -> AsyncIterator[Server]:
    """A server over an engine that is open."""
    app = create_app(engine, options=options, **more)
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(app, "127.0.0.1", 0, ready.set_result, stop))
        try:
            url = f"http://127.0.0.1:{await asyncio.wait_for(ready, DEADLINE)}"
            async with httpx2.AsyncClient(base_url=url, timeout=DEADLINE) as client:
                yield Server(engine, app, url, client)
        finally:
            stop.set()


@asynccontextmanager
async def mounted(engine: Engine, *, options: Options | None = None, **more: Any) -> AsyncIterator[Server]:
    """The same without a socket, which is much faster to end. A stream cannot be read this way."""
    app = create_app(engine, options=options, **more)
    transport = httpx2.ASGITransport(app=app)
    client = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=DEADLINE)
    async with app.router.lifespan_context(app), client:
        yield Server(engine, app, "http://127.0.0.1", client)


@asynccontextmanager
async def serving(
    path: Path,
    *,
    options: Options | None = None,
    tokens: bool = False,
    real: bool = False,
    heartbeat_seconds: float = TEMPO.heartbeat_seconds,
    **more: Any,
) -> AsyncIterator[Server]:
    """An engine that works, and a server over it, which asks for tokens if wanted. `more` goes to `create_app`."""
    database = f"sqlite:///{path / 'perdure.db'}"
    engine = await Engine.open(Settings(database_url=database, worker_heartbeat_seconds=heartbeat_seconds))
    try:
        await engine.hold()
        if tokens:
            more["authenticator"] = with_tokens(engine)
        async with (served if real else mounted)(engine, options=options, **more) as server:
            yield server
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


# -- who asks ----------------------------------------------------------------------------------------------------------

SECRET = "a secret of tests that is long enough for HS256"


def with_tokens(engine: Engine) -> Authenticator:
    """Real tokens, so that every test says who it is without a database."""
    return Authenticator(None, engine.clock, keys=False, tokens=Tokens(TokenRules(secret=SECRET)))  # type: ignore[arg-type]


def bearer(name: str = "ann", *roles: str, tenant: str = "acme") -> dict[str, str]:
    claims = {"sub": name, "tenant": tenant, "roles": list(roles or ("admin",)), "exp": int(system.now()) + 3600}
    return {"Authorization": f"Bearer {jwt.encode(claims, SECRET, algorithm='HS256')}"}
