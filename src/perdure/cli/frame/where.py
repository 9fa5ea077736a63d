"""The place a command works on, a local database or a server: the options that name it, and which of them wins."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from perdure.cli.frame.group import db_option
from perdure.cli.terminal.speech import echo, style

F = TypeVar("F", bound=Callable[..., Any])


class Server(msgspec.Struct, frozen=True):
    url: str
    api_key: str


class Where(msgspec.Struct, frozen=True):
    """The place that was named on the command line."""

    db: str | None = None
    server: str | None = None
    api_key: str | None = None

    @property
    def flags(self) -> str:
        """The flags that the next command needs to work on the same place: none where it comes from settings."""
        from shlex import quote

        if self.server:
            return f" --server {quote(self.server)}"
        return f" --db {quote(self.db)}" if self.db is not None else ""

    def find_server(self) -> Server | None:
        """The server, or None for a database. A flag wins over the setting `server_url`; so does --db."""
        from perdure.settings import Settings

        if self.db is not None:
            if self.server:
                raise click.UsageError("--db names a database and --server a server; give only one of them")
            return None
        settings = Settings.load()
        url = settings.server_url if self.server is None else self.server
        if not url:
            return None
        # A key from the settings belongs to the server from the settings, and is shown to no other.
        own = not settings.server_url or settings.server_url.rstrip("/") == url.rstrip("/")
        return Server(url, self.api_key if self.api_key is not None else settings.api_key if own else "")


def where_options(function: F) -> F:
    """Add `--db --server --api-key`, given to the command as `where`."""

    @server_options
    @functools.wraps(function)
    def command(*args: Any, db: str | None, server: str | None, api_key: str | None, **kwargs: Any) -> Any:
        return function(*args, where=Where(db, server, api_key), **kwargs)

    return db_option(command)  # type: ignore[return-value]


def server_options(function: F) -> F:
    server = click.option(
        "--server",
        metavar="URL",
        help="A server to work on instead of a database: http://127.0.0.1:8700. Default: the setting server_url.",
    )
    key = click.option(
        "--api-key",
        metavar="KEY",
        callback=_mark,
        help="What to show that server; others see it in the list of processes. Default: the setting api_key (PERDURE_API_KEY).",
    )
    return server(key(function))


def _mark(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Warn about a key on the command line when the command ends: only then is it known whether the output is JSON."""
    if value and ctx.get_parameter_source("api_key") is click.core.ParameterSource.COMMANDLINE:
        ctx.call_on_close(lambda: None if ctx.params.get("as_json") else _warn())
    return value


def _warn() -> None:
    told = "--api-key is seen by everybody on this machine (ps); set PERDURE_API_KEY instead"
    echo(f"{style('warning:', fg='yellow')} {told}", err=True)


def here_only(why: str) -> Callable[[F], F]:
    """Make a command that no server can do refuse `--server` with the reason."""

    def refuse(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value:
            raise click.UsageError(f"`{ctx.command_path}` cannot be done through a server: {why}", ctx)

    def add(function: F) -> F:
        return click.option("--server", metavar="URL", hidden=True, expose_value=False, callback=refuse)(function)

    return add


def check_here(db: str | None) -> None:
    """Refuse a command for databases alone where `server_url` is set and --db is not: the user may mean the server."""
    from perdure.settings import Settings

    settings = Settings.load()
    if db is None and settings.server_url:
        ctx = click.get_current_context()
        raise click.UsageError(
            f"`{ctx.command_path}` works on a database, and server_url is set ({settings.sources['server_url']}); "
            "name the database with --db",
            ctx,
        )
