"""The backend that commands work on: the service of a local database, or the client of a server.

Both have the same nouns with the same operations, answers and errors, so a command asks and prints, and knows nothing
else. This file opens them, and adds only what no single operation gives: whole runs, shortened ids, pages of any
length.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.frame.exits import say
from perdure.cli.frame.where import Server, Where
from perdure.cli.terminal.output import paint
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.client import AsyncClient
    from perdure.model import Compiled
    from perdure.service import Service

    Backend = Service | AsyncClient

View = dict[str, Any]
MOST = 1000
"""The most items that a server gives at once."""
RETRIES = 2
"""Few tries: a waiting person would rather know. A stream that was once open is more patient."""
_UNFIT = (400, 413, 415, 422)
"""The statuses for which a client raises `Invalid`: the input does not fit."""
_TROUBLES = 20
DEFAULT_TENANT = "default"

T = TypeVar("T")

# -- opening -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def connected(
    where: Where, *, make: bool = False, by: str | None = None, tenant: str = DEFAULT_TENANT
) -> AsyncIterator[Backend]:
    """The backend that `where` names. `make`: create a missing database. `by`: the acting person; None: the user.
    `tenant`: the owner of new things."""
    server = where.find_server()
    if server is not None:
        if by is not None:
            raise click.UsageError("--by is for a database; a server knows who you are by your key")
        if tenant != DEFAULT_TENANT:
            raise click.UsageError("a server takes the tenant from your key; leave --tenant out")
        async with reached(server) as client:
            yield client
        return
    from perdure.cli.frame.database import opened, user
    from perdure.service import Service

    async with opened(where.db, new=make) as engine:
        with explained():
            yield Service.of_owner(engine, (user() or "local") if by is None else by, tenant)


@asynccontextmanager
async def reached(server: Server) -> AsyncIterator[AsyncClient]:
    from perdure.client import AsyncClient

    with explained():
        async with AsyncClient(server.url, api_key=server.api_key, retries=RETRIES) as client:
            yield client


@contextmanager
def explained() -> Iterator[None]:
    """Turn refusals of a service or a server into errors of commands."""
    from perdure.errors import PerdureError

    try:
        yield
    except PerdureError as error:
        status = getattr(error, "http_status", error.status)
        if status in _UNFIT:
            raise Unfit(error) from error
        if status == 401:
            error.message = f"{error.message}; give --api-key KEY, or set PERDURE_API_KEY"
        raise


class Unfit(click.UsageError):
    """Input that does not fit, with all its problems. No usage line is printed: the command was used correctly."""

    def __init__(self, error: Any) -> None:
        found: Any = getattr(error, "troubles", ()) or getattr(error, "problems", ())
        plain = [(one["path"], one["message"]) if isinstance(one, dict) else (one.path, one.message) for one in found]
        more = [f"  {path or '(the whole)'}: {message}" for path, message in plain if message not in error.message]
        rest = [f"  … and {len(more) - _TROUBLES} more"] if len(more) > _TROUBLES else []
        super().__init__("\n".join([error.message, *more[:_TROUBLES], *rest]))
        self.code = error.code

    def show(self, file: Any = None) -> None:
        click.ClickException.show(self, file)


def engine_of(backend: Backend) -> Any:
    """The engine of a local database; None: the backend is a server."""
    from perdure.service import Service

    return backend.tenancy.engine if isinstance(backend, Service) else None


# -- runs --------------------------------------------------------------------------------------------------------------


async def resolve_run(backend: Backend, name: str) -> View:
    """The run with this id, or the only one whose id begins with it."""
    from perdure.errors import NotFound

    record = await find_run(backend, name) if name else None
    if record is not None:
        return record
    found = await _list_all(backend) if name else []
    ids = [one["run_id"] for one in found if one["run_id"].startswith(name)]
    # A child is named after its parent, and the beginning of an id means the parent.
    parents = [one for one in ids if ":" not in one[len(name) :]] or ids
    if len(parents) > 1:
        some = ", ".join(parents[:3])
        raise NotFound(
            f"{len(parents)} runs begin with {name} ({some}{', …' * (len(parents) > 3)}); write more of the id"
        )
    if not parents:
        raise NotFound(f"there is no run {name}; `perdure runs list` shows those there are")
    return next(one for one in found if one["run_id"] == parents[0])


async def find_run(backend: Backend, run_id: str) -> View | None:
    """The run with this id as a list shows it; None: there is none."""
    from perdure.errors import NotFound, Refused
    from perdure.service import Service

    try:
        if isinstance(backend, Service):
            return await backend.runs.summary(run_id)
        found: Any = await backend.runs.get(run_id, outputs=False)
        return found  # type: ignore[no-any-return]
    except NotFound:
        return None
    except Refused as error:  # quarantined, so that its nodes cannot be shown
        if error.code != "quarantined":
            raise
        return next((one for one in await _list_all(backend) if one["run_id"] == run_id), None)


async def _list_all(backend: Backend) -> list[View]:
    found: list[Any] = [one async for one in backend.runs.list(children=True, limit=MOST)]
    return found


async def get_run(backend: Backend, run_id: str, at: int | None = None, *, outputs: bool = True) -> View:
    """A whole run, even one with very many nodes."""
    view: Any
    if at is not None:
        view = await backend.runs.state_at(run_id, at, outputs=outputs)
        return view  # type: ignore[no-any-return]
    view = await backend.runs.get(run_id, outputs=outputs)
    cursor = view.pop("next_nodes", None)
    if cursor is not None:
        more: Any = backend.runs.nodes(run_id, outputs=outputs, limit=MOST, cursor=cursor)
        async for node in more:
            view["nodes"][node.pop("node")] = node
    return view  # type: ignore[no-any-return]


_ASKED = {
    "cancelling": ("run.cancelling", "run.cancelled"),
    "cancelled": ("run.cancelling", "run.cancelled"),
    "compensating": ("run.cancelling", "run.compensating"),
    "rolled_back": ("run.compensating",),
    "paused": ("run.paused",),
}
"""The events that say who asked for a state of a run, and why."""
LOOKED_AT = 20_000
"""How many events of a run are looked through for them."""


async def who_asked(backend: Backend, view: View) -> str:
    """Who asked that a run is in the state it is in, and why, as ` by ann: too slow`; empty where nobody did."""
    by = reason = ""
    types, looked_at = _ASKED.get(view["state"], ()), 0
    if not types:
        return ""
    async for event in backend.runs.events(view["run_id"], limit=1000):
        looked_at += 1
        data = event["data"]
        if event["type"] in types and data.get("ends") != "failed":
            by, reason = data.get("by") or by, data.get("reason") or reason
        elif event["type"] == "run.retried":
            by = reason = ""
        if looked_at >= LOOKED_AT:
            break
    return (f" by {by}" if by else "") + (f": {reason}" if reason else "")


async def go_on(backend: Backend, run_id: str) -> str:
    """A hint after a change to a run that has not ended, if no process works on it. Empty: one does."""
    from perdure.service import Service

    # A process that serves also sees to it that the run is worked on.
    if not isinstance(backend, Service) or not backend.tenancy.engine.holds:
        return ""
    record = await backend.tenancy.find_run(run_id)
    if record is None or record.row.ended_at is not None:
        return ""
    return f"No process works on this database now; `perdure run FILE --run-id {run_id}` goes on with the run."


def tell_state(done: str, state: str, hint: str) -> None:
    """What was done with a run and how it is now, with the hint of `go_on`: nothing runs where no process works."""
    echo(f"{done}; it is {'ready to go on' if hint and state == 'running' else f'{paint(state)} now'}")
    if hint:
        say(hint)


def definition_of(backend: Backend, given: Compiled) -> Any:
    """The definition that a run is to continue with. What the compiler refuses is refused here, and so is any other
    error if the run is local; on a server, the server finds the rest, with its node types."""
    from perdure.model import DefinitionError

    wrong = any(problem.severity == "error" for problem in given.problems)
    if given.definition is None or (wrong and engine_of(backend) is not None):
        raise DefinitionError(given.problems)
    return given.definition


# -- pages -------------------------------------------------------------------------------------------------------------


async def read_pages(read: Callable[[int, str | None], Any], limit: int, cursor: str | None) -> View:
    """A page of up to `limit` items, read in as many pages as that takes. `read` gives a list with pages of a size,
    from a cursor on."""
    items: list[Any] = []
    while True:
        page = await read(min(limit - len(items), MOST), cursor).first()
        items.extend(page["items"])
        cursor = page["next_cursor"]
        if cursor is None or len(items) >= limit:
            return {"items": items, "next_cursor": cursor}


async def read_run(
    where: Where, name: str, listed: Callable[[Backend], Callable[..., Any]], after: int, limit: int
) -> View:
    """A page of what a run has many of, such as events: those behind a position. `listed` is the list of a backend."""
    async with connected(where) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        read = listed(backend)
        return await read_pages(lambda most, cursor: read(run_id, limit=most, cursor=cursor), limit, str(after))


async def ask(where: Where, work: Callable[[Backend], Awaitable[T]], **about: Any) -> T:
    """Do one piece of work on a backend, for a command that needs nothing else."""
    async with connected(where, **about) as backend:
        return await work(backend)
