"""`perdure audit`: who did what, and whether the audit is unchanged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.backend import ask, read_pages
from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import Group, json_option, leave, page_options
from perdure.cli.frame.lists import say_more
from perdure.cli.frame.where import Where, where_options
from perdure.cli.keys import tenant_option
from perdure.cli.terminal.output import moment, print_json, print_page, print_table
from perdure.cli.terminal.speech import echo, style

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from perdure.cli.frame.backend import Backend


@click.group(cls=Group)
def audit() -> None:
    """The audit: who did what, and whether the trace is whole."""


@audit.command("list")
@click.option("--by", metavar="NAME", help="Only what this one did.")
@click.option("--action", metavar="ACTION", help="Only this, such as key.created.")
@click.option("--object", "target", metavar="OBJECT", help="Only what was done to this.")
@tenant_option
@page_options
@where_options
@json_option
def list_(
    by: str | None,
    action: str | None,
    target: str | None,
    tenant: str,
    limit: int,
    cursor: str | None,
    where: Where,
    as_json: bool,
) -> None:
    """List the entries of a tenant, newest first."""
    about: dict[str, Any] = {"principal": by, "action": action, "object_": target}

    def read(backend: Backend) -> Awaitable[Any]:
        return read_pages(lambda most, after: backend.audit.list(**about, limit=most, cursor=after), limit, cursor)

    page = asyncio.run(ask(where, read, tenant=tenant))
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    if not page["items"]:
        echo(f"Nothing is recorded in tenant {tenant}, or nothing that was asked for.")
        return
    rows = [[one["seq"], moment(one["at"]), one["principal"], one["action"], one["object"]] for one in page["items"]]
    print_table(["seq", "at", "by", "action", "object"], rows)
    say_more(page["next_cursor"])


@audit.command(short_help="Verify that no entry was changed or taken out.")
@click.option(
    "--known",
    metavar="SEQ:HASH",
    multiple=True,
    help="What an earlier verify printed and you kept elsewhere; may be given several times.",
)
@tenant_option
@where_options
@json_option
def verify(known: tuple[str, ...], tenant: str, where: Where, as_json: bool) -> None:
    """Walk the chain of a tenant and name the first entry that is not as it was written.

    Prints the end of the chain. Kept elsewhere and given as --known later, it also proves that the whole chain was not
    written anew. Exits with 1 if something is wrong.
    """
    hashes = dict(map(_read_known, known))
    if hashes and where.find_server() is not None:
        raise click.UsageError(
            "--known works with a database only; a server prints the head of its audit, which you can compare yourself"
        )

    def read(backend: Backend) -> Awaitable[Any]:
        verify: Callable[..., Awaitable[Any]] = backend.audit.verify
        return verify(hashes) if hashes else verify()

    verdict = asyncio.run(ask(where, read, tenant=tenant))
    entries, head = verdict["entries"], verdict["head"]
    if as_json:
        print_json(verdict)
    elif verdict["intact"]:
        echo(f"{entries:,} {'entry is' if entries == 1 else 'entries are'} as written")
        if head is not None:
            echo(f"{entries}:{head}")
    else:
        say(f"{style('Wrong:', fg='red')} {verdict['problem']}; the {entries:,} before it are as written")
    leave(ExitCode.OK if verdict["intact"] else ExitCode.FAILED)


def _read_known(text: str) -> tuple[int, bytes]:
    number, _, digits = text.partition(":")
    try:
        found = int(number), bytes.fromhex(digits)
    except ValueError:
        found = 0, b""
    if found[0] < 1 or len(found[1]) != 32:
        raise click.UsageError(f"--known {text[:100]!r}: expected a number, a colon and 64 hexadecimal digits")
    return found
