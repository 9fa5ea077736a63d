"""Sessions of agents: what runs with the same key know of each other. It must not know HTTP."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.access import Permission
from perdure.agents.left_behind import session_name, short
from perdure.errors import NotFound
from perdure.journal import AgentEntry
from perdure.runtime.coordinator.agent_memory import read_body
from perdure.service.pages import listing
from perdure.service.views import View

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy

MOST_TURNS = 200
_PAGES = 20
"""How many pages are looked through for a key."""


class AgentSessions:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    @listing
    async def list(self, *, key: str | None = None, limit: int = 100, cursor: str | None = None) -> View:
        """The sessions of the tenant by workflow, node and key; with `key` those of that key. A page may then be short, and still have a
        cursor."""
        tenancy = self._tenancy
        found: builtins.list[View] = []
        for _ in range(_PAGES):
            page = await tenancy.archive.list_entry_names(tenancy.tenant, "session", limit=limit, cursor=cursor)
            for one in page.items:
                about = _named(one.name)
                if key in (None, about["key"]):
                    owner = one.owner if one.owner == one.last_owner else None
                    turns = {"turns": one.count, "first_at": one.first_at, "last_at": one.last_at}
                    found.append({**about, **turns, "owner": owner})
            cursor = page.next_cursor
            if cursor is None or found:
                break
        return {"items": found, "next_cursor": cursor}

    async def get(self, workflow: str, node: str, key: str) -> View:
        """What a session knows: its newest turns, the oldest first, and its notes."""
        name = session_name(workflow, node, key)
        turns, notes = await self._read("session", name), await self._read("note", name)
        if not turns and not notes:
            raise self._missing(workflow, node, key)
        return {
            **_named(name),
            "turns": [await self._turn(one) for one in reversed(turns)],
            "notes": [await self._note(one) for one in reversed(notes)],
        }

    async def delete(self, workflow: str, node: str, key: str) -> View:
        """Forget a session. Runs that have begun know what they were told."""
        self._tenancy.principal.require(Permission.RUNS_OPERATE)
        name = session_name(workflow, node, key)
        archive, tenant = self._tenancy.archive, self._tenancy.tenant
        if not self._tenancy.is_sane(name):
            raise self._missing(workflow, node, key)
        turns = await archive.delete_entries(tenant, "session", name)
        # Crash here: its notes are left, and deleting it again deletes them.
        notes = await archive.delete_entries(tenant, "note", name)
        if not turns and not notes:
            raise self._missing(workflow, node, key)
        return {**_named(name), "turns": turns, "notes": notes}

    async def _read(self, space: str, name: str) -> builtins.list[AgentEntry]:
        if not self._tenancy.is_sane(name):
            return []
        return await self._tenancy.archive.list_entries(self._tenancy.tenant, space, name, limit=MOST_TURNS)

    async def _turn(self, entry: AgentEntry) -> View:
        body = await read_body(self._tenancy.engine.contents, entry)
        about = {"run_id": entry.run_id, "at": entry.at, "owner": entry.owner}
        return {**about, **_texts(body, "asked", "said", "label", "summary")}

    async def _note(self, entry: AgentEntry) -> View:
        body = await read_body(self._tenancy.engine.contents, entry)
        about = {"run_id": entry.run_id, "at": entry.at}
        return {**about, **_texts(body, "key", "text", "label")}

    @staticmethod
    def _missing(workflow: str, node: str, key: str) -> NotFound:
        return NotFound(f"there is no session {key[:80]!r} of {workflow[:80]}/{node[:80]}")


def _texts(body: Mapping[str, Any], *names: str) -> dict[str, str]:
    """What an agent left under these names, as long as it may be: a worker that lies leaves anything."""
    return {name: short(str(body.get(name, ""))) for name in names}


def _named(name: str) -> dict[str, Any]:
    workflow, node, key = name.split("/", 2)
    return {"workflow": workflow, "node": node, "key": key}
