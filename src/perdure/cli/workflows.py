"""`perdure workflows`: registered definitions, their versions, and the aliases that point to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.backend import MOST, ask, read_pages
from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import Group, json_option, leave, page_options
from perdure.cli.frame.lists import say_more
from perdure.cli.frame.parameters import ParamType
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import moment, print_fields, print_json, print_page, print_table, since
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend
    from perdure.cli.frame.source import Source

View = dict[str, Any]
Ask = Callable[["Backend"], Awaitable[Any]]

reason_option = click.option("--reason", default="", help="Why; it is written down.")


class Share(ParamType):
    """A share of the starts: `VERSION` or `VERSION=PERCENT`."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, float]:
        if isinstance(value, tuple):
            return value
        version, equals, percent = str(value).partition("=")
        try:
            return int(version), float(percent) if equals else 100.0
        except ValueError:
            self.fail(f"{value!r} is no version; write 3, or 3=90 4=10 to share the starts", param, ctx)


@click.group(cls=Group)
def workflows() -> None:
    """Workflows: what is registered, in which versions, under which names."""


def _ask(where: Where, work: Ask, *, make: bool = False) -> View:
    return asyncio.run(ask(where, work, make=make))


async def get_workflow(backend: Backend, reference: str) -> View:
    """The workflow that `NAME`, `NAME@3` or `NAME@alias` means."""
    name, _, which = reference.partition("@")
    version, alias = (int(which), None) if which.isdecimal() else (None, which or None)
    found: Any = await backend.workflows.get(name, version=version, alias=alias)
    return found  # type: ignore[no-any-return]


# -- looking -----------------------------------------------------------------------------------------------------------


@workflows.command("list")
@page_options
@where_options
@json_option
def list_(limit: int, cursor: str | None, where: Where, as_json: bool) -> None:
    """List workflows by name, each with its highest version."""
    page = _ask(
        where,
        lambda backend: read_pages(lambda most, after: backend.workflows.list(limit=most, cursor=after), limit, cursor),
    )
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    if not page["items"]:
        say("No workflows yet; `perdure workflows push FILE` registers one.")
        return
    rows = [[one["name"], one["version"], since(one["registered_at"]), one["hash"]] for one in page["items"]]
    print_table(["workflow", "version", "registered", "hash"], rows)
    say_more(page["next_cursor"])


@workflows.command()
@click.argument("reference", metavar="NAME")
@where_options
@json_option
def show(reference: str, where: Where, as_json: bool) -> None:
    """Show a workflow: NAME, NAME@3 or NAME@alias. Its definition is in the canonical form that patches are made for."""
    view = _ask(where, lambda backend: get_workflow(backend, reference))
    if as_json:
        print_json(view)
        return
    from perdure.cli.node_types import as_yaml

    print_fields(
        {
            "workflow": view["name"],
            "version": str(view["version"]),
            "registered": moment(view["registered_at"]) + (f" by {view['by']}" if view["by"] else ""),
            "reason": view["reason"],
            "hash": view["hash"],
        }
    )
    echo()
    echo(as_yaml(_in_order(view["definition"])))


_FIRST = ("name", "description", "inputs", "nodes", "edges", "outputs", "limits", "on_failure", "endless", "triggers")
_FIRST_OF_NODES = (
    "id",
    "type",
    "config",
    "config_ref",
    "join",
    "when",
    "branch",
    "loop",
    "rejection_path",
    "on_failure",
)
"""The order of keys in the reference; keys in neither list come after, in their own order."""


def _in_order(definition: dict[str, Any]) -> dict[str, Any]:
    nodes = [_sorted(node, _FIRST_OF_NODES) for node in definition.get("nodes", ())]
    return _sorted({**definition, "nodes": nodes}, _FIRST)


def _sorted(data: dict[str, Any], first: tuple[str, ...]) -> dict[str, Any]:
    return {
        key: data[key] for key in (*(one for one in first if one in data), *(one for one in data if one not in first))
    }


@workflows.command(short_help="List the versions of a workflow, highest first.")
@click.argument("name")
@page_options
@where_options
@json_option
def versions(name: str, limit: int, cursor: str | None, where: Where, as_json: bool) -> None:
    """List the versions of a workflow, highest first: who registered each, when and why."""
    page = _ask(
        where,
        lambda backend: read_pages(
            lambda most, after: backend.workflows.versions(name, limit=most, cursor=after), limit, cursor
        ),
    )
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    rows = [[one["version"], since(one["registered_at"]), one["by"], one["reason"]] for one in page["items"]]
    print_table(["version", "registered", "by", "reason"], rows, flexible="reason")
    say_more(page["next_cursor"])


# -- registering -------------------------------------------------------------------------------------------------------


@workflows.command(short_help="Register a workflow: its next version.")
@click.argument("file")
@reason_option
@where_options
@json_option
def push(file: str, reason: str, where: Where, as_json: bool) -> None:
    """Register the workflow in FILE (YAML, JSON, FILE.py[:workflow] or module:workflow; - reads standard input).

    A changed definition is the next version, the same one the version it has. Runs keep the version they started with. The triggers
    of the workflow are applied; those that it no longer has are paused.
    """
    from perdure.cli.frame.problems import count, show_problems
    from perdure.cli.frame.source import read_source

    source = read_source(file)
    here = where.find_server() is None
    if source.compiled.definition is None or (here and source.compiled.ir is None):
        show_problems(source.name, source.text, source.compiled.problems)
        say(f"{source.name}: {count(source.compiled.problems)}; nothing was registered")
        leave(ExitCode.USAGE)
    if here and not as_json:
        show_problems(source.name, source.text, source.compiled.problems)
    view = _push(where, source, reason)
    if view is None:
        leave(ExitCode.USAGE)
        return
    if as_json:
        print_json(view)
    else:
        from perdure.cli.frame.refusals import show_warnings
        from perdure.cli.triggers import address_of
        from perdure.cli.triggers.own_triggers import say_own

        show_warnings(source, view["problems"], source.compiled.problems if here else ())
        word = "is now" if view["created"] else "was already"
        echo(f"{view['name']} {word} version {view['version']}")
        say_own(view["triggers"], lambda one: address_of(where, one))


