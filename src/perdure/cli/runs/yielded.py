"""`perdure runs chunks`: what a node yields."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import json_option, leave
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.speech import echo, echo_json
from perdure.plain_text import clean_line

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend


@click.command()
@click.argument("run_id", metavar="ID")
@click.argument("node", metavar="NODE")
@click.option("--port", default="out", show_default=True, metavar="PORT", help="Which port of the node.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the stream ends, with each chunk as it comes.")
@where_options
@json_option
def chunks(run_id: str, node: str, port: str, follow: bool, where: Where, as_json: bool) -> None:
    """Show what a node yields, a chunk a line, from the first on.

    A node that begins anew says so, and begins with its first chunk. With --json, each line is an object.

    Exit codes: 0 the stream ended or goes on, 1 it broke off, 130 or 143 interrupted.
    """
    leave(asyncio.run(_chunks(where, run_id, node, port, follow, as_json)))


async def _chunks(where: Where, name: str, node: str, port: str, follow: bool, as_json: bool) -> ExitCode:
    from perdure.cli.frame.backend import connected, resolve_run
    from perdure.cli.terminal.follow import stopping
    from perdure.runtime.patience import first_of

    async with connected(where) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        with stopping() as stop:
            found = _Found()
            printing = _print(_read(backend, run_id, node, port, follow), as_json, found)
            await first_of(printing, stop.asked.wait())
            if stop.code is not None:
                return stop.code
    return ExitCode.FAILED if found.broken else ExitCode.OK


class _Found:
    broken = False


async def _read(backend: Backend, run_id: str, node: str, port: str, follow: bool) -> AsyncIterator[dict[str, Any]]:
    """The chunks as a client gives them."""
    from perdure.service import Service

    if not isinstance(backend, Service):
        async for one in backend.runs.chunks(run_id, node, port=port, follow=follow):
            yield one
        return
    from perdure.service.runs.node_chunks import Anew, Ended, SomeChunks

    async with aclosing(backend.runs.chunks(run_id, node, port=port, follow=follow).read()) as found:
        async for news in found:
            match news:
                case SomeChunks():
                    for number, body in enumerate(news.bodies, news.first):
                        chunk = msgspec.json.decode(body)
                        yield {"type": "chunk", "edition": news.edition, "number": number, "chunk": chunk}
                case Anew(edition):
                    yield {"type": "restart", "edition": edition}
                case Ended():
                    yield {"type": "end", **msgspec.to_builtins(news)}


async def _print(read: AsyncIterator[dict[str, Any]], as_json: bool, found: _Found) -> None:
    async for one in read:
        found.broken = one["type"] == "end" and one["reason"] != "end"
        if as_json:
            echo_json(msgspec.json.encode(one))
        elif one["type"] == "chunk":
            chunk = one["chunk"]
            echo(clean_line(chunk if isinstance(chunk, str) else msgspec.json.encode(chunk).decode()))
        elif one["type"] == "restart":
            say("It begins anew: what came before counts no more.")
        elif found.broken:
            say(f"It broke off after {one['number']:,} chunks: {one['error'] or one['reason']}")
