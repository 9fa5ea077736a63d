"""`perdure triggers`: what a trigger would do, without a database. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import ExitCode, say, say_error
from perdure.cli.group import Group, json_option, leave
from perdure.cli.parameters import Moment
from perdure.cli.terminal.output import print_fields, print_json, print_page, print_pretty, print_table
from perdure.cli.terminal.speech import echo, style
from perdure.cli.where import here_only

if TYPE_CHECKING:
    from perdure.model.triggers import Trigger

ELSEWHERE = "the file is here, and what it says is the same everywhere"
MOST = 1000


@click.group(cls=Group)
def triggers() -> None:
    """Triggers: what starts runs by itself."""


@triggers.command("next", short_help="Show the next moments of a schedule.")
@click.argument("file")
@click.option("--trigger", "name", metavar="NAME", help="Which trigger, where FILE holds several.")
@click.option("--count", type=click.IntRange(1, MOST), default=10, show_default=True, help="How many moments.")
@click.option("--since", type=Moment(), metavar="TIME", help="Later than this; now without it.")
@here_only(ELSEWHERE)
@json_option
def next_(file: str, name: str | None, count: int, since: float | None, as_json: bool) -> None:
    """Show the next moments of the schedule in FILE (YAML or JSON; - reads standard input), as if it began now.

    A moment is shown by the clock of its time zone. Where clocks change, a note says what that does to it. With jitter,
    a moment is due somewhat later; how much depends on the trigger and the moment alone, so what is shown is true.
    """
    trigger = _read_trigger(file, name)
    found = _find_moments(trigger, since, count)
    if as_json:
        print_page([{key: value for key, value in one.items() if key != "facts"} for one in found], None)
        return
    _print_moments(trigger, found)
    _say_end(found, count)


@triggers.command(short_help="Show what a trigger makes of an item or a moment.")
@click.argument("file")
@click.option("--trigger", "name", metavar="NAME", help="Which trigger, where FILE holds several.")
@click.option("--item", metavar="FILE", help="An item as JSON; - reads standard input.")
@click.option("--id", "item_id", metavar="ID", default="", help="What the source calls the item.")
@click.option("--at", type=Moment(), metavar="TIME", help="Moments later than this; now without it.")
@click.option("--count", type=click.IntRange(1, MOST), default=1, show_default=True, help="How many moments.")
@here_only(ELSEWHERE)
@json_option
def test(
    file: str, name: str | None, item: str | None, item_id: str, at: float | None, count: int, as_json: bool
) -> None:
    """Check the triggers in FILE, and show what one of them would give a run. Nothing is started, and nothing written.

    For a schedule, its next moments with their inputs. For any other trigger, what its filter, its key, its id and its
    inputs make of the item in --item: {headers, body, query} of a webhook, {name, payload, key, id} of an event, the row
    of a table. Without --item, it is only checked.

    Exit code 1 when the item, or a moment, cannot be mapped: it would be parked.
    """
    from perdure.model.triggers import is_schedule

    trigger = _read_trigger(file, name)
    if is_schedule(trigger):
        if item is not None:
            raise click.UsageError(f"trigger {trigger.name} is a schedule, which has no items; use --at")
        _test_moments(trigger, _find_moments(trigger, at, count), count, as_json)
    elif at is not None:
        raise click.UsageError(f"trigger {trigger.name} is no schedule; give it an item with --item")
    elif item is not None:
        _test_item(trigger, _read_item(item), item_id, as_json)
    elif as_json:
        print_json({"name": trigger.name, "kind": trigger.kind, "valid": True})
    else:
        echo(f"{file} is valid: {trigger.name}, {trigger.kind}; --item FILE shows what it makes of an item")


# -- reading -----------------------------------------------------------------------------------------------------------


def _read_trigger(file: str, name: str | None) -> Trigger:
    from perdure.cli.problems import count, show_problems
    from perdure.cli.source import read_bytes
    from perdure.clock import system
    from perdure.model.problems import DefinitionError
    from perdure.spelling import suggest
    from perdure.triggers.declarations import read_text

    data, shown, kind = read_bytes(file)
    found = read_text(data, system.now(), format=kind)
    context = click.get_current_context()
    if not found.triggers:
        if context.params.get("as_json"):
            raise click.UsageError(str(DefinitionError(found.problems)))
        show_problems(shown, data.decode(errors="replace"), found.problems)
        say(f"{shown}: {count(found.problems)}")
        leave(ExitCode.USAGE)
    show_problems(shown, data.decode(errors="replace"), found.problems)
    names = [trigger.name for trigger in found.triggers]
    if name is None and len(names) > 1:
        raise click.UsageError(
            f"{shown} holds {len(names)} triggers; choose one with --trigger: {', '.join(names[:10])}"
        )
    for trigger in found.triggers:
        if name in (None, trigger.name):
            return trigger
    raise click.UsageError(f"there is no trigger '{name}' in {shown}; {suggest(name or '', names)}")


def _read_item(file: str) -> Any:
    import msgspec

    from perdure.cli.source import read_bytes

    data, shown, _ = read_bytes(file)
    try:
        return msgspec.json.decode(data)
    except msgspec.MsgspecError as error:
        raise click.UsageError(f"--item {shown}: not JSON: {error}") from error


# -- moments -----------------------------------------------------------------------------------------------------------


def _find_moments(trigger: Trigger, since: float | None, count: int) -> list[dict[str, Any]]:
    """The moments as `next` shows them, with the facts that templates read."""
    from perdure.clock import system
    from perdure.model.trigger_sources import Schedule
    from perdure.triggers.calendar import compile_schedule, moments
    from perdure.triggers.mapping import facts_of
    from perdure.triggers.zones import say_time

    schedule = trigger.source
    if not isinstance(schedule, Schedule):
        raise click.UsageError(f"trigger {trigger.name} is no schedule, so it has no moments")
    zone = compile_schedule(schedule).zone
    most = min(count, schedule.max_firings or count)
    found: list[dict[str, Any]] = []
    cursor = system.now() if since is None else since
    while len(found) < most:
        look = moments(schedule, cursor, float("inf"), most - len(found), trigger=trigger.name)
        found += [
            {
                "moment": one.nominal,
                "due": one.due,
                "local": say_time(one.nominal, zone),
                "note": one.note,
                "facts": facts_of(one, zone),
            }
            for one in look.moments
        ]
        if look.done or look.looked <= cursor:
            break
        cursor = look.looked
    return found


def _print_moments(trigger: Trigger, found: list[dict[str, Any]]) -> None:
    delayed = any(one["due"] != one["moment"] for one in found)
    rows = []
    for one in found:
        wait = f"+{one['due'] - one['moment']:.0f} s" if delayed else ""
        day, _, clock = one["local"].partition("T")
        rows.append(
            [f"{day} {clock[:8]} {clock[8:]}".rstrip(), _weekday(one["moment"], one["local"]), wait, one["note"]]
        )
    print_table(["moment", "day", "jitter", "note"], rows, flexible="note")


def _weekday(at: int, text: str) -> str:
    import datetime

    return datetime.datetime.fromisoformat(text).strftime("%a") if at else ""


def _say_end(found: list[dict[str, Any]], count: int) -> None:
    if len(found) < count:
        say("There are no more moments." if found else "There is no moment.")


def _test_moments(trigger: Trigger, found: list[dict[str, Any]], count: int, as_json: bool) -> None:
    from perdure.triggers.mapping import Poison, map_moment

    broken = False
    shown = []
    for one in found:
        facts = one.pop("facts")
        inputs = map_moment(trigger, facts)
        broken |= isinstance(inputs, Poison)
        result = {"error": inputs.message} if isinstance(inputs, Poison) else {"inputs": inputs}
        shown.append({**one, **result})
    if as_json:
        print_page(shown, None)
    else:
        for one in shown:
            echo(style(f"{one['local']}  {one['note']}".rstrip(), bold=True))
            say_error(one["error"]) if "error" in one else print_pretty(one["inputs"])
        _say_end(found, count)
    leave(ExitCode.FAILED if broken else ExitCode.OK)


def _test_item(trigger: Trigger, item: Any, item_id: str, as_json: bool) -> None:
    from perdure.triggers.mapping import Filtered, Mapped, map_item

    found = map_item(trigger, item, {"number": 1, "scheduled": False}, id=item_id)
    if isinstance(found, Mapped):
        result: dict[str, Any] = {"result": "mapped", "id": found.id, "key": found.key, "inputs": found.inputs}
    elif isinstance(found, Filtered):
        result = {"result": "filtered"}
    else:
        result = {"result": "poison", "part": found.part, "error": found.message}
    if as_json:
        print_json({"name": trigger.name, **result})
    elif isinstance(found, Mapped):
        print_fields(
            {"workflow": trigger.workflow, "id": found.id or "(none: a repeat is a second item)", "key": found.key}
        )
        if found.inputs is None:
            echo("The item waits in a window; the run is given all of its items.")
        else:
            print_pretty(found.inputs)
    elif isinstance(found, Filtered):
        echo("The filter does not let it pass: no run is started.")
    else:
        say_error(f"{found.part}: {found.message}")
    leave(ExitCode.FAILED if result["result"] == "poison" else ExitCode.OK)
