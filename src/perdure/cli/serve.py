"""`perdure serve`: the API, and a share of the runs to decide for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import db_option, debug_option

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from perdure.api.endpoints import Routes
    from perdure.engine import Engine
    from perdure.settings import Settings

HOST = "127.0.0.1"
PORT = 8700

port_option = click.option(
    "--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="0: any that is free."
)


@click.command(short_help="Serve the API and decide for a share of the runs.")
@click.option("--host", default=HOST, show_default=True, help="Where to listen; not on the loopback needs `auth`.")
@port_option
@db_option
@debug_option
def serve(host: str, port: int, db: str | None) -> None:
    """Serve the API and decide for a share of the runs. Start as many as you like: they divide the runs among themselves.

    Needs PostgreSQL and Redis (settings database_url and redis_url); `perdure migrate` prepares the database, and `perdure worker`
    executes what there is to do. On one machine `perdure dev` is everything in one process.
    """
    from perdure.cli.frame.database import load_settings
    from perdure.cli.frame.host import host as keep
    from perdure.cli.frame.host import run

    settings = load_settings(db)
    need_both(settings, "serve")

    async def begin(engine: Engine, stop: asyncio.Event) -> None:
        await engine.coordinate()
        await serve_api(engine, settings, host, port, stop)

    run(keep(settings, begin))


async def serve_api(
    engine: Engine,
    settings: Settings,
    host: str,
    port: int,
    stop: asyncio.Event,
    ready: Callable[[Starlette, str], None] | None = None,
    *,
    listening: socket.socket | None = None,
    more: Iterable[Routes] = (),
) -> None:
    """Serve the API, with `more` routes, until the event. `ready` is told where it listens, which may be a socket that is open."""
    from perdure.api import create_app
    from perdure.api.app import NOUNS
    from perdure.api.server import serve as listen

    app = create_app(engine, settings, nouns=(*NOUNS, *more))

    def tell(found: int) -> None:
        where = f"http://{f'[{host}]' if ':' in host else host}:{found}"
        say(f"Listening on {where}")
        if ready is not None:
            ready(app, where)

    await listen(app, host, port, tell, stop, listening)


def need_both(settings: Settings, command: str) -> None:
    from perdure.deployment import is_postgres
    from perdure.errors import SettingsInvalid

    missing = [] if is_postgres(settings.database_url) else ["database_url=postgresql://… (PERDURE_DATABASE_URL)"]
    missing += [] if settings.redis_url else ["redis_url=redis://… (PERDURE_REDIS_URL)"]
    keys = (
        "keys that sign what goes through Redis, or every process that can write there decides for every run; set PERDURE_SIGNING_KEYS the same "
        'everywhere, for example to "k1:$(openssl rand -base64 32)", or to "none" where no other process reaches Redis'
    )
    if missing:
        also = "" if settings.signing_keys else f". It also needs {keys}"
        raise SettingsInvalid(
            f"`perdure {command}` is one of several processes that share runs, and needs {' and '.join(missing)}; "
            f"`perdure dev` is everything in one process, and `perdure dev --distributed` starts private servers{also}"
        )
    if not settings.signing_keys:
        raise SettingsInvalid(f"`perdure {command}` does not start without {keys}")
