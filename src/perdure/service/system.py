"""What a deployment consists of now: node types, workers, queues.

It names only runs that the caller may read, and leaves out figures about other tenants' work unless the caller may operate
the deployment. It must not know HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.access import Permission, Principal
from perdure.errors import NotFound
from perdure.kernel.address import Address, parse_task_id
from perdure.model.problems import Problems
from perdure.nodes.type_view import trouble_view, type_view
from perdure.service.pages import listing
from perdure.service.spent import By, read_spent
from perdure.service.views import View
from perdure.transport import WorkerSeen

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.service.overview import Span
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

    async def usage(
        self, *, by: By = "workflow", since: str | None = None, until: str | None = None, workflow: str | None = None
    ) -> View:
        """What all runs of the tenant have used."""
        return await read_spent(self._tenancy, by, since, until, workflow)

    async def search(self, q: str, *, limit: int = 8) -> View:
        """Runs whose ids begin so, workflows whose names hold it, and pending approvals whose names hold it; up to `limit` of
        each."""
        from perdure.service.search import search  # it needs the other nouns, which a command must not wait for

        return await search(self._tenancy, q, limit)

    async def overview(self, *, span: Span = "24h") -> View:
        """What needs a person now, how runs did in this span of time, and the newest of them."""
        from perdure.service.overview import read_overview

        return await read_overview(self._tenancy, span, lambda: self.queues().first())

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
        workers = await self._seen()
        own = await self._find_own({one.run_id for seen in workers for one in _addresses(seen)})
        items = [
            {**_worker_view(seen, self._engine.work_reports.is_alive(seen)), "tasks": _tasks(seen, own)}
            for seen in workers
        ]
        if not self._whole:
            items = [{**one, "host": None, "pid": None, "running": None} for one in items]
        return {"items": items, "next_cursor": None}

    async def _find_own(self, runs: set[str]) -> set[str]:
        """The runs that the caller may read."""
        if not self._principal.may(Permission.RUNS_READ):
            return set()
        found = set()
        for run_id in runs:
            try:
                await self._tenancy.get_run(run_id)
            except NotFound:  # of another tenant, or pruned meanwhile
                continue
            found.add(run_id)
        return found

    @listing
    async def queues(self, *, cursor: str | None = None) -> View:
        """The queues in which tasks wait and to which workers listen. `waiting` tasks are sent and no worker has taken
        them yet; `backlog` tasks belong to runs this process decides for and are not sent yet, because all slots are
        taken or a limit is reached; `held` nodes wait for a worker that can take them at all."""
        queues: dict[str, dict[str, Any]] = {}

        def get(name: str) -> dict[str, Any]:
            counts = dict.fromkeys(("workers", "slots", "running", "waiting", "backlog", "held"), 0)
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
        for name, count in ({} if engine.roster is None else engine.roster.count_held()).items():
            get(name)["held"] = count
        items = [queues[name] for name in sorted(queues)]
        if not self._whole:
            items = [{**one, "running": None, "waiting": None, "backlog": None, "held": None} for one in items]
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


MOST_TASKS = 100


def _addresses(seen: WorkerSeen) -> list[Address]:
    """The first tasks of a worker; it may have thousands."""
    parsed = (parse_task_id(name) for name in seen.beat.running[:MOST_TASKS])
    return [one for one in parsed if one is not None]


def _tasks(seen: WorkerSeen, own: set[str]) -> list[View]:
    """What the worker executes for runs that the caller may read."""
    started = seen.beat.started or {}
    return [
        {
            "run_id": one.run_id,
            "node": one.node,
            "item": one.item,
            "attempt": one.attempt,
            "since": started.get(one.task_id),
        }
        for one in _addresses(seen)
        if one.run_id in own
    ]


def _worker_view(seen: WorkerSeen, alive: bool) -> View:
    beat = seen.beat
    return {
        "worker": beat.worker,
        "state": "alive" if alive else "dead",
        "host": beat.host,
        "pid": beat.pid,
        "queues": list(beat.queues),
        "types": list(beat.types),
        "functions": sorted(beat.functions),
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
