"""`perdure triggers test`: what a trigger in a file, or one that is registered, makes of an item or a moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo
from perdure.plain_text import explain_json

if TYPE_CHECKING:
    from perdure.cli.backend import Backend

View = dict[str, Any]
Get = Callable[["Backend", str], Awaitable[View]]


def read_item(file: str) -> Any:
    import msgspec

    from perdure.cli.source import read_bytes

    data, shown, _ = read_bytes(file)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--item {shown}: not JSON: {explain_json(error)}") from error


def _check(name: str, kind: str, item: Any, at: float | None) -> None:
    if kind == "schedule" and item is not None:
        raise click.UsageError(f"trigger {name} is a schedule, which has no items; use --at")
    if kind != "schedule" and at is not None:
        raise click.UsageError(f"trigger {name} is no schedule; give it an item with --item")


def try_file(
    file: str, name: str | None, item: str | None, item_id: str, at: float | None, count: int, as_json: bool
) -> None:
    from perdure.cli.trigger_files import choose_trigger, read_triggers
    from perdure.cli.trigger_output import find_moments, show_tried_item, show_tried_moments, try_moments
    from perdure.triggers.trials import try_item

    trigger = choose_trigger(read_triggers(file), name)
    _check(trigger.name, trigger.kind, item, at)
    if trigger.kind == "schedule":
        show_tried_moments(try_moments(trigger, find_moments(trigger, at, count)), count, as_json)
    elif item is not None:
        tried = try_item(trigger, read_item(item), item_id)
        show_tried_item(trigger.name, trigger.workflow, tried, as_json)
    elif as_json:
        print_json({"name": trigger.name, "kind": trigger.kind, "valid": True})
    else:
        echo(f"{file} is valid: {trigger.name}, {trigger.kind}; --item FILE shows what it makes of an item")


async def try_registered(
    backend: Backend, name: str, item: Any, item_id: str, at: float | None, count: int, get: Get
) -> tuple[View, list[View]]:
    """The trigger, and what it makes of an item; for a schedule, of its next moments."""
    view = await get(backend, name)
    _check(name, view["kind"], item, at)
    if view["kind"] != "schedule":
        if item is None:
            raise click.UsageError(f"give {name} an item with --item FILE")
        tried: Any = await backend.triggers.test(name, item=item, id=item_id)
        return view, [tried]
    page: Any = await backend.triggers.next(name, count=count, since=at)
    found = []
    for one in page["items"]:
        made: Any = await backend.triggers.test(name, at=one["moment"] - 1)
        found.append(
            {**one, **({"error": made["error"]} if made["result"] == "poison" else {"inputs": made["inputs"]})}
        )
    return view, found


def show_registered(view: View, tried: list[View], count: int, as_json: bool) -> None:
    from perdure.cli.trigger_output import show_tried_item, show_tried_moments

    if view["kind"] == "schedule":
        show_tried_moments(tried, count, as_json)
    else:
        show_tried_item(view["name"], view["workflow"], {k: v for k, v in tried[0].items() if k != "name"}, as_json)
