"""`perdure keys`: who may use the server, made and taken back in the database, or on a server by an admin. A key is shown once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from perdure.cli.exits import say
from perdure.cli.group import Group, json_option, page_options
from perdure.cli.output import moment, print_json, print_page, print_table
from perdure.cli.saying import echo
from perdure.cli.where import Server, Where, where_options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from perdure.access import Audit
    from perdure.client import AsyncClient
    from perdure.service import Service

Result = TypeVar("Result")
DAY_SECONDS = 86_400.0
PREFIX = "perdure_"

DEFAULT_TENANT = "default"
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

    async def make(service: Service, audit: Audit) -> dict[str, Any]:
        made = await service.keys.create(name, roles, scopes=scopes, expires_seconds=seconds)
        shown = {field: value for field, value in made.items() if field != "key"}
        await audit.record(service.scope.principal, "key.created", f"key {made['key_id']}", after=shown)
        return made

    def ask(client: AsyncClient) -> Awaitable[Any]:
        return client.keys.create(name, roles, scopes=scopes, expires_seconds=seconds)

    made = execute(where, tenant, make, ask, new=True)
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
    page = execute(
        where,
        tenant,
        lambda service, _: service.keys.find(limit=limit, cursor=cursor),
        lambda client: client.keys.list(limit=limit, cursor=cursor).first(),
    )
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    if not page["items"]:
        echo(f"Tenant {tenant} has no keys. `perdure keys create NAME --role operator` makes one.")
        return
    columns = ["key_id", "name", "roles", "scopes", "created", "expires", "last used", "state"]
    print_table(columns, [_cells(key) for key in page["items"]])
    if page["next_cursor"]:
        say(f"There are more: --cursor {page['next_cursor']}")


@keys.command(short_help="Take a key back, within a second.")
@click.argument("key_id")
@tenant_option
@where_options
@json_option
def revoke(key_id: str, tenant: str, where: Where, as_json: bool) -> None:
    """Take the key KEY_ID back: within a second no process accepts it any more."""
    key_id = key_id.removeprefix(PREFIX)

    async def take_back(service: Service, audit: Audit) -> dict[str, Any]:
        revoked = await service.keys.revoke(key_id)
        await audit.record(service.scope.principal, "key.revoked", f"key {revoked['key_id']}", after=revoked)
        return revoked

    revoked = execute(where, tenant, take_back, lambda client: client.keys.revoke(key_id))
    if as_json:
        print_json(revoked)
    else:
        echo(f"Key {revoked['key_id']} of {revoked['name']} is revoked.")


def execute(
    where: Where,
    tenant: str,
    here: Callable[[Service, Audit], Awaitable[Any]],
    there: Callable[[AsyncClient], Awaitable[Any]],
    *,
    new: bool = False,
) -> dict[str, Any]:
    """In a database here, or on a server, where the tenant is that of the key one shows."""
    server = where.find_server()
    if server is None:
        found: dict[str, Any] = asyncio.run(_in_tenant(where.db, tenant, here, new=new))
        return found
    if tenant != DEFAULT_TENANT:
        raise click.UsageError("on a server the tenant is that of the key you show; leave --tenant out")
    return asyncio.run(_on_server(server, there))


async def _on_server(server: Server, work: Callable[[AsyncClient], Awaitable[Any]]) -> dict[str, Any]:
    from perdure.cli.remote import reached

    async with reached(server) as client:
        found: dict[str, Any] = msgspec.to_builtins(await work(client))
        return found


async def _in_tenant(
    db: str | None, tenant: str, work: Callable[[Service, Audit], Awaitable[Result]], *, new: bool = False
) -> Result:
    """Whoever is at the machine works on a tenant of the database; `new`: which is made if there is none."""
    from perdure.access import Audit, Role, make_principal
    from perdure.cli.database import opened, user
    from perdure.service import Service
    from perdure.service.scope import archive_of

    principal = make_principal(tenant=tenant, name=user() or "local", kind="local", roles=(Role.ADMIN,))
    async with opened(db, new=new) as engine:
        return await work(Service(engine, principal), Audit(archive_of(engine), engine.clock))


def _cells(key: dict[str, Any]) -> list[str]:
    from perdure.clock import system

    expired = key["expires_at"] is not None and key["expires_at"] <= system.now()
    return [
        key["key_id"],
        key["name"],
        ", ".join(key["roles"]),
        ", ".join(key["scopes"]),
        moment(key["created_at"]),
        moment(key["expires_at"]),
        moment(key["last_used_at"]),
        "revoked" if key["revoked_at"] is not None else "expired" if expired else "valid",
    ]
