"""`perdure runs transcript` and `perdure runs guards`: what models were told, said and did, and what was decided about their calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.group import json_option, page_options
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import compact, count, duration, on_terminal, print_json, print_page, print_prose
from perdure.cli.terminal.speech import echo, style, width_of
from perdure.cli.terminal.stdout import results

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend

_id = click.argument("run_id", metavar="ID")
_CUT = 500
"""The most characters of one text on a terminal, without `--full`."""
_VERDICTS = {"allow": "allowed", "ask": "a person is asked", "deny": "denied", "invalid": "not possible"}
_TALKING = ("agent", "llm", "classifier", "what_if")


@click.command(short_help="Show what a model was told, said and called.")
@_id
@click.argument("node", metavar="[NODE]", required=False)
@click.option("--visit", type=click.IntRange(1), metavar="N", help="Which visit of the node; without, the newest.")
@click.option("--item", type=click.IntRange(0), metavar="N", help="An item of a map, from 0.")
@click.option("--at", type=click.IntRange(1), metavar="SEQ", help="As it was after this event.")
@click.option("--full", is_flag=True, help="Cut no text.")
@where_options
@json_option
def transcript(run_id: str, node: str | None, full: bool, where: Where, as_json: bool, **which: int | None) -> None:
    """Show what an agent, or another node that asks a model, was told, said and called; what was decided about each call and why,
    and what it cost. NODE may be left out where a run has one such node."""
    from perdure.cli.frame.backend import ask

    async def read(backend: Backend) -> Any:
        return await _read(backend, run_id, node, which)

    view = asyncio.run(ask(where, read))
    if as_json:
        print_json(view)
        return
    if view["type"] not in _TALKING:
        print_prose(f"{view['node']} is of type {view['type']} and asks no model; --item N shows an item of a map.")
        return
    for indent, name, text, colour in _lines(view):
        _put(indent, name, text, colour, _CUT if on_terminal() and not full else 0)


async def _read(backend: Backend, name: str, node: str | None, which: dict[str, Any]) -> Any:
    """The whole transcript, read in as many pages as that takes."""
    from perdure.cli.frame.backend import resolve_run

    run_id = (await resolve_run(backend, name))["run_id"]
    node = node or await _only_node(backend, run_id)
    view: Any = await backend.runs.transcript(run_id, node, **which)
    while view["next_cursor"] is not None:
        more: Any = await backend.runs.transcript(run_id, node, cursor=view["next_cursor"], **which)
        view |= {"turns": view["turns"] + more["turns"], "next_cursor": more["next_cursor"]}
    return view


async def _only_node(backend: Backend, run_id: str) -> str:
    definition = (await backend.runs.definition(run_id))["definition"] or {}
    found = [one["id"] for one in definition.get("nodes", ()) if one.get("type") in _TALKING]
    if len(found) == 1:
        return str(found[0])
    some = f"it has {', '.join(found[:10])}" if found else "it has none that asks a model"
    raise click.UsageError(f"name the node of run {run_id}: {some}")


@click.command(short_help="Show what was decided about the calls of agents, and why.")
@_id
@click.option("--verdict", type=click.Choice(["allow", "ask", "deny", "invalid"]), help="Only these.")
@page_options
@where_options
@json_option
def guards(run_id: str, verdict: str | None, limit: int, cursor: str | None, where: Where, as_json: bool) -> None:
    """Show what was decided about every call of the agents of a run: by which rule, with what the agent had read, and who answered where
    a person was asked."""
    from perdure.cli.frame.backend import ask, read_pages, resolve_run
    from perdure.cli.frame.lists import say_more

    async def read(backend: Backend) -> Any:
        run = (await resolve_run(backend, run_id))["run_id"]
        return await read_pages(
            lambda most, after: backend.runs.guards(run, verdict=verdict, limit=most, cursor=after), limit, cursor
        )

    page = asyncio.run(ask(where, read))
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    for one in page["items"]:
        item = "" if one["item"] is None else f"[{one['item']}]"
        _put("", f"{one['node']}{item} {one['call']}", f"{one['tool']} {compact(one['arguments'], 400)}", None, 0)
        for name, text, colour in _judgement(one):
            _put("  ", name, text, colour, 0)
        if one["verdict"] in ("ask", "deny"):
            _put("  ", "had read", f"{one['label']}: {', '.join(one['untrusted']) or 'nothing untrusted'}", None, 0)
    if not page["items"]:
        print_prose("No call of an agent was judged in this run.")
    say_more(page["next_cursor"], "--cursor")


# -- words -------------------------------------------------------------------------------------------------------------

Line = tuple[str, str, str, str | None]
"""An indentation, what the line is about, its text and its colour."""


def _lines(view: dict[str, Any]) -> Iterator[Line]:
    yield "", f"{view['node']}", f"{view['type']}, {view['state']}", None
    if view["sealed"]:
        yield "", "sealed", "the node has sensitive fields, so nothing of what was said is shown", "yellow"
    if view["model"] is not None:
        yield "", "model", view["model"], None
    if view["instructions"]:
        yield "", "instructions", view["instructions"], None
    for one in view["messages"]:
        pictures = f" (with {count(one['images'], 'image')})" if one["images"] else ""
        yield "", "told" if one["role"] == "user" else "example", one["text"] + pictures, None
    if view["tools"]:
        yield "", "tools", ", ".join(f"{one['name']} ({one['effect']})" for one in view["tools"]), None
    if view["label"] is not None:
        yield "", "label", view["label"], None
    for one in view["turns"]:
        yield from _turn(one)
    if view["asking"] is not None:
        yield "", "now", f"the model is asked ({view['asking']})", "cyan"
    yield "", "used", _used(view["usage"]), None
    if view.get("error") and view["state"] == "failed":
        yield "", "failed", f"{view['error']['code']}: {view['error'].get('message', '')}", "red"


def _turn(turn: dict[str, Any]) -> Iterator[Line]:
    again = "" if "." not in turn["step"] else f" ({turn['step']})"
    yield (
        "",
        f"turn {turn['turn']}{again}",
        f"{turn['model']}, {_used(turn['usage'])}, {duration(turn['ms'] / 1000)}",
        "cyan",
    )
    if turn["summed_up"] is not None:
        yield "  ", "summed up", turn["summed_up"], None
    if turn["drift"]:
        yield "  ", "drift", "the code that makes requests has changed since this was asked", "yellow"
    if turn["said"]:
        yield "  ", "says", turn["said"], None
    if turn["finish"] not in ("stop", "calls"):
        yield "  ", "ended", turn["finish"], "yellow"
    if turn.get("problems"):  # a server of before does not say it
        yield "  ", "does not fit", "; ".join(turn["problems"]), "red"
    for call in turn["calls"]:
        yield "  ", f"{call['id']} calls", f"{call['tool']} {compact(call['arguments'], 100_000)}", "bold"
        yield from (("    ", *line) for line in _judgement(call))
        if "result" in call and call["verdict"] not in ("invalid", "deny"):
            label = "" if call["outcome"] == "refused" else f" ({call['label']})"
            yield "    ", "gave" + label, call["result"], "red" if call["outcome"] == "failed" else None


def _judgement(call: dict[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    """What was decided about a call, what people said and what it waits for."""
    if call["verdict"] is None:
        return
    colour = {"deny": "red", "ask": "yellow", "invalid": "red"}.get(call["verdict"])
    rule = f" by {call['rule']}" if call["rule"] else ""
    why = f": {call['why']}" if call["why"] else ""
    yield "guard", f"{_VERDICTS[call['verdict']]}{rule}{why}{' (trifecta)' if call['trifecta'] else ''}", colour
    doubt = call["happened"]
    if call["decision"] is not None and doubt != {key: call[key] for key in ("decision", "decided_by", "comments")}:
        yield "people", _answer(call["decision"], call), "green" if call["decision"] == "approve" else "red"
    if doubt is not None:
        again = doubt["decision"] == "approve"
        said = "it did not happen, and is made again" if again else "it is not made again"
        yield "nobody knew whether it happened", _answer(said, doubt), "yellow"
    if "changed" in call:
        yield "changed to", compact(call["changed"], 100_000), "yellow"
    if call.get("not_made"):  # a server of before does not say it
        yield "not made", call["not_made"], "red"
    if call["run_id"]:
        yield "run", call["run_id"], None
    if call["outcome"] is None:
        if call["begun"]:
            yield "begun", "its result is not known", "yellow"
        asked = call["approval_id"] or ""
        if asked and (call["happened"] if asked.endswith(".happened") else call["decision"]) is None:
            yield "waits", f"for people: {asked}", "yellow"


def _answer(decision: str, answer: dict[str, Any]) -> str:
    who = f" by {_names(answer['decided_by'])}" if answer["decided_by"] else ""
    return f"{decision}{who}" + (f": {answer['comments']}" if answer["comments"] else "")


def _names(who: Any) -> str:
    return ", ".join(map(str, who)) if isinstance(who, Sequence) and not isinstance(who, str) else str(who)


def _used(usage: dict[str, Any]) -> str:
    cached = f" ({usage['cached']:,} cached)" if usage["cached"] else ""
    calls = f"{count(usage['calls'], 'call')}, " if usage["calls"] != 1 else ""
    dollars = f"${usage['usd']:.6f}" + ("" if usage["priced"] else " + ?")
    return f"{calls}{usage['input']:,} in{cached}, {usage['output']:,} out, {dollars}"


def _put(indent: str, name: str, text: str, colour: str | None, most: int) -> None:
    """Print a text behind its name: on a terminal within its width, below the name where it has several lines."""
    if most and len(text) > most:
        text = f"{text[:most]}… ({len(text):,} characters; --full shows all)"
    width = width_of(results())
    label = style(f"{name}:", fg=colour if colour != "bold" else None, bold=colour == "bold" or None)
    inner = indent + "  "
    lines = [part for line in text.splitlines() or [""] for part in _broken(line, width - len(inner) if width else 0)]
    if len(lines) == 1 and (not width or len(indent) + len(name) + 2 + len(lines[0]) <= width):
        echo(f"{indent}{label} {lines[0]}".rstrip(), file=results())
        return
    echo(f"{indent}{label}", file=results())
    for line in lines:
        echo(f"{inner}{line}", file=results())


def _broken(line: str, width: int) -> list[str]:
    """A line in pieces of at most `width` characters, between words where there are some; 0: whole."""
    pieces = []
    while width > 0 and len(line) > width:
        at = line.rfind(" ", width // 2, width + 1)
        at = width if at < 0 else at
        pieces.append(line[:at])
        line = line[at:].lstrip(" ")
    return [*pieces, line]