def _push(where: Where, source: Source, reason: str) -> View | None:
    """Register a definition and its children. None: it was refused, and the problems were printed."""
    from perdure.cli.frame.refusals import refused_for, show_refused, warn_of_namesake
    from perdure.runtime.origins import describe_origin

    here = where.find_server() is None and source.path is not None  # a path means something on one machine only
    origin = describe_origin(str(source.path)) if here else ""

    async def register(backend: Backend) -> View:
        view: Any
        for child in source.children:
            view = await backend.workflows.register(child.definition, reason=reason or origin)
            await warn_of_namesake(backend, source, view)
        view = await backend.workflows.register(source.compiled.definition, reason=reason or origin)
        await warn_of_namesake(backend, source, view)
        return view  # type: ignore[no-any-return]

    try:
        return asyncio.run(ask(where, register, make=True))
    except click.UsageError as error:
        if not refused_for(error):
            raise
        show_refused(source, error, "registered")
        return None


@workflows.command(short_help="Make the next version by a JSON Patch.")
@click.argument("name")
@click.argument("file")
@click.option("--base", type=click.IntRange(1), metavar="VERSION", help="Refuse if another version came meanwhile.")
@click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")
@reason_option
@where_options
@json_option
def patch(name: str, file: str, base: int | None, dry_run: bool, reason: str, where: Where, as_json: bool) -> None:
    """Make the next version of a workflow by the JSON Patch (a list of operations) in FILE, - for standard input.

    It is applied to the highest version, in the form that `perdure workflows show` prints.
    """
    from perdure.cli.frame.refusals import refused_for, show_refused
    from perdure.cli.frame.source import read_source_or_patch

    source, operations = read_source_or_patch(file)
    if operations is None:
        raise click.UsageError(
            f"{source.name} is not a JSON Patch, which is a list of operations; `perdure workflows push` takes a whole definition"
        )
    about: dict[str, Any] = {"base_version": base, "reason": reason, "dry_run": dry_run}
    try:
        view = _ask(where, lambda backend: backend.workflows.patch(name, operations, **about))
    except click.UsageError as error:
        if not refused_for(error):
            raise
        show_refused(source, error, "patched")
        leave(ExitCode.USAGE)
        return
    if as_json:
        print_json(view)
        return
    changes = view["changes"]
    for word in ("added", "removed", "changed", "edges_added", "edges_removed"):
        if changes[word]:
            echo(f"  {word.replace('_', ' ')}: {', '.join(changes[word])}")
    if dry_run:
        echo(f"{name} can be patched so; nothing was changed")
    else:
        word = "is now" if view["created"] else "was already"
        echo(f"{view['name']} {word} version {view['version']}")
        from perdure.cli.triggers import address_of
        from perdure.cli.triggers.own_triggers import say_own

        say_own(view["triggers"], lambda one: address_of(where, one))


# -- aliases -----------------------------------------------------------------------------------------------------------


@workflows.command(short_help="Let an alias mean a version, or shares of several.")
@click.argument("name")
@click.argument("alias", required=False)
@click.argument("shares", nargs=-1, metavar="[VERSION]...", type=Share())
@click.option("--rollback", is_flag=True, help="Move it back to where it pointed before.")
@click.option("--delete", "forget", is_flag=True, help="Forget it.")
@reason_option
@where_options
@json_option
def alias(
    name: str,
    alias: str | None,
    shares: tuple[tuple[int, float], ...],
    rollback: bool,
    forget: bool,
    reason: str,
    where: Where,
    as_json: bool,
) -> None:
    """Let ALIAS mean a VERSION, or several: `3=90 4=10` gives version 4 a tenth of the starts. Without ALIAS, list them.

    A run started with NAME@ALIAS gets the version it means then. `latest` moves by itself.
    """
    if alias is None:
        page = _ask(where, lambda backend: backend.workflows.aliases(name, limit=MOST).first())
        _print_aliases(page, as_json)
        return
    if bool(shares) + rollback + forget != 1:
        raise click.UsageError("give a VERSION, or --rollback, or --delete")
    if forget:
        view = _ask(where, lambda backend: backend.workflows.delete_alias(name, alias))
    elif rollback:
        view = _ask(where, lambda backend: backend.workflows.rollback_alias(name, alias, reason=reason))
    else:
        view = _ask(where, lambda backend: backend.workflows.put_alias(name, alias, dict(shares), reason=reason))
    if as_json:
        print_json(view)
    else:
        echo(f"{name}@{alias} " + ("is forgotten" if forget else f"means {_meaning(view)}"))


def _print_aliases(page: View, as_json: bool) -> None:
    if as_json:
        print_page(page["items"], page["next_cursor"])
    elif not page["items"]:
        say("No aliases but `latest`, which moves by itself.")
    else:
        rows = [[one["alias"], _meaning(one), since(one["at"]), one["by"], one["reason"]] for one in page["items"]]
        print_table(["alias", "means", "moved", "by", "reason"], rows, flexible="reason")


def _meaning(view: View) -> str:
    if view["version"] is not None:
        return f"version {view['version']}"
    return ", ".join(f"version {one['version']} for {one['percent']:g} %" for one in view["versions"])
