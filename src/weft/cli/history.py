"""The journal of a run as people take it away: `weft runs events`, `weft runs export`, and the state as of an event."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from weft.cli.exits import say
from weft.cli.group import db_option, json_option
from weft.cli.output import compact, instant, print_page, print_table

if TYPE_CHECKING:
    from weft.engine import Engine
    from weft.journal import RunRecord
    from weft.kernel.events import Event
    from weft.kernel.state import State

_PAGE = 2000


async def read_all(engine: Engine, run_id: str, last: int | None = None) -> AsyncIterator[Event]:
    """Every event of a run in order, up to the number `last`."""
    from weft.kernel import events as e

    after = 0
    while last is None or after < last:
        stored = await engine.journal.read_events(run_id, after, _PAGE if last is None else min(_PAGE, last - after))
        for one in stored:
            yield e.decode(one.body)
        if not stored:
            return
        after = stored[-1].seq


async def state_at(engine: Engine, record: RunRecord, seq: int) -> State:
    """The run as it was when event `seq` had just happened."""
    from weft.errors import NotFound
    from weft.kernel import events as e
    from weft.kernel.evolve import evolve
    from weft.kernel.state import State

    if seq > record.seq:
        raise NotFound(f"run {record.run_id} has {record.seq} events; there is no event {seq} yet")
    state = State(run_id=record.run_id)
    async for event in read_all(engine, record.run_id, seq):
        if isinstance(event, e.RunCreated | e.RunPatched) and event.ir not in state.library:
            state.library[event.ir] = await engine.library.get(event.ir)
        evolve(state, event)
    return state


# -- events ------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="ID")
@click.option(
    "--after",
    "--cursor",
    "after",
    type=click.IntRange(0),
    default=0,
    metavar="SEQ",
    help="Only those after this number; the same as --cursor.",
)
@click.option("--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="At most so many.")
@db_option
@json_option
def events(run_id: str, after: int, limit: int, db: str | None, as_json: bool) -> None:
    """Show the journal of a run: everything that happened, in order."""
    from weft.kernel import events as e
    from weft.kernel.keys import place

    found, more = asyncio.run(_read_page(db, run_id, after, limit))
    if as_json:
        print_page([e.public(event) for event in found], str(found[-1].seq) if more else None)
        return
    rows = []
    for event in found:
        node = getattr(event, "node", None)
        where = place(node, getattr(event, "scope", ()), getattr(event, "item", None)) if node else ""
        data = e.public(event)["data"]
        rows.append([event.seq, instant(event.at), event.type, where, compact(data, 300) if data else ""])
    if rows:
        print_table(["seq", "at", "type", "node", "data"], rows, flexible="data")
    if more:
        say(f"There are more: --after {found[-1].seq}")


async def _read_page(db: str | None, name: str, after: int, limit: int) -> tuple[list[Any], bool]:
    from weft.cli.database import find_run, opened
    from weft.kernel import events as e

    async with opened(db) as engine:
        record = await find_run(engine, name)
        stored = await engine.journal.read_events(record.run_id, after, limit + 1)
        return [e.decode(one.body) for one in stored[:limit]], len(stored) > limit


# -- export ------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="ID")
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of standard output.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["json", "jsonl"]),
    help="One object, or one object a line. Default: by the name of the output file, else json.",
)
@db_option
@json_option
def export(run_id: str, output: str | None, format_: str | None, db: str | None, as_json: bool) -> None:
    """Write everything about a run into one file: the run, its definitions and its events.

    \b
    json    {format, run, definitions: [{hash, definition}], events: […]}
    jsonl   a line for each of them: {kind: run | definition | event, …}
    """
    by_name = "jsonl" if output is not None and output.endswith((".jsonl", ".ndjson")) else "json"
    chosen = "json" if as_json else format_ or by_name
    with _opened_output(output) as write:
        count = asyncio.run(_export(db, run_id, chosen == "jsonl", write))
    if output is not None:
        say(f"Wrote {output}: {count:,} events.")


@contextmanager
def _opened_output(output: str | None) -> Iterator[Callable[[str], Any]]:
    if output is None:
        yield sys.stdout.write
        sys.stdout.flush()
        return
    with Path(output).open("w", encoding="utf-8", newline="\n") as file:
        yield file.write


async def _export(db: str | None, name: str, lines: bool, write: Callable[[str], Any]) -> int:
    from weft.cli.database import find_run, opened
    from weft.kernel import events as e
    from weft.kernel.view import run_view

    async with opened(db) as engine:
        record = await find_run(engine, name)
        state = await engine.state_of(record)
        run = run_view(state)
        if record.quarantined is not None:
            run["quarantined"] = record.quarantined
        definitions = [await _definition(engine, name) for name in dict.fromkeys(state.ir_hashes)]
        if lines:
            write(_text({"kind": "run", "format": 1, **run}) + "\n")
            for definition in definitions:
                write(_text({"kind": "definition", **definition}) + "\n")
        else:
            write(f'{{"format":1,"run":{_text(run)},"definitions":{_text(definitions)},"events":[')
        count = 0
        async for event in read_all(engine, record.run_id):
            shown = e.public(event)
            if lines:
                write(_text({"kind": "event", **shown}) + "\n")
            else:
                write(("," if count else "") + "\n" + _text(shown))
            count += 1
        if not lines:
            write("]}\n")
        return count


async def _definition(engine: Engine, ir_hash: str) -> dict[str, Any]:
    """What the run was made of: the definition in its canonical form, if it was stored."""
    from weft.errors import NotFound

    try:
        stored = await engine.library.read(f"definition:{ir_hash}")
    except NotFound:
        return {"hash": ir_hash, "definition": None}
    return {"hash": ir_hash, "definition": msgspec.json.decode(stored)}


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
