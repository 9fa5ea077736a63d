"""The database a command works on: which one it is, whether it exists, and which process holds it."""

from __future__ import annotations

import getpass
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from perdure.errors import NotFound
from perdure.opener import load_settings, make_folder, open_engine

if TYPE_CHECKING:
    from perdure.engine import Engine

CLOSE_SECONDS = 1.0

__all__ = [
    "by_option",
    "holder",
    "load_settings",
    "make_folder",
    "open_engine",
    "opened",
    "tell_end",
    "user",
]


@asynccontextmanager
async def opened(db: str | None, *, new: bool = False) -> AsyncIterator[Engine]:
    """An engine on an existing database; with `new`, a missing one is created."""
    settings = load_settings(db)
    if new:
        make_folder(settings)
    from perdure.deployment import database_file, is_postgres

    if (
        not new
        and not is_postgres(settings.database_url)
        and not (file := database_file(settings.database_url)).exists()
    ):
        raise NotFound(
            f"there is no database {file}; `perdure run FILE` makes one here, --db or PERDURE_DATABASE_URL names another"
        )
    engine = await open_engine(settings)
    engine.drives_triggers = (
        False  # a command does what it is asked to; what is due is for `perdure dev` or `perdure serve`
    )
    try:
        yield engine
    finally:
        await engine.close(CLOSE_SECONDS)


def holder(engine: Engine) -> str:
    held = engine.holder
    return f"process {held.pid} on {held.host}" if held is not None and held.pid else "another process"


def tell_end(engine: Engine) -> str:
    """The command that ends the process which holds the database, as Ctrl-C there would."""
    from perdure.runtime.worker.claim_file import this_process

    held = engine.holder
    if held is None or not held.pid:
        return "Ctrl-C in its terminal"
    return f"kill -INT {held.pid}" + (f"    (on {held.host})" if held.host != this_process()[0] else "")


def user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no such user
        return ""


def by_option(function: click.decorators.FC) -> click.decorators.FC:
    return click.option("--by", metavar="NAME", help="Who does this; default: your user name.")(function)
