"""`weft audit`: who did what, and whether the trace is whole."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from weft.cli.exits import ExitCode, say
from weft.cli.group import Group, db_option, json_option, leave, page_options
from weft.cli.keys import in_tenant, tenant_option
from weft.cli.output import moment, print_json, print_page, print_table

if TYPE_CHECKING:
    from weft.access import AuditVerdict
    from weft.service import Service


@click.group(cls=Group)
def audit() -> None:
    """The audit: who did what, and whether the trace is whole."""


@audit.command("list")
@click.option("--by", metavar="NAME", help="Only what this one did.")
@click.option("--action", metavar="ACTION", help="Only this, such as key.created.")
@click.option("--object", "target", metavar="OBJECT", help="Only what was done to this.")
@tenant_option
@page_options
@db_option
@json_option
def list_(
    by: str | None,
    action: str | None,
    target: str | None,
    tenant: str,
    limit: int,
    cursor: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """List the entries of a tenant, newest first."""
    from weft.archive import AuditFilter

    where = AuditFilter(principal=by, action=action, object=target)
    page = asyncio.run(in_tenant(db, tenant, lambda service, _: service.audit.find(where, limit=limit, cursor=cursor)))
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    if not page["items"]:
        click.echo(f"Nothing is recorded in tenant {tenant}, or nothing that was asked for.")
        return
    rows = [[one["seq"], moment(one["at"]), one["principal"], one["action"], one["object"]] for one in page["items"]]
    print_table(["seq", "at", "by", "action", "object"], rows)
    if page["next_cursor"]:
        say(f"There are more: --cursor {page['next_cursor']}")


@audit.command()
@click.option(
    "--known",
    metavar="SEQ:HASH",
    multiple=True,
    help="What an earlier verify printed and you kept elsewhere; may be given several times.",
)
@tenant_option
@db_option
@json_option
def verify(known: tuple[str, ...], tenant: str, db: str | None, as_json: bool) -> None:
    """Walk the chain of a tenant and name the first entry that is not as it was written.

    Prints the end of the chain. Kept elsewhere and given as --known later, it also proves that the whole chain was not
    written anew. Exits with 1 if something is wrong.
    """
    hashes = dict(map(_read_known, known))
    verdict = asyncio.run(in_tenant(db, tenant, lambda service, _: _verify(service, hashes)))
    head = verdict.head
    if as_json:  # as the API
        print_json(
            {
                "intact": verdict.broken_seq is None,
                "entries": verdict.entries,
                "head": head and head.hash.hex(),
                "broken_seq": verdict.broken_seq,
                "problem": verdict.problem,
            }
        )
    elif verdict.broken_seq is None:
        click.echo(f"{verdict.entries:,} {'entry is' if verdict.entries == 1 else 'entries are'} as written")
        if head is not None:
            click.echo(f"{head.seq}:{head.hash.hex()}")
    else:
        say(f"{click.style('Wrong:', fg='red')} {verdict.problem}; the {verdict.entries:,} before it are as written")
    leave(ExitCode.OK if verdict.broken_seq is None else ExitCode.FAILED)


async def _verify(service: Service, known: dict[int, bytes]) -> AuditVerdict:
    from weft.access import verify_audit

    return await verify_audit(service.scope.archive, service.scope.tenant, known)


def _read_known(text: str) -> tuple[int, bytes]:
    number, _, digits = text.partition(":")
    try:
        found = int(number), bytes.fromhex(digits)
    except ValueError:
        found = 0, b""
    if found[0] < 1 or len(found[1]) != 32:
        raise click.UsageError(f"--known {text[:100]!r}: expected a number, a colon and 64 hexadecimal digits")
    return found
