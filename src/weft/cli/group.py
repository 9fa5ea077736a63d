"""How commands are found and run: groups that load late, suggest on a typo, and never show a traceback."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import click

from weft.cli.exits import ExitCode, report, show_logs

F = TypeVar("F", bound=Callable[..., Any])
DEBUG = "weft.debug"


class Group(click.Group):
    """`lazy` maps a command's name to the `module:attribute` that has it, `helps` to what the list of commands says."""

    def __init__(
        self, *args: Any, lazy: dict[str, str] | None = None, helps: dict[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy or {}
        self._helps = helps

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = self._lazy.get(cmd_name)
        if where is None:
            return self.commands.get(cmd_name)
        module, _, attribute = where.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._helps is None:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl(list(self._helps.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            close = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            way_out = f"Did you mean '{close[0]}'?" if close else f"There are: {', '.join(self.list_commands(ctx))}."
            raise click.UsageError(f"No such command '{name}'. {way_out}", ctx)
        return super().resolve_command(ctx, args)


class Root(Group):
    """The one place where errors end."""

    def invoke(self, ctx: click.Context) -> Any:
        show_logs(debug=False)
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except (KeyboardInterrupt, click.Abort):
            click.echo("Interrupted.", err=True)
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        except Exception as error:
            if ctx.meta.get(DEBUG):
                raise
            raise click.exceptions.Exit(report(error)) from None


def _debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[DEBUG] = True
        show_logs(debug=True)


def debug_option(function: F) -> F:
    return click.option(
        "--debug", is_flag=True, hidden=True, expose_value=False, callback=_debug, help="Show tracebacks and logs."
    )(function)


def json_option(function: F) -> F:
    return debug_option(
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")(function)
    )


def db_option(function: F) -> F:
    return click.option(
        "--db",
        metavar="URL",
        help="The database: a file, or sqlite:///path. Default: the setting database_url (see weft config show).",
    )(function)


def page_options(function: F) -> F:
    limit = click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Items a page.")
    cursor = click.option("--cursor", metavar="CURSOR", help="Where the page begins: next_cursor of the one before.")
    return limit(cursor(function))


def leave(code: ExitCode) -> None:
    """End the command with this exit code."""
    if code:
        raise click.exceptions.Exit(code)
