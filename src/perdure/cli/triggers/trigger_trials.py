"""`perdure triggers test`: what a trigger in a file, or one that is registered, makes of an item or a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo
from perdure.plain_text import explain_json

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend
    from perdure.cli.frame.where import Where
    from perdure.model.triggers import Trigger

View = dict[str, Any]
Get = Callable[["Backend", str], Awaitable[View]]


def read_item(file: str) -> Any:
    import msgspec

    from perdure.cli.frame.source import read_bytes

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
    from perdure.cli.triggers.trigger_files import choose_trigger, read_triggers
    from perdure.cli.triggers.trigger_output import find_moments, show_tried_item, show_tried_moments, try_moments
    from perdure.clock import system
    from perdure.triggers.trials import try_item

    trigger = choose_trigger(read_triggers(file), name)
    _check(trigger.name, trigger.kind, item, at)
    if trigger.kind == "schedule":
        show_tried_moments(try_moments(trigger, find_moments(trigger, at, count)), count, as_json)
    elif item is not None:
        tried = try_item(trigger, read_item(item), system.now(), item_id)
        show_tried_item(trigger.name, trigger.workflow, tried, as_json)
    elif as_json:
        print_json({"name": trigger.name, "kind": trigger.kind, "valid": True})
    else:
        echo(f"{file} is valid: {trigger.name}, {trigger.kind}; --item FILE shows what it makes of an item")


def poll_file(file: str, name: str | None, modules: tuple[str, ...], count: int, where: Where, as_json: bool) -> None:
    from perdure.cli.triggers.trigger_files import choose_trigger, read_triggers

    _poll(choose_trigger(read_triggers(file), name), None, modules, count, where, as_json)


def poll_registered(view: View, modules: tuple[str, ...], count: int, where: Where, as_json: bool) -> None:
    """Only of a database here: what a server says is read with no secret of this machine, and from no folder of it."""
    import msgspec

    from perdure.model.triggers import Trigger

    if where.find_server() is not None:
        raise click.UsageError(
            f"--poll reads from this machine, with its secrets, and {view['name']} is what a server says; look at it, and give --poll the FILE"
        )
    cursor = view["cursor"]
    if isinstance(cursor, str) and cursor.endswith("…"):
        raise click.UsageError(
            f"the cursor of {view['name']} is too long to be shown whole; give --poll the FILE instead"
        )
    _poll(msgspec.convert(view["spec"], Trigger), cursor, modules, count, where, as_json)


def _poll(
    trigger: Trigger, cursor: str | None, modules: tuple[str, ...], count: int, where: Where, as_json: bool
) -> None:
    """Read the source from here, and show what the trigger would make of what comes."""
    from perdure.cli.frame.source import import_modules
    from perdure.cli.triggers.trigger_output import show_tried_items
    from perdure.clock import system
    from perdure.runtime.coordinator.triggers.poll_tasks import POLLED
    from perdure.triggers.mapping import polled_item
    from perdure.triggers.trials import try_item

    if trigger.kind not in POLLED:
        raise click.UsageError(f"trigger {trigger.name} is a {trigger.kind}, which is not polled; use --item or --at")
    import_modules(modules, "-")
    found, now = asyncio.run(_read(trigger, cursor, count, where)), system.now()
    tried = [
        {"result": "poison", "part": "item", "error": one.error, "id": one.id}
        if one.error
        else {"id": one.id, **try_item(trigger, polled_item(trigger, one.id, one.data), now, one.id)}
        for one in found
    ]
    show_tried_items(trigger.name, tried, as_json)


async def _read(trigger: Trigger, cursor: str | None, count: int, where: Where) -> tuple[Any, ...]:
    from perdure.cli.frame.backend import DEFAULT_TENANT
    from perdure.cli.frame.database import load_settings
    from perdure.clock import system
    from perdure.deployment import open_vault
    from perdure.opener import prepare_calls
    from perdure.runtime.source_kinds import SourceKinds
    from perdure.runtime.source_trials import read_some

    settings = load_settings(where.db)
    prepare_calls(settings)
    vault = open_vault(settings)
    try:
        kinds = SourceKinds(tuple(root for root in settings.folder_roots.split(":") if root), system)
        return await read_some(trigger, cursor, count, kinds, vault, DEFAULT_TENANT, system)
    finally:
        vault.close()


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
    from perdure.cli.triggers.trigger_output import show_tried_item, show_tried_moments

    if view["kind"] == "schedule":
        show_tried_moments(tried, count, as_json)
    else:
        show_tried_item(view["name"], view["workflow"], {k: v for k, v in tried[0].items() if k != "name"}, as_json)
