"""`perdure keys`: API keys, created and revoked in the database, or on a server by an admin. A key is shown once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.backend import DEFAULT_TENANT, ask, read_pages
from perdure.cli.frame.exits import say
from perdure.cli.frame.group import Group, json_option, page_options
from perdure.cli.frame.lists import say_more
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_json, print_page, print_table, since, soon
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from perdure.cli.frame.backend import Backend

DAY_SECONDS = 86_400.0
PREFIX = "perdure_"

tenant_option = click.option(
    "--tenant", metavar="NAME", default=DEFAULT_TENANT, show_default=True, help="Whose key it is."
)


@click.group(cls=Group)
def keys() -> None:
    """API keys: who may use the server, and for what."""


@keys.command(short_help="Make an API key, which is shown this once.")
@click.argument("name")
@click.option(
    "--role",
    "roles",
    metavar="ROLE",
    multiple=True,
    default=["viewer"],
    show_default=True,
    help="viewer, operator, approver, author or admin; may be given several times.",
)
@click.option(
    "--scope",
    "scopes",
    metavar="PERMISSION",
    multiple=True,
    help="Only this permission of its roles, such as runs:start; may be given several times.",
)
@click.option("--expires-days", type=click.FloatRange(0.0, min_open=True), help="It ends by itself after so many days.")
@tenant_option
@where_options
@json_option
def create(
    name: str,
    roles: tuple[str, ...],
    scopes: tuple[str, ...],
    expires_days: float | None,
    tenant: str,
    where: Where,
    as_json: bool,
) -> None:
    """Make a key for NAME, which stands in the journal and the audit as the one who did what the key does.

    The key is printed once and cannot be shown again: only its hash is kept.
    """

    seconds = None if expires_days is None else expires_days * DAY_SECONDS

    def make(backend: Backend) -> Awaitable[Any]:
        return backend.keys.create(name, roles, scopes=scopes, expires_seconds=seconds)

    made = asyncio.run(ask(where, make, tenant=tenant, make=True))
    if as_json:
        print_json(made)
        return
    echo(made["key"])
    say(f"Key {made['key_id']} for {name}: keep it now, it is not shown again.")


@keys.command("list")
@tenant_option
@page_options
@where_options
@json_option
def list_(tenant: str, limit: int, cursor: str | None, where: Where, as_json: bool) -> None:
    """List the keys of a tenant, newest first, revoked ones too. Never a secret."""

    def read(backend: Backend) -> Awaitable[Any]:
        return read_pages(lambda most, after: backend.keys.list(limit=most, cursor=after), limit, cursor)

    page = asyncio.run(ask(where, read, tenant=tenant))
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    if not page["items"]:
        echo(f"Tenant {tenant} has no keys. `perdure keys create NAME --role operator` makes one.")
        return
    columns = ["key_id", "name", "roles", "scopes", "created", "expires", "last used", "state"]
    print_table(columns, [_cells(key) for key in page["items"]], flexible="scopes")
    say_more(page["next_cursor"])


@keys.command(short_help="Take a key back, within a second.")
@click.argument("key_id")
@tenant_option
@where_options
@json_option
def revoke(key_id: str, tenant: str, where: Where, as_json: bool) -> None:
    """Take the key KEY_ID back: within a second no process accepts it any more."""
    key_id = key_id.removeprefix(PREFIX)

    def revoke_key(backend: Backend) -> Awaitable[Any]:
        return backend.keys.revoke(key_id)

    revoked = asyncio.run(ask(where, revoke_key, tenant=tenant))
    if as_json:
        print_json(revoked)
    else:
        echo(f"Key {revoked['key_id']} of {revoked['name']} is revoked.")


def _cells(key: dict[str, Any]) -> list[str]:
    from perdure.clock import system

    expired = key["expires_at"] is not None and key["expires_at"] <= system.now()
    return [
        key["key_id"],
        key["name"],
        ", ".join(key["roles"]),
        ", ".join(key["scopes"]),
        since(key["created_at"]),
        (since if expired else soon)(key["expires_at"]) if key["expires_at"] is not None else "",
        since(key["last_used_at"]) if key["last_used_at"] is not None else "",
        "revoked" if key["revoked_at"] is not None else "expired" if expired else "valid",
    ]
