"""`perdure runs whatif`: what runs would have done with another model, asked of that model, with their tools answered from history."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.database import by_option
from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import json_option, leave
from perdure.cli.frame.parameters import Json, Moment, budget_options
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import compact, count, paint, print_json, print_table
from perdure.cli.terminal.speech import echo, style
from perdure.cli.terminal.stdout import results

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend

SUFFIX = ".whatif"
"""How the workflows of what-ifs are called."""
LOOK_SECONDS = 0.2
AT_ONCE = 4
"""How many what-ifs over history are under way at once."""
_OVER = ("completed", "failed", "cancelled", "rolled_back", "paused")
"""One that is paused waits for a person, or for money."""
_CUT = 300
_HOW = {"history": "from history", "run": "run", "not_recorded": "not recorded", "guard": "not allowed or not possible"}


@click.command(short_help="Find out what runs would have done with another model.")
@click.argument("run_id", metavar="[ID]", required=False)
@click.option("--node", metavar="NODE", help="Only the conversations of this node.")
@click.option("--visit", type=click.IntRange(1), metavar="N", help="Only this visit of a node.")
@click.option("--item", type=click.IntRange(0), metavar="N", help="Only this item of a map, from 0.")
@click.option("--model", metavar="MODEL", help="The model; without, the one that was asked.")
@click.option("--instructions", metavar="TEXT|@FILE", help="What the model is told first, in the place of what it was.")
@click.option("--params", type=Json(), metavar="JSON", help='Parameters, such as {"temperature": 0}.')
@click.option("--turns", type=click.IntRange(1, 1000), metavar="N", help="How many turns an agent may take.")
@click.option(
    "--tools", type=click.Choice(["pure", "recorded"]), help="recorded: not even tools that only compute run."
)
@budget_options
@click.option("--workflow", metavar="NAME", help="Over history: the runs of this workflow that have ended.")
@click.option("--since", type=Moment(), metavar="TIME", help="Over history: those made then or later: 7d, 2026-11-15.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="The newest so many.")
@by_option
@where_options
@json_option
def whatif(
    run_id: str | None,
    workflow: str | None,
    since: float | None,
    limit: int,
    by: str | None,
    where: Where,
    as_json: bool,
    **asked: Any,
) -> None:
    """Go through what a run said with models again, with another model, other instructions or parameters, and say what is otherwise.

    The model is really called, and the budget is for each what-if; without one, that of the run holds. Tools are answered from history
    where tool and arguments are those of a recorded call; nothing with an effect is done, and nobody is asked. Without ID, with --since
    or --workflow, that is done for each run that has ended: a model is judged by your own traffic before it is used.

    \b
    Exit codes: 0 compared, 1 refused, or a what-if failed, 2 usage.
    """
    over_history = workflow is not None or since is not None
    if (run_id is None) is not over_history:
        raise click.UsageError("name a run, or give --since or --workflow for what-ifs over history")
    about = {name: value for name, value in asked.items() if value is not None}
    if str(about.get("instructions", "")).startswith("@"):
        about["instructions"] = _read(about["instructions"][1:])
    if run_id is not None:
        view = asyncio.run(_one(where, run_id, by, about))
        good = view["state"] == "completed"
        if as_json:
            print_json(view)
        else:
            for line in _lines(view):
                echo(line, file=results())
    else:
        view = asyncio.run(_many(where, {"workflow": workflow, "since": since}, limit, by, about))
        good = all(one["state"] == "completed" for one in view["items"])
        if as_json:
            print_json(view)
        else:
            _print_history(view)
    leave(ExitCode.OK if good else ExitCode.FAILED)


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {name}: {error}") from None


# -- asking ------------------------------------------------------------------------------------------------------------


async def _one(where: Where, name: str, by: str | None, about: dict[str, Any]) -> dict[str, Any]:
    from perdure.cli.frame.backend import connected, resolve_run

    async with connected(where, by=by) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        return await _go_through(backend, run_id, about)


async def _many(
    where: Where, which: dict[str, Any], limit: int, by: str | None, about: dict[str, Any]
) -> dict[str, Any]:
    from perdure.cli.frame.backend import connected
    from perdure.errors import PerdureError

    places = asyncio.Semaphore(AT_ONCE)
    refused: list[dict[str, str]] = []

    async def go(backend: Backend, run_id: str) -> dict[str, Any] | None:
        async with places:
            try:
                return await _go_through(backend, run_id, about)
            except PerdureError as error:
                if error.status >= 500:
                    raise
                refused.append({"run_id": run_id, "code": error.code, "message": error.message})
                return None

    async with connected(where, by=by) as backend:
        names: list[str] = []
        listed: Any = backend.runs.list(**which, state=("completed", "failed"), children=True)
        async for one in listed:
            if len(names) == limit:
                break
            if not one["workflow"].endswith(SUFFIX):  # a what-if itself
                names.append(one["run_id"])
        made = await asyncio.gather(*(go(backend, one) for one in names))
    found = [one for one in made if one is not None]
    counted = ("conversations", "done", "diverged", "equal", "guard", "not_recorded")
    totals = {name: sum(one["totals"][name] for one in found) for name in counted}
    return {"items": found, "refused": sorted(refused, key=lambda one: one["run_id"]), "totals": totals}


async def _go_through(backend: Backend, run_id: str, about: dict[str, Any]) -> dict[str, Any]:
    """Start a what-if, wait until it is over, and give what it came to."""
    from perdure.clock import system
    from perdure.service import Service

    start: Any = backend.runs.what_if
    started = await start(run_id, **about)
    if isinstance(backend, Service):
        await backend.tenancy.engine.hold()
    while True:
        view: Any = await backend.runs.get(started["run_id"], values=False)
        if view["state"] in _OVER:
            report: Any = await backend.runs.what_if_report(started["run_id"])
            return dict(report)
        await system.sleep(LOOK_SECONDS)


# -- words -------------------------------------------------------------------------------------------------------------


def _lines(view: dict[str, Any]) -> Iterator[str]:
    yield f"{view['run_id']} looks at {view['origin']}: {paint(view['state'])}"
    if view["error"] is not None:
        yield f"  {style(view['error'].get('message') or view['error'].get('code') or '', fg='red')}"
    if view["state"] == "paused":
        yield f"  it is paused; `perdure runs show {view['run_id']}` says why"
    for one in view["conversations"]:
        then, now = one["recorded"], one["what_if"]
        yield ""
        yield style(_name(one), bold=True) + f"  {then['model']} → {now['model']}"
        yield f"  diverges  {_diverges(one)}"
        yield f"  turns     {_change(then['turns'], now['turns'])}"
        yield f"  used      {_used(then['usage'])} → {_used(now['usage'])}"
        if one["equal"]:
            yield f"  answer    equal: {_said(now)}"
        else:
            yield f"  answer    was {_said(then)}"
            yield f"            now {_said(now)}"
        if one["calls"]:
            told = ", ".join(f"{number} {_HOW.get(how, how)}" for how, number in one["calls"].items())
            yield f"  calls     {told}"
        for missed in one["not_recorded"]:
            yield f"            {missed['call']} {missed['tool']}: not recorded"
        for ruled in one["guard"]:
            why = f": {ruled['why']}" if ruled["why"] else ""
            rule = f" by {ruled['rule']}" if ruled["rule"] else ""
            was = ruled["recorded"] or "no such call"
            yield f"  guard     {ruled['call']} {ruled['tool']}: {was} → {ruled['what_if']}{rule}{why}"
    yield ""
    yield f"used {_used(view['usage'])}"


def _print_history(view: dict[str, Any]) -> None:
    rows = [_row(report, one) for report in view["items"] for one in report["conversations"]]
    rows += [
        [report["origin"], report["state"], "", "", "", "", "", "", report["run_id"]]
        for report in view["items"]
        if not report["conversations"]
    ]
    if rows:
        columns = ["run", "node", "diverges", "turns", "usd", "answer", "guard", "missing", "what-if"]
        print_table(columns, rows, flexible="node")
    totals = view["totals"]
    done = totals["done"]
    echo(
        f"{count(done, 'conversation')}: {totals['equal']} answered the same, {totals['diverged']} diverged; "
        f"{totals['guard']} calls judged otherwise, {totals['not_recorded']} not recorded",
        file=results(),
    )
    if view["refused"]:
        by_code: dict[str, int] = {}
        for one in view["refused"]:
            by_code[one["code"]] = by_code.get(one["code"], 0) + 1
        some = ", ".join(f"{number} {code}" for code, number in sorted(by_code.items()))
        say(f"Not gone through: {some}. {view['refused'][0]['message']}")


def _row(report: dict[str, Any], one: dict[str, Any]) -> list[str]:
    then, now = one["recorded"], one["what_if"]
    return [
        report["origin"],
        _name(one),
        "no" if one["diverges"] is None else f"turn {one['diverges']}",
        _change(then["turns"], now["turns"]),
        _change(_dollars(then["usage"]), _dollars(now["usage"])),
        "equal" if one["equal"] else "other",
        str(one["guard_total"] or ""),
        str(one["calls"].get("not_recorded", "")),
        report["run_id"],
    ]


def _name(one: dict[str, Any]) -> str:
    item = "" if one["item"] is None else f"[{one['item']}]"
    return f"{one['node']}{item}" + (f" visit {one['visit']}" if one["visit"] > 1 else "")


def _diverges(one: dict[str, Any]) -> str:
    return "nowhere" if one["diverges"] is None else f"in turn {one['diverges']}"


def _change(then: Any, now: Any) -> str:
    return str(now) if then == now else f"{then} → {now}"


def _said(side: dict[str, Any]) -> str:
    if side["error"] is not None:
        return str(side["error"])
    answer = side["answer"]
    return answer[:_CUT] if isinstance(answer, str) else compact(answer, _CUT)


def _used(usage: dict[str, Any]) -> str:
    return f"{count(usage['calls'], 'call')}, {usage['input']:,} in, {usage['output']:,} out, ${_dollars(usage)}"


def _dollars(usage: dict[str, Any]) -> str:
    return f"{usage['usd']:.6f}" + ("" if usage["priced"] else " + ?")
