"""What a deployment is made of now: node types, workers, queues. Figures only, no ids of anybody's runs. It must not know HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.errors import NotFound
from perdure.model.problems import Problems
from perdure.nodes.view import trouble_view, type_view
from perdure.service.views import View
from perdure.transport import WorkerSeen

if TYPE_CHECKING:
    from perdure.service.scope import Scope


class System:
    def __init__(self, scope: Scope) -> None:
        self._engine = scope.engine

    def node_types(self) -> View:
        """What a workflow can be made of here; what is installed and cannot be loaded, with the reason."""
        registry = self._engine.registry
        types = [type_view(registry, one) for one in registry]
        return {"items": [*types, *map(trouble_view, registry.troubles())], "next_cursor": None}

    def node_type(self, name: str) -> View:
        registry = self._engine.registry
        found = registry.find(name)
        if found is None:
            hint = Problems().suggest(name, registry.names()) or f"; there are {', '.join(registry.names())}"
            raise NotFound(f"there is no node type {name[:80]!r} here{hint}")
        return type_view(registry, found)

    async def workers(self) -> View:
        """Who executes tasks. A worker that is silent for long is about to be forgotten."""
        return {"items": [_worker_view(seen) for seen in await self._seen()], "next_cursor": None}

    async def queues(self) -> View:
        """Where tasks wait, as far as workers listen there."""
        queues: dict[str, dict[str, Any]] = {}
        for seen in await self._seen():
            for name in seen.beat.queues:
                queue = queues.setdefault(name, {"queue": name, "workers": 0, "slots": 0, "running": 0})
                queue["workers"] += 1
                queue["slots"] += seen.beat.slots
                queue["running"] += len(seen.beat.running)
        return {"items": [queues[name] for name in sorted(queues)], "next_cursor": None}

    async def _seen(self) -> list[WorkerSeen]:
        transport = self._engine.transport
        found: list[WorkerSeen] = [] if transport is None else await transport.list_workers()
        return sorted(found, key=lambda seen: seen.beat.worker)


def _worker_view(seen: WorkerSeen) -> View:
    beat = seen.beat
    return {
        "worker": beat.worker,
        "queues": list(beat.queues),
        "types": list(beat.types),
        "slots": beat.slots,
        "running": len(beat.running),
        "silent_seconds": seen.silent_seconds,
        "lag_seconds": beat.lag_seconds,
    }
