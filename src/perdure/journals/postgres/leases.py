"""Leases in PostgreSQL. The rules are in the database (migrations/0003_leases.sql), whose clock they use."""

from __future__ import annotations

from collections.abc import Collection

from perdure.journals.postgres.connections import Connections
from perdure.leases import Leased


class PostgresLeases:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def lease(self, holder: str, lease_seconds: float) -> Leased:
        rows = await self._connections.write("lease", {"holder": holder, "lease_seconds": lease_seconds})
        return Leased({row[1]: row[2] for row in rows if row[1] is not None}, share=rows[0][0])

    async def give_back(self, holder: str, partitions: Collection[int]) -> None:
        await self._connections.write("give_back", {"holder": holder, "partitions": list(partitions)})

    async def now(self) -> float:
        return float((await self._connections.write("now", {}))[0][0])

    async def leave(self, holder: str) -> None:
        await self._connections.write("leave", {"holder": holder})
