"""What a deployment consists of now: node types, workers, queues.

It gives figures only, never ids of runs, and leaves out figures about other tenants' work unless the caller may operate
the deployment. It must not know HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.access import Permission, Principal
from perdure.errors import NotFound
from perdure.model.problems import Problems
from perdure.nodes.type_view import trouble_view, type_view
from perdure.service.pages import listing
from perdure.service.views import View
from perdure.transport import WorkerSeen

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.service.tenancy import Tenancy


class System:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._engine = tenancy.engine
        self._principal = tenancy.principal
        self._whole = tenancy.principal.may(Permission.SYSTEM_OPERATE)
        """Whether the caller sees figures about every tenant's work."""

    async def me(self) -> View:
        """The caller's own principal and its permissions."""
        return _principal_view(self._principal)

    async def search(self, q: str, *, limit: int = 8) -> View:
        """Runs whose ids begin so, workflows whose names hold it, and pending approvals whose names hold it; up to `limit` of
        each."""
        from perdure.service.search import search  # it needs the other nouns, which a command must not wait for

        return await search(self._tenancy, q, limit)

    @listing
    async def node_types(self, *, cursor: str | None = None) -> View:
        """The node types that workflows can use here, and those installed that cannot be loaded, with the reason."""
        registry = self._engine.registry
        types = [type_view(registry, one) for one in registry]
        return {"items": [*types, *map(trouble_view, registry.troubles())], "next_cursor": None}

    async def node_type(self, name: str) -> View:
        """One node type, with the schemas of its config and output."""
        registry = self._engine.registry
        found = registry.find(name)
        if found is None:
            hint = Problems().suggest(name, registry.names()) or f"; there are {', '.join(registry.names())}"
            raise NotFound(f"there is no node type {name[:80]!r} here{hint}")
        return type_view(registry, found)

    @listing
    async def workers(self, *, cursor: str | None = None) -> View:
        """The workers that execute tasks. One that was silent for `worker_dead_seconds` is dead, and soon forgotten."""
        items = [_worker_view(seen, self._engine.work_reports.is_alive(seen)) for seen in await self._seen()]
        if not self._whole:
            items = [{**one, "host": None, "pid": None, "running": None} for one in items]
        return {"items": items, "next_cursor": None}

    @listing
    async def queues(self, *, cursor: str | None = None) -> View:
        """The queues in which tasks wait and to which workers listen. `waiting` tasks are sent and no worker has taken
        them yet; `backlog` tasks belong to runs this process decides for and are not sent yet, because all slots are
        taken or a limit is reached."""
        queues: dict[str, dict[str, Any]] = {}

        def get(name: str) -> dict[str, Any]:
            counts = dict.fromkeys(("workers", "slots", "running", "waiting", "backlog"), 0)
            return queues.setdefault(name, {"queue": name, **counts})

        for seen in await self._seen():
            for name in seen.beat.queues if self._engine.work_reports.is_alive(seen) else ():
                queue = get(name)
                queue["workers"] += 1
                queue["slots"] += seen.beat.slots
        engine = self._engine
        for found in [] if engine.transport is None else await engine.transport.list_queues():
            queue = get(found.queue)
            queue["waiting"], queue["running"] = found.waiting, found.claimed
        for name, count in (
            {} if engine.coordinator is None else engine.coordinator.publisher.dispatcher.count_backlog().items()
        ):
            get(name if engine.distributed else "default")["backlog"] += count
        items = [queues[name] for name in sorted(queues)]
        if not self._whole:
            items = [{**one, "running": None, "waiting": None, "backlog": None} for one in items]
        return {"items": items, "next_cursor": None}

    async def _seen(self) -> list[WorkerSeen]:
        return sorted(await list_workers(self._engine), key=lambda seen: seen.beat.worker)


async def list_workers(engine: Engine) -> list[WorkerSeen]:
    return [] if engine.transport is None else await engine.transport.list_workers()


async def count_workers(engine: Engine) -> dict[str, int] | None:
    """How many workers are alive and dead. None: the transport cannot be asked."""
    workers, blind = await engine.work_reports.ask_workers() if engine.distributed else (await list_workers(engine), "")
    alive = sum(map(engine.work_reports.is_alive, workers))
    return None if blind else {"alive": alive, "dead": len(workers) - alive}


def _worker_view(seen: WorkerSeen, alive: bool) -> View:
    beat = seen.beat
    return {
        "worker": beat.worker,
        "state": "alive" if alive else "dead",
        "host": beat.host,
        "pid": beat.pid,
        "queues": list(beat.queues),
        "types": list(beat.types),
        "slots": beat.slots,
        "running": len(beat.running),
        "silent_seconds": seen.silent_seconds,
        "lag_seconds": beat.lag_seconds,
    }


def _principal_view(principal: Principal) -> View:
    return {
        "name": principal.name,
        "tenant": principal.tenant,
        "kind": principal.kind,
        "roles": list(principal.roles),
        "permissions": sorted(principal.permissions),
    }
