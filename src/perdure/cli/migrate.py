"""`perdure migrate`: the schema of a database, brought to what this version needs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from perdure.cli.frame.group import db_option, json_option
from perdure.cli.frame.where import here_only
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.settings import Settings


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
    from perdure.cli.frame.database import load_settings
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
    from perdure.deployment import database_file, is_postgres, migrate, raise_incarnation
    from perdure.errors import NotFound

    applied: list[int] = []
    if is_postgres(settings.database_url):
        applied = await migrate(settings.database_url, partitions=settings.partitions)
    elif not (file := database_file(settings.database_url)).exists():
        raise NotFound(f"there is no database {file}; --db or PERDURE_DATABASE_URL names another")
    by = RESTORED_BY if restored else 0
    return applied, await raise_incarnation(settings.database_url, clock.system, by)
