"""A run as people see it: as a line in a list, and as a whole."""

from __future__ import annotations

from typing import Any

from perdure.cli.frame.exits import say
from perdure.cli.terminal.output import (
    compact,
    count,
    duration,
    hour,
    moment,
    paint,
    print_fields,
    print_pretty,
    print_table,
    shorten,
    since,
)
from perdure.cli.terminal.speech import echo, style
from perdure.clock import system
from perdure.runtime.failures import show_details, show_place


def _changed(view: dict[str, Any]) -> str:
    """A mark that the run no longer has the definition of its version."""
    times = view.get("patches", 0)
    return "" if not times else ", changed since" if times == 1 else f", changed {times} times since"


def print_run(view: dict[str, Any], asked: str = "") -> None:
    """Print a whole run. `asked` says by whom, and why, it was brought into its state."""
    passed = duration((view["ended_at"] or system.now()) - view["created_at"])
    took = f", {'took' if view['ended_at'] else 'for'} {passed}"
    print_fields(
        {
            "run": view["run_id"],
            "workflow": f"{view['workflow']} version {view['version']}{_changed(view)}",
            "state": paint("waiting" if view.get("waiting") else view["state"])
            + (asked or (f", generation {view['generation']}" if view["generation"] > 1 else "")),
            "generation": str(view["generation"]) if asked and view["generation"] > 1 else "",
            "quarantined": view.get("quarantined", ""),
            "created": moment(view["created_at"]) + (took if "at" not in view else ""),
            "as of event": str(view.get("at", "")),
            "error": _error_of(view),
            "inputs": compact(view["inputs"], 300) if view["inputs"] else "",
            "tags": ", ".join(f"{name}={value}" for name, value in view["tags"].items()),
        }
    )
    print_details(view)
    echo()
    rows = [[name, *_node_cells(node)] for name, node in view["nodes"].items()]
    print_table(["node", "state", "attempt", "took", "details"], rows, flexible="details")
    if "next_nodes" in view:
        say(f"There are more nodes than these {len(rows):,}.")
    if any("parked" in node for node in view["nodes"].values()):
        _say_letters(view["run_id"])
    if view["outputs"] is not None:
        echo()
        print_pretty(view["outputs"])


def _say_letters(run_id: str) -> None:
    say(
        f"`perdure dlq list --run-id {run_id}` lists what is parked; `perdure dlq requeue ID` lets it be taken after all."
    )


def print_node(view: dict[str, Any]) -> None:
    """Print one node of a run: its present state, and every visit."""
    print_fields(
        {
            "node": f"{view['node']} ({view['type']})",
            "run": view["run_id"],
            "state": paint(view["state"]),
            "error": _error_of(view),
            "parked": _parked_items(view),
        }
    )
    if "parked" in view:
        _say_letters(view["run_id"])
    print_details(view)
    if view["visits"]:
        echo()
        rows = [[str(visit["visit"]), *_node_cells(visit)] for visit in view["visits"]]
        print_table(["visit", "state", "attempt", "took", "details"], rows, flexible="details")
    if any(one["attempt"] > 1 or one["state"] != "completed" for one in view["attempts"]):
        echo()
        print_table(*_attempts_table(view["attempts"]), flexible="error")
    if view.get("output") is not None:
        echo()
        print_pretty(view["output"])


def _attempts_table(attempts: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """A table of how each attempt went. One attempt that completed at once needs no table."""
    visits = len({one["visit"] for one in attempts}) > 1
    rows = []
    for one in attempts:
        begun, ended = one.get("started_at"), one.get("ended_at")
        cells = [
            one["attempt"],
            one["state"],
            one.get("worker", ""),
            since(begun) if begun else "",
            took(begun, ended),
            _error_of(one),
        ]
        rows.append([*([one["visit"]] if visits else []), *cells])
    return [*(["visit"] if visits else []), "attempt", "state", "worker", "started", "took", "error"], rows


def took(begun: float | None, ended: float | None) -> str:
    return duration(ended - begun) if begun and ended else ""


def _node_cells(node: dict[str, Any]) -> list[str]:
    begun, ended = node.get("started_at"), node.get("ended_at")
    passed = took(begun, ended)
    details = _error_of(node)
    waiting = node.get("waiting_for")
    if waiting is not None and node["state"] == "waiting":
        until = f" until {moment(waiting['until'])}" if waiting.get("until") else ""
        details = f"{waiting['kind']} {waiting.get('name', '')}{until}"
    if "items" in node:
        details = _items_of(node["items"])
    if not details and "size" in node:
        begins = node["output"].get("preview", "") if isinstance(node["output"], dict) else ""
        details = shorten(f"{node['size']:,} bytes: {begins}" if begins else f"{node['size']:,} bytes", 120)
    elif not details and node["state"] == "completed":
        details = compact(node.get("output"), 120)
    if node["state"] == "running" and "worker" in node:
        since = f" since {hour(node['started_at'])} UTC" if node.get("started_at") else ""
        process = f", process {node['pid']}" if node.get("pid") else ""
        details = f"on {node['worker']}{process}{since}"
        passed = duration(system.now() - node["started_at"]) if node.get("started_at") else ""
    elif node["state"] == "held":
        details = node.get("detail") or node.get("reason", "")
    if "parked" in node:
        details = f"{_parked_items(node)}{'; ' * bool(details)}{details}"
    attempt = str(node["attempt"]) if node["attempt"] else ""
    if "scope" in node:
        details = f"[{'.'.join(map(str, node['scope']))}] {details}"
    return [node["state"], attempt, passed, details]


def _items_of(items: dict[str, int]) -> str:
    """How far the items of a map are."""
    done = f"{count(items['completed'], 'item')} completed, {items['failed']} failed"
    running = f" ({items['running']} running)" if items.get("running") else ""
    return f"{done}, {items['open']} open{running}" if items["open"] else done


def print_details(view: dict[str, Any]) -> None:
    """Print where the error was raised, line by line."""
    for line in show_details((view.get("error") or {}).get("details")):
        echo(style(line, fg="bright_black"))


def error_of_view(view: dict[str, Any]) -> str:
    """The text of an error for a place that is labelled `error`: the code `error` is left out."""
    error = view.get("error") or {}
    code, message = error.get("code", ""), error.get("message", "")
    return message if code == "error" and message else f"{code}: {message}" if error else ""


def _error_of(view: dict[str, Any]) -> str:
    error = view.get("error")
    if not error:
        return ""
    where = show_place(error.get("details"))
    return shorten(f"{error['code']}: {error.get('message', '')}", 300) + (f" ({where})" if where else "")


def _parked_items(node: dict[str, Any]) -> str:
    """What is parked of the items of a trigger inside the run, and why the newest is."""
    parked = node.get("parked")
    return f"{count(parked['count'], 'item')} parked ({_error_of(parked)})" if parked else ""


def state_word(one: dict[str, Any]) -> str:
    """The state of a run in a list."""
    return "quarantined" if "quarantined" in one else "waiting" if one["waiting"] else str(one["state"])
