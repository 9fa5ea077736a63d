"""`perdure worker`: a process that executes tasks of some queues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from perdure.capacity import CONCURRENCY
from perdure.cli.frame.exits import say
from perdure.cli.frame.group import db_option, debug_option
from perdure.cli.serve import need_both

if TYPE_CHECKING:
    from perdure.engine import Engine

import_option = click.option(
    "--import", "modules", metavar="MODULE", multiple=True, help="Import a module or file.py of tasks first."
)


@click.command(short_help="Execute tasks of some queues.")
@click.option(
    "--queues", default="default,triggers", show_default=True, metavar="A,B", help="Which queues to take tasks from."
)
@click.option("--types", default="", metavar="T,U", help="Only nodes of these types; default: all this process has.")
@click.option(
    "--concurrency", type=click.IntRange(1, 10_000), default=CONCURRENCY, show_default=True, help="Tasks at once."
)
@click.option("--name", default="", metavar="NAME", help="What to call this worker; default: a new name each time.")
@click.option(
    "--device", default="", metavar="N", help="The one GPU that this process sees (CUDA_VISIBLE_DEVICES, ctx.device)."
)
@import_option
@db_option
@debug_option
def worker(
    queues: str, types: str, concurrency: int, name: str, device: str, modules: tuple[str, ...], db: str | None
) -> None:
    """Execute tasks of some queues: those whose node type, and whose function where it is named alone, this process has.

    One worker per GPU: `perdure worker --queues gpu --device 0 --concurrency 1`.

    On SIGTERM it takes nothing more, gives what runs ten seconds and hands the rest back.
    """
    from perdure.cli.frame.database import load_settings
    from perdure.cli.frame.host import host as keep
    from perdure.cli.frame.host import run
    from perdure.cli.frame.source import import_modules
    from perdure.settings import show_device

    settings = load_settings(db)
    need_both(settings, "worker")
    if device:
        show_device(device)  # before a module of tasks is imported that looks for devices
    import_modules(modules, "-")

    async def begin(engine: Engine, stop: asyncio.Event) -> None:
        await engine.work(
            queues=_names(queues), types=_names(types), worker_id=name, concurrency=concurrency, device=device
        )
        worker = engine.worker or engine.poller
        assert worker is not None
        say(f"Worker {worker.worker_id} takes tasks of {', '.join(_names(queues))}.")
        await stop.wait()

    run(keep(settings, begin))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
