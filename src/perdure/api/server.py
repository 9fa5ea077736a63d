"""The process side of the API: a socket, uvicorn, and an orderly end. A server without authentication listens on the
loopback interface only; which hosts are loopback is decided in `perdure.access`.

This file must not know routes.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette

from perdure.access.authenticator import is_loopback
from perdure.api.protocol import make_protocol
from perdure.errors import PerdureError, SettingsInvalid
from perdure.runtime.patience import first_of
from perdure.tempo import GRACE_SECONDS

CANCELLED_SECONDS = 1
"""The same when the server is cancelled: a part of its engine broke, and it will be started again."""
BACKLOG = 2048


class AddressTaken(PerdureError):
    """The server cannot listen on the address."""

    code = "address_taken"


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the process that runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is any free one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(BACKLOG)
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise AddressTaken(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another with --port"
        ) from error
    return bound


def check_address(app: Starlette, host: str) -> None:
    """Refuse an address outside this machine for a server that lets every caller in."""
    if app.state.site.open and not is_loopback(host):
        raise SettingsInvalid(
            f"without authentication this server does not listen on {host or 'every address'}; set PERDURE_AUTH=keys or "
            "PERDURE_AUTH=jwt, or listen on 127.0.0.1"
        )


async def serve(
    app: Starlette,
    host: str,
    port: int,
    ready: Callable[[int], None],
    stop: asyncio.Event | None = None,
    listening: socket.socket | None = None,
) -> None:
    """Serve until `stop` is set. `ready` is called with the port when requests are taken. A `listening` socket that another
    process keeps open is used instead of a new one, and stays open."""
    check_address(app, host)
    bound = bind(host, port) if listening is None else listening.dup()
    # Asked now: a server that is told to stop while it starts has closed the socket before it is ready.
    found = bound.getsockname()[1]
    config = uvicorn.Config(
        app,
        http=make_protocol(app.state.site.options.connections),
        ws="none",
        lifespan="off",  # it is entered below: in a task of uvicorn's own, leaving at once would end it with a traceback
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(GRACE_SECONDS),
    )
    try:
        async with app.router.lifespan_context(app):
            await _serve(app, _Server(config), bound, lambda: ready(found), stop or asyncio.Event())
    finally:
        bound.close()


async def _serve(
    app: Starlette, server: uvicorn.Server, bound: socket.socket, ready: Callable[[], None], stop: asyncio.Event
) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve(sockets=[bound]))
            stopping = group.create_task(_stop(app, server, stop))
            await _until_started(server, serving)
            if server.started:
                ready()
            await asyncio.wait({serving})
            stopping.cancel()
    except asyncio.CancelledError:
        await _leave(app, server, bound)
        raise


async def _stop(app: Starlette, server: uvicorn.Server, stopped: asyncio.Event) -> None:
    await stopped.wait()
    app.state.site.engine.feed.close()  # streams end, so that the shutdown need not wait for them
    server.should_exit = True


async def _leave(app: Starlette, server: uvicorn.Server, bound: socket.socket) -> None:
    """Shut the server down after a cancellation. Otherwise uvicorn would go on listening, and this process could not
    serve the address again."""
    if server.started:
        app.state.site.engine.feed.close()
        server.config.timeout_graceful_shutdown = CANCELLED_SECONDS
        await server.shutdown([bound])


async def _until_started(server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    from perdure.clock import system

    async def started() -> None:
        while not server.started:
            await system.sleep(0.005)

    await first_of(started(), _wait(serving))


async def _wait(task: asyncio.Task[Any]) -> None:
    await asyncio.wait({task})


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop factory for `asyncio.Runner`: uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
