"""`perdure serve`, `perdure worker` and `perdure migrate`: the processes of a deployment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from perdure.cli.exits import say
from perdure.cli.group import db_option, debug_option, json_option
from perdure.cli.terminal.speech import echo
from perdure.cli.where import here_only

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from perdure.engine import Engine
    from perdure.settings import Settings

HOST = "127.0.0.1"
PORT = 8700

import_option = click.option(
    "--import", "modules", metavar="MODULE", multiple=True, help="Import a module or file.py of tasks first."
)
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
    from perdure.cli.database import load_settings
    from perdure.cli.host import host as keep
    from perdure.cli.host import run

    settings = load_settings(db)
    _need_both(settings, "serve")

    async def begin(engine: Engine, stop: asyncio.Event) -> None:
        await engine.coordinate()
        await serve_api(engine, settings, host, port, stop)

    run(keep(settings, begin))


@click.command(short_help="Execute tasks of some queues.")
@click.option("--queues", default="default", show_default=True, metavar="A,B", help="Which queues to take tasks from.")
@click.option("--types", default="", metavar="T,U", help="Only nodes of these types; default: all this process has.")
@click.option("--concurrency", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Tasks at once.")
@click.option("--name", default="", metavar="NAME", help="What to call this worker; default: a new name each time.")
@import_option
@db_option
@debug_option
def worker(queues: str, types: str, concurrency: int, name: str, modules: tuple[str, ...], db: str | None) -> None:
    """Execute tasks of some queues: those whose node type, and whose function where it is named alone, this process has.

    On SIGTERM it takes nothing more, gives what runs ten seconds and hands the rest back.
    """
    from perdure.cli.database import load_settings
    from perdure.cli.host import host as keep
    from perdure.cli.host import run
    from perdure.cli.source import import_modules

    settings = load_settings(db)
    _need_both(settings, "worker")
    import_modules(modules, "-")

    async def begin(engine: Engine, stop: asyncio.Event) -> None:
        await engine.work(queues=_names(queues), types=_names(types), worker_id=name, concurrency=concurrency)
        assert engine.worker is not None
        say(f"Worker {engine.worker.worker_id} takes tasks of {', '.join(_names(queues))}.")
        await stop.wait()

    run(keep(settings, begin))


@click.command(short_help="Bring the database to the schema this version needs.")
@click.option(
    "--restored", is_flag=True, help="Files of a backup were put back: refuse what is remembered from before."
)
@here_only("a server does not change its own schema; run it where the database is")
@db_option
@json_option
def migrate(restored: bool, db: str | None, as_json: bool) -> None:
    """Bring a PostgreSQL database to the schema this version needs. Safe to run anywhere, any number of times: one at a time
    does it, and the others find it done. A SQLite file is brought up to date whenever it is opened.

    With --restored it also raises the incarnation of the database, so that messages and processes from before a restore are
    refused. That happens by itself unless files were put back while every process was stopped.
    """
    from perdure.cli.database import load_settings
    from perdure.cli.terminal.output import print_json

    applied, incarnation = asyncio.run(_migrate(load_settings(db), restored=restored))
    if as_json:
        print_json({"applied": applied, "incarnation": incarnation})
        return
    if applied:
        echo(f"Applied {len(applied)} migrations: {', '.join(f'{number:04}' for number in applied)}.")
    else:
        echo("The database is up to date.")
    if restored:
        echo(f"Its incarnation is {incarnation} now: what is remembered from before is refused.")


RESTORED_BY = 1000
"""How far `migrate --restored` raises the incarnation: more than it can have risen since the backup was made."""


async def _migrate(settings: Settings, *, restored: bool) -> tuple[list[int], int]:
    from perdure import clock
    from perdure.deployment import database_file, is_postgres, migrate, open_journal
    from perdure.errors import NotFound

    applied: list[int] = []
    if is_postgres(settings.database_url):
        applied = await migrate(settings.database_url, partitions=settings.partitions)
    elif not (file := database_file(settings.database_url)).exists():
        raise NotFound(f"there is no database {file}; --db or PERDURE_DATABASE_URL names another")
    journal = await open_journal(settings.database_url, clock.system)
    try:
        return applied, await (journal.raise_incarnation(RESTORED_BY) if restored else journal.incarnation())
    finally:
        await journal.close()


async def serve_api(
    engine: Engine,
    settings: Settings,
    host: str,
    port: int,
    stop: asyncio.Event,
    ready: Callable[[Starlette, str], None] | None = None,
) -> None:
    """Serve the API until the event. `ready` is told where it listens."""
    from perdure.api import create_app
    from perdure.api.server import serve as listen

    app = create_app(engine, settings)

    def tell(found: int) -> None:
        where = f"http://{f'[{host}]' if ':' in host else host}:{found}"
        say(f"Listening on {where}")
        if ready is not None:
            ready(app, where)

    await listen(app, host, port, tell, stop)


def _need_both(settings: Settings, command: str) -> None:
    from perdure.deployment import is_postgres
    from perdure.errors import SettingsInvalid

    if not settings.signing_keys:
        raise SettingsInvalid(
            f"`perdure {command}` does not start without keys that sign what goes through Redis, or whoever can write there decides for "
            'every run; set PERDURE_SIGNING_KEYS the same everywhere, for example to "k1:$(openssl rand -base64 32)", or to "none" '
            "where nobody else reaches Redis"
        )
    missing = [] if is_postgres(settings.database_url) else ["database_url=postgresql://… (PERDURE_DATABASE_URL)"]
    missing += [] if settings.redis_url else ["redis_url=redis://… (PERDURE_REDIS_URL)"]
    if missing:
        raise SettingsInvalid(
            f"`perdure {command}` is one of several processes that share runs, and needs {' and '.join(missing)}; "
            "`perdure dev` is everything in one process, and `perdure dev --distributed` starts private servers"
        )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
