"""`perdure triggers` and `perdure schedules`: what starts runs by itself, registered, looked at, fired and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import Group, json_option, page_options
from perdure.cli.frame.parameters import Moment
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import count as say_count
from perdure.cli.terminal.output import moment, print_json, print_page
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend

View = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])
MOST = 1000
KINDS = ("schedule", "webhook", "table", "folder", "stream", "runs", "event", "poll")
STATES = ("active", "paused", "done", "deleted")
OVERLAPS = ("skip", "buffer_one", "buffer", "cancel", "terminate", "allow")
_SUFFIXES = (".yaml", ".yml", ".json", ".py")
_SCHEDULES = "perdure.schedules"


@click.group(cls=Group)
def triggers() -> None:
    """Triggers: what starts runs by itself."""


@click.group(cls=Group)
@click.pass_context
def schedules(ctx: click.Context) -> None:
    """Schedules: the triggers that have moments."""
    ctx.meta[_SCHEDULES] = True


def both(command: click.Command) -> click.Command:
    """The command is one of `perdure triggers` and one of `perdure schedules`."""
    triggers.add_command(command)
    schedules.add_command(command)
    return command


def _ask(where: Where, work: Callable[[Backend], Awaitable[Any]], **about: Any) -> Any:
    from perdure.cli.frame.backend import ask

    return asyncio.run(ask(where, work, **about))


def _only_schedules() -> bool:
    return bool(click.get_current_context().meta.get(_SCHEDULES))


def _check(view: View) -> View:
    if _only_schedules() and view["kind"] != "schedule":
        from perdure.errors import NotFound

        raise NotFound(f"{view['name']} is no schedule but a {view['kind']}; use `perdure triggers` for it")
    return view


async def _get(backend: Backend, name: str) -> View:
    from perdure.errors import NotFound

    try:
        view: Any = await backend.triggers.get(name)
    except NotFound as error:
        raise NotFound(f"there is no trigger {name}; `perdure triggers list` shows those there are") from error
    return _check(view)


def _is_file(text: str) -> bool:
    """Whether an argument names a file, and no registered trigger."""
    return text == "-" or text.endswith(_SUFFIXES) or ".py:" in text or "/" in text or Path(text).is_file()


# -- registering -------------------------------------------------------------------------------------------------------


@both
@click.command(short_help="Register the triggers in a file, or change them.")
@click.argument("file")
@where_options
@json_option
def apply(file: str, where: Where, as_json: bool) -> None:
    """Register the triggers in FILE: YAML or JSON with one or several, a workflow that has some, or a Python file that
    declares them; - reads standard input.

    A changed trigger gets its next revision; an unchanged one stays as it is. What is not in FILE is left alone.

    Inputs that are written out must fit the workflow. A trigger that is refused holds up no other; exit code 2 then.
    """
    from perdure.cli.frame.refusals import refused_for
    from perdure.cli.triggers.trigger_files import read_triggers, show_refused
    from perdure.errors import PerdureError

    found = read_triggers(file)
    if _only_schedules():
        for one in found.triggers:
            _check({"name": one.name, "kind": one.kind})

    refused: dict[int, Any] = {}

    async def work(backend: Backend) -> list[View]:
        views: list[View] = []
        for number, one in enumerate(found.written):
            try:
                view: Any = await backend.triggers.apply(one)
            except PerdureError as error:
                refused[number] = refused_for(error)
                if not refused[number]:
                    raise
            else:
                views.append(view)
        return views

    views = _ask(where, work, make=True)
    if as_json and not refused:
        print_page(views, None)
        return
    from perdure.cli.triggers.own_triggers import say_applied

    for view in () if as_json else views:
        say_applied(view, address_of(where, view))
    if refused:
        show_refused(found, refused)


def _say_next(view: View) -> str:
    return "" if view["next_at"] is None else f"; next at {moment(view['next_at'])}"


def address_of(where: Where, view: View) -> str:
    """The address of a webhook, whole where the server is known."""
    from perdure.settings import Settings

    hook = view["hook"] or ""
    if not hook or "://" in hook:
        return hook
    server = where.find_server()
    base = server.url if server is not None else Settings.load().public_url
    return f"{base.rstrip('/')}{hook}" if base else f"{hook} (of your server; `perdure dev` prints its address)"


# -- looking -----------------------------------------------------------------------------------------------------------


@triggers.command("list")
@click.option("--kind", type=click.Choice(KINDS), help="Only of this kind.")
@click.option("--state", type=click.Choice(STATES), help="Only in this state.")
@page_options
@where_options
@json_option
def list_(kind: str | None, state: str | None, limit: int, cursor: str | None, where: Where, as_json: bool) -> None:
    """List triggers by name, with what is due, open and waiting."""
    _list(kind, state, limit, cursor, where, as_json)


@schedules.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only in this state.")
@page_options
@where_options
@json_option
def list_schedules(state: str | None, limit: int, cursor: str | None, where: Where, as_json: bool) -> None:
    """List schedules by name, with what is due, open and waiting."""
    _list("schedule", state, limit, cursor, where, as_json)


def _list(kind: str | None, state: str | None, limit: int, cursor: str | None, where: Where, as_json: bool) -> None:
    from perdure.cli.frame.backend import read_pages
    from perdure.cli.frame.lists import say_more
    from perdure.cli.triggers.trigger_output import print_triggers

    page = _ask(
        where,
        lambda backend: read_pages(
            lambda most, after: backend.triggers.list(kind=kind, state=state, limit=most, cursor=after), limit, cursor
        ),
    )
    if as_json:
        print_page(page["items"], page["next_cursor"])
    elif not page["items"]:
        what = "schedules" if kind == "schedule" else "triggers"
        said = f"No {what} yet; `perdure triggers apply FILE` registers one."
        say(said if state is None else f"No {what} are {state}.")
    else:
        print_triggers(page["items"])
        say_more(page["next_cursor"])


@both
@click.command(short_help="Show a trigger: how it stands, and its definition.")
@click.argument("name")
@where_options
@json_option
def show(name: str, where: Where, as_json: bool) -> None:
    """Show a trigger: its state, when it is due next, what waits or failed, and its definition as it is decided by."""
    view = _ask(where, lambda backend: _get(backend, name))
    if as_json:
        print_json(view)
        return
    from perdure.cli.node_types import as_yaml
    from perdure.cli.triggers.trigger_output import print_trigger, tidy

    print_trigger(view, address_of(where, view))
    echo()
    echo(as_yaml(tidy(view["spec"])))
    if view["parked"]:
        parked = say_count(view["parked"], "item")
        say(f"{parked} could not be started: `perdure triggers items {name} --state parked` says why.")


@both
@click.command("next", short_help="Show the next moments of a schedule.")
@click.argument("which", metavar="NAME|FILE")
@click.option("--trigger", "name", metavar="NAME", help="Which trigger, where FILE holds several.")
@click.option("--count", type=click.IntRange(1, MOST), default=10, show_default=True, help="How many moments.")
@click.option("--since", type=Moment(), metavar="TIME", help="Later than this; now without it.")
@where_options
@json_option
def next_(which: str, name: str | None, count: int, since: float | None, where: Where, as_json: bool) -> None:
    """Show the next moments of a schedule that is registered, or of one in FILE (YAML, JSON or Python; - reads standard input) as if
    it began now.

    A moment is shown by the clock of its time zone. Where clocks change, a note says what that does to it. With jitter,
    a moment is due somewhat later; how much depends on the trigger and the moment alone, so what is shown is true.
    """
    from perdure.cli.triggers.trigger_output import find_moments, print_moments, say_end

    if _is_file(which):
        from perdure.cli.triggers.trigger_files import choose_trigger, read_triggers

        found = find_moments(choose_trigger(read_triggers(which), name), since, count)
        found = [{key: value for key, value in one.items() if key != "facts"} for one in found]
    else:
        _no_trigger_option(name)
        found = _ask(where, lambda backend: _next(backend, which, count, since))
    if as_json:
        print_page(found, None)
        return
    print_moments(found)
    say_end(found, count)


async def _next(backend: Backend, name: str, count: int, since: float | None) -> list[View]:
    await _get(backend, name)
    page: Any = await backend.triggers.next(name, count=count, since=since)
    return list(page["items"])


def _no_trigger_option(name: str | None) -> None:
    if name is not None:
        raise click.UsageError("--trigger chooses one of a file; give the name of a registered one alone")


@both
@click.command(short_help="Show what a trigger makes of an item or a moment.")
@click.argument("which", metavar="NAME|FILE")
@click.option("--trigger", "name", metavar="NAME", help="Which trigger, where FILE holds several.")
@click.option("--item", metavar="FILE", help="An item as JSON; - reads standard input.")
@click.option("--poll", is_flag=True, help="Read the source, from here, and show what comes.")
@click.option("--import", "modules", metavar="MODULE", multiple=True, help="With --poll: what brings its source.")
@click.option("--id", "item_id", metavar="ID", default="", help="What the source calls the item.")
@click.option("--at", type=Moment(), metavar="TIME", help="Moments from this on; now without it.")
@click.option("--count", type=click.IntRange(1, MOST), default=1, show_default=True, help="How many moments or items.")
@where_options
@json_option
def test(
    which: str,
    name: str | None,
    item: str | None,
    poll: bool,
    modules: tuple[str, ...],
    item_id: str,
    at: float | None,
    count: int,
    where: Where,
    as_json: bool,
) -> None:
    """Check the triggers in FILE, or take one that is registered, and show what it would give a run. Nothing is started, and
    nothing written.

    For a schedule, its next moments with their inputs. For any other trigger, what its filter, its key, its id and its
    inputs make of the item in --item: {headers, body, query} of a webhook, {name, payload, key, id} of an event, the row
    of a table. Without --item, it is only checked.

    --poll reads the source of a table, a folder, a stream or a poll: of a FILE from its start, of a trigger from its cursor, which
    stays where it is. This process reads it, with its own secrets and folder_roots.

    Exit code 1 when the item, or a moment, cannot be mapped: it would be parked.
    """
    from perdure.cli.triggers import trigger_trials as trial

    if poll and (item is not None or item_id or at is not None):
        raise click.UsageError("--poll takes items from the source; leave out --item, --id and --at")
    if _is_file(which):
        if poll:
            trial.poll_file(which, name, modules, count, where, as_json)
        else:
            trial.try_file(which, name, item, item_id, at, count, as_json)
        return
    _no_trigger_option(name)
    if poll:
        view = _ask(where, lambda backend: _get(backend, which))
        trial.poll_registered(view, modules, count, where, as_json)
        return
    given = None if item is None else trial.read_item(item)
    view, tried = _ask(where, lambda backend: trial.try_registered(backend, which, given, item_id, at, count, _get))
    trial.show_registered(view, tried, count, as_json)


@both
@click.command("items", short_help="List what a trigger holds: waiting, open, parked.")
@click.argument("name")
@click.option("--state", type=click.Choice(("waiting", "open", "parked")), help="Only these.")
@page_options
@where_options
@json_option
def items(name: str, state: str | None, limit: int, cursor: str | None, where: Where, as_json: bool) -> None:
    """List what a trigger holds: items that wait for their run, those whose run is open, and those that could not be started
    (parked), with the reason."""
    from perdure.cli.frame.backend import read_pages
    from perdure.cli.frame.lists import say_more
    from perdure.cli.triggers.trigger_output import print_items

    async def work(backend: Backend) -> View:
        await _get(backend, name)
        listed: Any = backend.triggers.items
        return await read_pages(lambda most, after: listed(name, state=state, limit=most, cursor=after), limit, cursor)

    page = _ask(where, work)
    if as_json:
        print_page(page["items"], page["next_cursor"])
    elif not page["items"]:
        say(f"{name} holds no items{'' if state is None else f' that are {state}'}.")
    else:
        print_items(page["items"])
        say_more(page["next_cursor"])
        if any(one["state"] == "parked" for one in page["items"]):
            say(
                f"\nStart one with `perdure triggers requeue {name} ITEM`, or give it up with `perdure triggers discard {name} ITEM`."
            )


# -- acting ------------------------------------------------------------------------------------------------------------


@both
@click.command(short_help="Start a run of a trigger now.")
@click.argument("name")
@click.option("-i", "pairs", metavar="NAME=VALUE", multiple=True, help="An input; the value is JSON, or else text.")
@click.option("--inputs", "file", metavar="FILE", help="Inputs as a JSON object; - reads standard input.")
@click.option("--overlap", type=click.Choice(OVERLAPS), help="When a run is open; what the trigger says without it.")
@where_options
@json_option
def fire(name: str, pairs: tuple[str, ...], file: str | None, overlap: str | None, where: Where, as_json: bool) -> None:
    """Start a run of a trigger now. Inputs that are given stand in the place of those that the trigger would give.

    It obeys `overlap` like a moment: with `skip`, nothing is started while a run is open. --overlap says otherwise. Runs of a backfill
    do not count: a backfill has a lane of its own, with its own --open.
    A paused trigger starts nothing, also not by hand: the item waits until the trigger is resumed.
    """
    from perdure.cli.frame.source import read_inputs

    inputs = read_inputs(pairs, file)
    chosen: Any = overlap

    async def work(backend: Backend) -> tuple[Any, View]:
        await _get(backend, name)
        fired = await backend.triggers.fire(name, inputs, overlap=chosen)
        return fired, await _get(backend, name)

    view, trigger = _ask(where, work)
    if as_json:
        print_json(view)
        return
    from perdure.cli.triggers.trigger_output import say_fired

    echo(say_fired(view, trigger))
    if not view["begun"] and view["state"] == "started":
        say("No process drives triggers now; the run begins when one does.")


@both
@click.command(short_help="Let a trigger start nothing more.")
@click.argument("name")
@click.option("--reason", default="", help="Why; it is written down.")
@where_options
@json_option
def pause(name: str, reason: str, where: Where, as_json: bool) -> None:
    """Let a trigger start nothing more, until it is resumed. Moments that pass are skipped; what is pushed waits. Runs that are open
    go on."""
    _change(where, name, lambda backend: backend.triggers.pause(name, reason=reason), "is paused", as_json)


@both
@click.command(short_help="Let a paused trigger go on.")
@click.argument("name")
@click.option("--catch-up", is_flag=True, help="Make up for moments that passed meanwhile, as `catchup` says.")
@where_options
@json_option
def resume(name: str, catch_up: bool, where: Where, as_json: bool) -> None:
    """Let a paused trigger go on. Moments of a schedule that passed meanwhile start nothing, unless --catch-up is given: then they are
    like moments that no process was there for. What was pushed has waited."""
    _change(where, name, lambda backend: backend.triggers.resume(name, catch_up=catch_up), "goes on", as_json)


def _change(where: Where, name: str, act: Callable[[Backend], Awaitable[Any]], said: str, as_json: bool) -> None:
    async def work(backend: Backend) -> Any:
        await _get(backend, name)
        return await act(backend)

    view = _ask(where, work)
    if as_json:
        print_json(view)
    else:
        echo(f"{name} {said}{_say_next(view) if view.get('state') == 'active' else ''}")


@both
@click.command(short_help="Start runs for moments of the past.")
@click.argument("name")
@click.option("--since", type=Moment(), metavar="TIME", required=True, help="Moments from this on …")
@click.option("--until", type=Moment(), metavar="TIME", help="… and before this; now without it.")
@click.option("--again", is_flag=True, help="Also moments that have had a run.")
@click.option("--open", "open_", type=click.IntRange(1, 1000), default=1, show_default=True, help="Runs at once.")
@where_options
@json_option
def backfill(
    name: str, since: float, until: float | None, again: bool, open_: int, where: Where, as_json: bool
) -> None:
    """Start runs for the moments of a schedule between --since and --until, beside those that come.

    A moment that has had a run gets no second one, unless --again is given; `perdure triggers show` counts it as a duplicate. These runs
    and those that come do not wait for each other: `overlap` and `limits.open` of the schedule are for the others, --open is for these.
    """
    from perdure.clock import system

    end = system.now() if until is None else until
    said = f"makes up for its moments from {moment(since)} to {moment(end)}" + " that have had no run" * (not again)
    _change(
        where,
        name,
        lambda backend: backend.triggers.backfill(name, since, end, again=again, open_=open_),
        said,
        as_json,
    )


@triggers.command(short_help="Set the cursor of a source back.")
@click.argument("name")
@click.argument("cursor")
@click.option("--reason", required=True, help="Why; it is written down.")
@click.option("--again", is_flag=True, help="Start runs also for items that have had one.")
@where_options
@json_option
def rewind(name: str, cursor: str, reason: str, again: bool, where: Where, as_json: bool) -> None:
    """Set the cursor of a source back, to one that `perdure triggers show` has shown, or to its beginning with `start`.

    Items behind it come again. One that has had a run gets no second one, unless --again is given.
    """
    place = None if cursor == "start" else cursor
    act = lambda backend: backend.triggers.rewind(name, place, reason=reason, again=again)  # noqa: E731
    _change(where, name, act, f"reads from {cursor} on", as_json)


@both
@click.command(short_help="Let a parked item start its run after all.")
@click.argument("name")
@click.argument("number", metavar="ITEM", type=click.IntRange(1))
@click.option("-i", "pairs", metavar="NAME=VALUE", multiple=True, help="An input; the value is JSON, or else text.")
@click.option("--inputs", "file", metavar="FILE", help="Inputs as a JSON object; - reads standard input.")
@where_options
@json_option
def requeue(name: str, number: int, pairs: tuple[str, ...], file: str | None, where: Where, as_json: bool) -> None:
    """Let a parked item start its run after all. An item that could not be mapped is mapped anew; with inputs, it gets those."""
    from perdure.cli.frame.source import read_inputs

    inputs = read_inputs(pairs, file)
    act = lambda backend: backend.triggers.requeue(name, number, inputs=inputs)  # noqa: E731
    _change(where, name, act, f"starts item {number} after all", as_json)


@both
@click.command(short_help="Give a parked item up.")
@click.argument("name")
@click.argument("number", metavar="ITEM", type=click.IntRange(1))
@where_options
@json_option
def discard(name: str, number: int, where: Where, as_json: bool) -> None:
    """Give a parked item up: it starts no run."""
    _change(where, name, lambda backend: backend.triggers.discard(name, number), f"gives item {number} up", as_json)


@both
@click.command(short_help="End a trigger.")
@click.argument("name")
@where_options
@json_option
def delete(name: str, where: Where, as_json: bool) -> None:
    """End a trigger. What waits is skipped; runs that it started go on. Another one of its name is another trigger.

    To stop it for a while, pause it.
    """
    _change(where, name, lambda backend: backend.triggers.delete(name), "is deleted", as_json)
