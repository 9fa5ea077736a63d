"""What triggers, their moments and their items look like in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.exits import ExitCode, say, say_error
from perdure.cli.frame.group import leave
from perdure.cli.terminal.output import (
    ago,
    compact,
    moment,
    paint,
    print_fields,
    print_json,
    print_page,
    print_pretty,
    print_table,
    since,
    soon,
    until,
)
from perdure.cli.terminal.speech import echo, style

if TYPE_CHECKING:
    from perdure.model.triggers import Trigger

View = dict[str, Any]


# -- triggers ----------------------------------------------------------------------------------------------------------


def print_triggers(views: list[View]) -> None:
    rows = [
        [
            one["name"],
            one["kind"],
            one["state"],
            one["workflow"],
            "" if one["next_at"] is None or one["state"] != "active" else soon(one["next_at"]),
            one["open"],
            one["waiting"],
            one["parked"],
        ]
        for one in views
    ]
    print_table(["trigger", "kind", "state", "workflow", "next", "open", "wait", "parked"], rows, flexible="trigger")
    for one in views:
        if said := say_pauses(one) or (one["error"] or {}).get("message", ""):
            say(f"{one['name']}: {said}")


def say_pauses(view: View) -> str:
    """Why a trigger is paused, and what to do; empty: it is not."""
    if view["state"] != "paused":
        return ""
    said = [
        f"{view['error']['message']} (`perdure triggers resume {view['name']}`)"
        if one["by"] == "trigger" and view["error"]
        else f"paused by {one['by'] or 'a user'}{': ' * bool(one['reason'])}{one['reason']}"
        for one in view["pauses"]
    ]
    by_hand = any(one["by"] != "trigger" for one in view["pauses"])
    return "; ".join(said) + f"; `perdure triggers resume {view['name']}` lets it go on" * by_hand


def say_fired(fired: View, trigger: View) -> str:
    """What became of an item that was fired by hand, and what to do; `trigger` is as it was afterwards."""
    name, number, run_id = trigger["name"], fired["number"], fired["run_id"]
    is_paused = trigger["state"] == "paused"
    match fired["state"]:
        case "started" if fired["begun"]:
            return f"{run_id} is started"
        case "started":
            return f"{run_id} waits for `perdure dev` or `perdure serve`"
        case "waiting" if is_paused:
            return f"nothing is started: {name} is paused. Item {number} waits; `perdure triggers resume {name}` starts it as {run_id}"
        case "waiting":
            return f"item {number} waits for its run, {run_id}"
        case "skipped" if is_paused:
            todo = f"fire again after `perdure triggers resume {name}`, or with --overlap allow, which lets that one wait too"
            return f"nothing is started: {name} is paused, and item {number} is skipped: another waits, or a run is open. It never starts; {todo}"
        case "skipped":
            return f"item {number} is skipped: a run is open; --overlap allow starts one all the same"
        case "parked":
            return f"item {number} could not be started; `perdure triggers items {name} --state parked` says why"
        case state:
            return f"{run_id}: {state}"


def print_trigger(view: View, address: str) -> None:
    error = view["error"]
    said = error.get("message", "") if isinstance(error, dict) else error or ""
    counts = [(view["open"], "open"), (view["waiting"], "waiting"), (view["parked"], "parked")]
    print_fields(
        {
            "trigger": view["name"],
            "kind": view["kind"],
            "state": paint(view["state"]),
            "paused" if view["state"] == "paused" else "error": say_pauses(view) or said,
            "workflow": view["workflow"],
            "revision": str(view["revision"]),
            "address": address,
            "next": "" if view["next_at"] is None else f"{moment(view['next_at'])}, {until(view['next_at'])}",
            "last": "" if view["last_at"] is None else f"{moment(view['last_at'])}, {ago(view['last_at'])}",
            "items": ", ".join(f"{number} {word}" for number, word in counts if number),
            "skipped": ", ".join(f"{number} {word}" for word, number in view.get("skipped", {}).items()),
            "failures": f"{view['failures']} in a row" if view.get("failures") else "",
            "last success": "" if view.get("last_success") is None else moment(view["last_success"]),
            "cursor": "" if view["cursor"] is None or view["kind"] == "schedule" else _say_cursor(view["cursor"]),
            "run": view["trigger_id"],
        }
    )


def _say_cursor(cursor: Any) -> str:
    """A cursor as `rewind` takes it."""
    return cursor if isinstance(cursor, str) else compact(cursor, 1000)


def tidy(spec: View) -> View:
    """The definition of a trigger as a person would write it: what says nothing is left out."""
    source = _without_defaults(spec["source"])
    kind = source.pop("kind")
    left_out = [*source.pop("except_days", ()), *({"cron": line} for line in source.pop("except_cron", ()))]
    source |= {"except": left_out} if left_out else {}
    if kind == "webhook" and source["verify"]["scheme"] != "hmac":  # others know how they sign
        source["verify"] = {key: one for key, one in source["verify"].items() if key in ("scheme", "secret")}
    if isinstance(source.get("cron"), list) and len(source["cron"]) == 1:
        source["cron"] = source["cron"][0]
    rest = _without_defaults({key: value for key, value in spec.items() if key != "source"})
    if kind != "schedule":
        rest.pop("catchup", None)
    about = {key: rest.pop(key) for key in ("name", "description", "workflow") if key in rest}
    return {**about, kind: source, **rest}


def _without_defaults(data: View) -> View:
    found = {key: _without_defaults(one) if isinstance(one, dict) else one for key, one in data.items()}
    return {key: one for key, one in found.items() if one not in (None, "", 0, [], {})}


def print_items(views: list[View]) -> None:
    rows = []
    for one in views:
        error = one["error"]
        said = f"{error['code']}: {error['message']}" if isinstance(error, dict) else ""
        name = moment(one["moment"]) if one["moment"] is not None else one["id"] or ""
        at = "" if one["at"] is None else since(one["at"])
        rows.append([one["number"], one["state"], at, name, one["key"], said or one["run_id"]])
    print_table(["item", "state", "came", "id or moment", "key", "run, or why not"], rows, flexible="run, or why not")


# -- moments -----------------------------------------------------------------------------------------------------------


def find_moments(trigger: Trigger, since: float | None, count: int) -> list[View]:
    """The moments of a schedule in a file as `next` shows them, with the facts that templates read."""
    from perdure.clock import system
    from perdure.model.trigger_sources import Schedule
    from perdure.triggers.calendar import JUST_BEFORE, compile_schedule, moments
    from perdure.triggers.mapping import facts_of
    from perdure.triggers.zones import say_time

    schedule = trigger.source
    if not isinstance(schedule, Schedule):
        raise click.UsageError(f"trigger {trigger.name} is no schedule, so it has no moments")
    zone = compile_schedule(schedule).zone
    most = min(count, schedule.max_firings or count)
    found: list[View] = []
    cursor = system.now() if since is None else since - JUST_BEFORE
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


def print_moments(found: list[View]) -> None:
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


def say_end(found: list[View], count: int) -> None:
    if len(found) < count:
        say("There are no more moments." if found else "There is no moment.")


# -- trials ------------------------------------------------------------------------------------------------------------


def try_moments(trigger: Trigger, found: list[View]) -> list[View]:
    """The moments of a schedule in a file, each with the inputs of its run."""
    from perdure.triggers.mapping import Poison, map_moment

    shown = []
    for one in found:
        inputs = map_moment(trigger, one.pop("facts"))
        made = {"error": inputs.message} if isinstance(inputs, Poison) else {"inputs": inputs}
        shown.append({**one, **made})
    return shown


def show_tried_moments(shown: list[View], count: int, as_json: bool) -> None:
    if as_json:
        print_page(shown, None)
    else:
        for one in shown:
            echo(style(f"{one['local']}  {one['note']}".rstrip(), bold=True))
            say_error(one["error"]) if "error" in one else print_pretty(one["inputs"])
        say_end(shown, count)
    leave(ExitCode.FAILED if any("error" in one for one in shown) else ExitCode.OK)


def show_tried_item(name: str, workflow: str, tried: View, as_json: bool) -> None:
    """What a trigger makes of an item; the exit code is 1 when it would be parked."""
    result = tried["result"]
    if as_json:
        print_json({"name": name, **tried})
    elif result == "mapped":
        print_fields(
            {"workflow": workflow, "id": tried["id"] or "(none: a repeat is a second item)", "key": tried["key"]}
        )
        if tried["inputs"] is None:
            echo("The item waits in a window; the run is given all of its items.")
        else:
            print_pretty(tried["inputs"])
    elif result == "filtered":
        echo("The filter does not let it pass: no run is started.")
    else:
        say_error(f"{tried['part']}: {tried['error']}")
    leave(ExitCode.FAILED if result == "poison" else ExitCode.OK)


def show_tried_items(name: str, tried: list[View], as_json: bool) -> None:
    """What a trigger makes of items that its source gave; the exit code is 1 when one of them would be parked."""
    if as_json:
        print_page([{"name": name, **one} for one in tried], None)
    elif not tried:
        echo("Nothing comes from the source now.")
    else:
        for one in tried:
            said = one["id"] if one["result"] == "mapped" else f"{one.get('id', '')}  {one['result']}".strip()
            echo(style(said, bold=True))
            if one["result"] == "mapped":
                print_pretty(one["inputs"])
            elif one["result"] == "poison":
                say_error(f"{one['part']}: {one['error']}")
    leave(ExitCode.FAILED if any(one["result"] == "poison" for one in tried) else ExitCode.OK)
