"""What agents leave for later runs, and what they find of earlier ones: rows beside the runs, written in the append that completes an
agent, and read before the first task of another is sent.

Decides nothing and keeps nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

from perdure.agents.left_behind import BadSession, SessionConfig, find_left, read_session, session_name
from perdure.archive.agent_entries import AgentEntries
from perdure.blobs import BlobStore
from perdure.budget import Budget
from perdure.contents import Contents
from perdure.expressions.at_hand import AtHand, Lost
from perdure.expressions.errors import ContentLost, NotAtHand, TemplateError
from perdure.journal import AgentEntry, Journal
from perdure.kernel import events as e
from perdure.kernel import segments
from perdure.kernel.address import Address
from perdure.kernel.state import Activation, State
from perdure.kernel.values import steps_of
from perdure.limits import Limit
from perdure.model.ir import Node

WINDOW = 60
"""The newest turns that are read; an agent sums up what is older."""
MOST_NOTES, MOST_TOOLS = 200, 500
MEMORY_BYTES = 512 * 1024
"""The most bytes of each of turns, notes and tools that travel with a task; the oldest are left out first."""
_SHARDS = 16
_SESSION = "session:"


# -- leaving -----------------------------------------------------------------------------------------------------------


def list_left_behind(state: State, events: Iterable[e.Event]) -> tuple[AgentEntry, ...]:
    """What the agents leave that these events complete."""
    found: list[AgentEntry] = []
    for event in events:
        if type(event) is not e.NodeCompleted or event.adopted:
            continue
        activation = state.find(event.node, event.scope, event.item)
        if activation is None or state.pinned(activation).type != "agent":
            continue
        place = Address(state.run_id, event.node, event.scope, event.item).place
        steps = steps_of(activation.checkpoint)
        for left in find_left(steps):
            body = segments.encode(steps[left.step])[0]
            about: dict[str, Any] = {"tenant": state.tenant, "run_id": state.run_id, "at": event.at, "body": body}
            if left.space == "shape":
                where = shard_of(owner_of(state), state.run_id)
                found.append(AgentEntry(space="shape", name=left.name, place=where, owner=owner_of(state), **about))
                continue
            name = session_name(state.workflow, event.node, left.name)
            where = f"{int(event.at * 1e6):017d}.{state.run_id}.{place}" + (f".{left.id}" if left.id else "")
            found.append(AgentEntry(space=left.space, name=name, place=where, owner=owner_of(state), **about))
    return tuple(found)


def owner_of(state: State) -> str:
    """Who started the run, or the run that it is a child of."""
    return state.requesters[0] if state.requesters else ""


def shard_of(owner: str, run_id: str) -> str:
    """A place of a shape: some runs of one person share one, so that a shape which is run all the time takes no more room."""
    return f"{zlib.crc32(run_id.encode()) % _SHARDS:x}.{owner}"


# -- finding -----------------------------------------------------------------------------------------------------------


class NeedsMemory(NotAtHand):
    """What earlier runs left for an agent must be read first."""

    code = "needs_memory"

    def __init__(self, key: str, session: str, owner: str | None, allow: tuple[str, ...]) -> None:
        super().__init__(key, "what earlier runs left for an agent must be read first")
        self.session = session
        """The name of the session; empty: the agent has none."""
        self.owner = owner
        """The person to whom the session must belong; None: it is shared."""
        self.allow = allow


def memory_of(state: State, activation: Activation, address: Address, config: Any, at_hand: AtHand) -> dict[str, Any]:
    """What the task of an agent says of earlier runs. Raises NeedsMemory or TemplateError."""
    steps = steps_of(activation.checkpoint)
    if not isinstance(config, dict) or "prefix" in steps:
        return {}
    if state.pinned(activation).type != "agent":
        return {"workflow": state.workflow} if config.get("cache") else {}
    found = session_of(config, address.node)
    allow = _allowed(config)
    if found is None and not allow:
        return {}
    key = f"memory:{address.task_id}"
    if key not in at_hand:
        name = "" if found is None else session_name(state.workflow, address.node, found.key)
        raise NeedsMemory(key, name, None if found is not None and found.shared else owner_of(state), allow)
    memory = at_hand[key]
    if isinstance(memory, Lost):
        raise ContentLost("session", memory.code, memory.message)
    given: dict[str, Any] = memory
    return given


def has_session(node: Node) -> bool:
    """Whether the node is an agent that names a session."""
    return node.type == "agent" and isinstance(node.config, dict) and "session" in node.config


def session_limit(state: State, node: str, session: SessionConfig) -> Limit:
    """One run at a time has a session."""
    return Limit(state.tenant, f"{_SESSION}{session_name(state.workflow, node, session.key)}", 1, None)


def is_session(limit: Limit) -> bool:
    return limit.key.startswith(_SESSION)


def session_of(config: dict[str, Any], node: str) -> SessionConfig | None:
    """The session of a rendered config. Raises TemplateError."""
    try:
        return read_session(config)
    except BadSession as error:
        raise TemplateError(f"session of {node}: {error}") from None


def _allowed(config: dict[str, Any]) -> tuple[str, ...]:
    """Which tools of the registry the agent may find."""
    found: list[str] = []
    for key in ("tools", "available_tools"):
        entries = config.get(key)
        for entry in entries if isinstance(entries, list) else ():
            search = entry.get("search_tools") if isinstance(entry, dict) else None
            allow = search.get("allow") if isinstance(search, dict) else None
            found += [one for one in allow if isinstance(one, str)] if isinstance(allow, list) else []
    return tuple(found)


def memory_sources(
    journal: Journal, blobs: BlobStore | None
) -> dict[type[NotAtHand], Callable[[str, Any], Awaitable[Any]]]:
    contents = Contents(blobs)

    async def read(tenant: str, need: NeedsMemory) -> Any:
        from perdure.runtime.coordinator.tasks.fetcher import Fetched

        return Fetched(await read_memory(journal.archive, contents, tenant, need))

    return {NeedsMemory: read}


async def read_memory(
    archive: AgentEntries | None, contents: Contents, tenant: str, need: NeedsMemory
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if archive is None:
        return found
    if need.session:
        turns = await archive.list_entries(tenant, "session", need.session, limit=WINDOW)
        notes = await archive.list_entries(tenant, "note", need.session, limit=MOST_NOTES)
        if need.owner is not None and any(one.owner != need.owner for one in (*turns, *notes)):
            return {"foreign": True}
        found["turns"] = await _read_bodies(contents, turns)
        found["notes"] = await _read_bodies(contents, notes)
    if need.allow:
        found["tools"] = await read_tools(archive, contents, tenant, need.allow)
    return found


async def read_tools(
    archive: AgentEntries, contents: Contents, tenant: str, allow: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The live tools of the registry whose names are allowed."""
    found: list[AgentEntry] = []
    cursor = None
    while len(found) < MOST_TOOLS:
        page = await archive.list_entry_names(tenant, "tool", limit=500, cursor=cursor)
        for one in page.items:
            if any(fnmatchcase(one.name, pattern) for pattern in allow):
                found += await archive.list_entries(tenant, "tool", one.name, limit=1)
        if (cursor := page.next_cursor) is None:
            break
    bodies = await _read_bodies(contents, found[:MOST_TOOLS])
    return [one for one in bodies if one.get("state") == "live"]


async def _read_bodies(contents: Contents, entries: list[AgentEntry]) -> list[dict[str, Any]]:
    """What entries say, the first come first until there is too much, each with its place."""
    found: list[dict[str, Any]] = []
    room = MEMORY_BYTES
    for entry in entries:
        body = await read_body(contents, entry)
        room -= len(segments.encode(body)[0])
        if room < 0:
            break
        found.append({**body, "place": entry.place})
    return found


async def read_body(contents: Contents, entry: AgentEntry) -> dict[str, Any]:
    """What an entry says, also where that is a blob; of one that is no object, which only a worker that lies leaves, nothing."""
    value = segments.decode(entry.body, True)
    found = await contents.resolve(entry.tenant, value, budget=Budget(size=MEMORY_BYTES))
    return found if isinstance(found, dict) else {}
