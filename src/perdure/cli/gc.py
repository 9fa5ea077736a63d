"""`perdure gc`: delete runs that ended long ago, and blobs that nothing names any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import db_option, json_option
from perdure.cli.frame.where import check_here, here_only
from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo, style

if TYPE_CHECKING:
    from perdure.runtime.collector import Collected


@click.command(short_help="Forget runs that ended long ago, and large values nothing names.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option(
    "--grace-hours",
    type=click.FloatRange(0.0),
    default=24.0,
    show_default=True,
    help="Leave what was written since then. Less than an hour only while nothing runs.",
)
@db_option
@here_only("it works on the blob store itself; run it where that can be reached")
@json_option
def gc(dry_run: bool, grace_hours: float, db: str | None, as_json: bool) -> None:
    """Forget runs that ended longer ago than the setting retention_days, and take away blobs that nothing names any more.

    Coordinators forget such runs by themselves, too. What is unnamed and older than the grace is discarded: it is no longer listed, and can still be read. What was discarded
    by an earlier collection, a grace ago, and is still unnamed is deleted. Runs may go on meanwhile.
    """
    check_here(db)
    forgotten, done = asyncio.run(_collect(db, grace_hours * 3600, dry_run))
    if as_json:
        print_json({"dry_run": dry_run, "forgotten": forgotten, **msgspec.to_builtins(done)})
        return
    would = "would be " if dry_run else ""
    runs, kept = "run" if done.runs == 1 else "runs", "blob stays" if done.kept == 1 else "blobs stay"
    if forgotten:
        echo(f"{forgotten:,} {'run' if forgotten == 1 else 'runs'} {would}forgotten: they ended long ago")
    echo(f"{done.runs:,} {runs} looked at; {done.kept:,} {kept}")
    echo(f"{done.discarded:,} {would}discarded ({_size(done.discarded_bytes)})")
    echo(f"{done.deleted:,} {would}deleted for good ({_size(done.deleted_bytes)})")
    if done.restored:
        echo(f"{done.restored:,} {would}restored: something names them after all")
    if done.unfinished:
        echo(f"{done.unfinished:,} unfinished writes removed")
    for ref in done.missing:
        say(f"{style('warning:', fg='yellow')} {ref} is named and not there")


async def _collect(db: str | None, grace_seconds: float, dry_run: bool) -> tuple[int, Collected]:
    from perdure.cli.frame.database import load_settings, opened
    from perdure.service import Service

    settings = load_settings(db)
    async with opened(db) as engine:
        return await Service.of_owner(engine).upkeep.collect(
            retention_days=settings.retention_days,
            event_days=settings.event_days,
            session_days=settings.session_days,
            llm_cache_days=settings.llm_cache_days,
            grace_seconds=grace_seconds,
            dry_run=dry_run,
        )


def _size(size: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
