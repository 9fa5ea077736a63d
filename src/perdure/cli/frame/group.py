"""How commands are found and run: groups that load late, suggest on a typo, and never show a traceback."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.frame.exits import ExitCode, leaves, report, say_problem, show_logs
from perdure.cli.terminal.speech import clean_error, echo, width_of
from perdure.cli.terminal.stdout import results
from perdure.spelling import suggest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
DEBUG = "perdure.debug"
JSON = "perdure.json"


class Group(click.Group):
    """A group of commands that are loaded late. `lazy` maps a command's name to its `module:attribute`, `helps` to its
    line in the list of commands, `sections` a heading to the commands below it, `aliases` another name of a command to
    its own."""

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, str] | None = None,
        helps: Mapping[str, str] | None = None,
        sections: Mapping[str, Sequence[str]] | None = None,
        aliases: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy or {}
        self._helps = helps
        self._sections = sections or {}
        self.aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *(name for name in self._lazy if name not in self.commands)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = self.aliases.get(cmd_name, cmd_name)
        where = self._lazy.get(cmd_name)
        if where is None:
            command = self.commands.get(cmd_name)
        else:
            module, _, attribute = where.partition(":")
            command = getattr(importlib.import_module(module), attribute)
        if command is not None and ctx.resilient_parsing:  # completion for TAB
            from perdure.cli.frame.candidates import teach

            teach(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._helps is None:
            self._list_whole(ctx, formatter)
            return
        listed = {name for names in self._sections.values() for name in names}
        rest = [name for name in self._helps if name not in listed]
        width = max(map(len, self._helps))
        for heading, names in [*self._sections.items(), ("More" if listed else "Commands", rest)]:
            if names:
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(width), self._helps[name]) for name in names])

    def _list_whole(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List every name that works, including other names of a command."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        names = [*found, *self.aliases]
        limit = formatter.width - 6 - max(map(len, names))
        rows = [(name, one.get_short_help_str(limit)) for name, one in found.items() if one is not None]
        rows += [(name, f"The same as {own}.") for name, own in self.aliases.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing them all, where `helps` describes them."""
        if self._helps is None or incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [CompletionItem(name, help=said) for name, said in self._helps.items() if name.startswith(incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            hint = self._suggest_noun(ctx, name) or suggest(
                name, [*known, *self.aliases], f"there are {', '.join(known)}"
            )
            raise click.UsageError(f"No such command '{name}'; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def _suggest_noun(self, ctx: click.Context, name: str) -> str:
        """Where a command of this name is, if only the noun before it was left out."""
        groups = [(one, self.get_command(ctx, one)) for one in self.list_commands(ctx)]
        below = [
            f"'{one} {name}'" for one, group in groups if isinstance(group, Group) and group.get_command(ctx, name)
        ]
        if len(below) > 2:
            return f"say of what, as in {below[0]} and {below[1]}"
        return f"did you mean {' or '.join(below)}?" if below else ""


class Root(Group):
    """The root command, the one place where errors end."""

    def invoke(self, ctx: click.Context) -> Any:
        from perdure.settings import wants_plain

        show_logs(debug=bool(ctx.meta.get(DEBUG)))
        if wants_plain():
            ctx.color = False
        try:
            found = super().invoke(ctx)
            sys.stdout.flush()
            return found
        except click.exceptions.Exit:
            raise
        except click.ClickException as raised:
            error = _hint_at_inputs(raised) if isinstance(raised, click.NoSuchOption) else raised
            clean_error(error, 0 if ctx.meta.get(JSON) else width_of(sys.stderr))
            if not ctx.meta.get(JSON):
                raise error from None
            code = getattr(error, "code", "usage" if isinstance(error, click.UsageError) else "error")
            say_problem(code, error.format_message())
            raise click.exceptions.Exit(error.exit_code) from None
        except (KeyboardInterrupt, click.Abort):
            echo("Interrupted.", err=True)
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        except Exception as error:
            if any(isinstance(one, BrokenPipeError) for one in leaves(error)):
                _close_output()
                raise click.exceptions.Exit(ExitCode.PIPE) from None
            if ctx.meta.get(DEBUG):
                raise
            raise click.exceptions.Exit(report(error, as_json=bool(ctx.meta.get(JSON)))) from None


def _hint_at_inputs(error: click.NoSuchOption) -> click.UsageError:
    """Say how an input is given to a command that takes some: its name as an option is tried first."""
    takes = error.ctx is not None and any("-i" in one.opts for one in error.ctx.command.params)
    name = error.option_name.lstrip("-")
    if not takes or not name or error.possibilities:
        return error
    return click.UsageError(f"{error.message.rstrip('.')}; an input is given by -i: -i {name}=VALUE", error.ctx)


def _close_output() -> None:
    """Discard what is still to be written, even at the very end: the reader is gone (`| head -1`)."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (results(), sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


# -- options many commands have ----------------------------------------------------------------------------------------


def _debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[DEBUG] = True
        show_logs(debug=True)


def _no_color(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().color = ctx.color = False


def debug_option(function: F) -> F:
    debug = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_debug, help="Show tracebacks and logs of Perdure."
    )
    return debug(function)


def color_option(function: F, *, hidden: bool = False) -> F:
    return click.option(
        "--no-color",
        is_flag=True,
        hidden=hidden,
        expose_value=False,
        callback=_no_color,
        help="No colours; so does the variable NO_COLOR.",
    )(function)


def _json(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
    ctx.meta[JSON] = value  # also for errors about parameters that are read after it
    return value


def json_option(function: F) -> F:
    about = "Print one JSON object on standard output; errors, too, on standard error."
    json = click.option("--json", "as_json", is_flag=True, is_eager=True, callback=_json, help=about)
    return debug_option(color_option(json(function), hidden=True))


def db_option(function: F) -> F:
    return click.option(
        "--db",
        metavar="URL",
        help="The database: a file, sqlite:///path or postgresql://host/name. Default: the setting database_url.",
    )(function)


def page_options(function: F) -> F:
    limit = click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Items a page.")
    cursor = click.option("--cursor", metavar="CURSOR", help="Where the page begins: next_cursor of the one before.")
    return limit(cursor(function))


def position_options(metavar: str, about: str) -> Callable[[F], F]:
    """The part of something long that is wanted, by the place of its items: `--after` (or `--cursor`) and `--limit`."""

    def add(function: F) -> F:
        place = click.IntRange(0)
        after = click.option("--after", "--cursor", "after", type=place, default=0, metavar=metavar, help=about)
        most = click.IntRange(1, 100_000)
        limit = click.option("--limit", type=most, default=1000, show_default=True, help="At most so many.")
        return after(limit(function))

    return add


def leave(code: ExitCode) -> None:
    """End the command with this exit code."""
    if code:
        raise click.exceptions.Exit(code)
