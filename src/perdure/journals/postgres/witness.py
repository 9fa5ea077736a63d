"""Notices when the database is not the one it was: restored from a backup, or failed over to a lagging server.

Then numbers went back, and what processes and messages remember may never have happened; so the incarnation is raised,
which fences every process once (PROTOCOL 2). Two things tell:

- The row that holds the incarnation knows in which server, timeline, database and table it stood. A dump that was restored, a
  copy of the database and a promoted standby stand elsewhere. Seen by every process, also by one that has just started.
- A running process knows the write-ahead log up to a place, and its last answered commit. If a new connection finds less, the
  files were put back. Nothing else can tell: files that went back hold no trace of it. So a process that starts after
  that sees nothing, and an operator who restores files raises the incarnation by hand if no process went on running.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from perdure.journal import JournalUnavailable
from perdure.journals.postgres import schema
from perdure.journals.postgres.connections import Connection, Options
from perdure.journals.postgres.statements import bind

logger = logging.getLogger("perdure.journal.postgres")


class _Place(NamedTuple):
    """How far the database was, as this process knows it."""

    incarnation: int = 0
    lsn: int = 0
    run_id: str = ""
    seq: int = 0


class Witness:
    """What one process remembers of its database."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._opened = False
        self._place = _Place()
        self.partition_count = 0

    def note_commit(self, run_id: str, seq: int) -> None:
        """Remember a commit that was answered, and so is durable."""
        self._place = self._place._replace(run_id=run_id, seq=seq)

    def note_place(self, incarnation: int, lsn: int) -> None:
        place = self._place
        self._place = place._replace(incarnation=max(place.incarnation, incarnation), lsn=max(place.lsn, lsn))

    async def greet(self, connection: Connection) -> None:
        """Look at a new connection before it is used."""
        name = self._options.name
        if not self._opened:
            await schema.check_server(connection, name)
            schema.check_version(await schema.read_version(connection, name), name, opening=True)
        before = self._place  # what is noted while the query is under way may be later than its answer
        query, arguments = bind("greet", {"run_id": before.run_id})
        found = await connection.fetchrow(query, *arguments)
        if found is None:
            raise JournalUnavailable(f"journal {name}: perdure.meta is empty; restore a backup")
        schema.check_version(found["schema_version"], name, opening=False)
        self._check_durable(found["fsync"], found["synchronous_commit"])
        incarnation = await self._check_identity(connection, found, before)
        if self._opened:
            incarnation = await self._check_place(connection, found, before, incarnation)
        self.partition_count = found["partitions"]
        self._opened = True
        self.note_place(incarnation, found["lsn"])

    def _check_durable(self, fsync: str, synchronous_commit: str) -> None:
        if self._options.require_durable and "off" in (fsync, synchronous_commit):
            raise JournalUnavailable(
                f"journal {self._options.name}: fsync is {fsync} and synchronous_commit is {synchronous_commit}: "
                "what was answered could be lost; turn both on, or open the journal without require_durable"
            )

    async def _check_identity(self, connection: Connection, found: Mapping[str, Any], before: _Place) -> int:
        seen, now, incarnation = found["identity"], found["found_identity"], int(found["incarnation"])
        if seen is None:
            await self._change(connection, "found_identity", {"identity": now})
        elif seen != now:
            logger.warning(
                "journal %s was moved from server %s to %s; its incarnation is raised, and what earlier processes sent is decided anew",
                self._options.name,
                seen,
                now,
            )
            known = max(before.incarnation, incarnation)
            return await self._change(connection, "change_identity", {"identity": now, "known": known, "seen": seen})
        return incarnation

    async def _check_place(
        self, connection: Connection, found: Mapping[str, Any], before: _Place, incarnation: int
    ) -> int:
        now = _Place(incarnation, found["lsn"], before.run_id, found["seq"] or 0)
        if now.incarnation >= before.incarnation and now.lsn >= before.lsn and now.seq >= before.seq:
            return incarnation
        logger.warning(
            "journal %s was set back from %s to %s, as by a restore; its incarnation is raised, and what was sent meanwhile is decided anew",
            self._options.name,
            before,
            now,
        )
        self._place = _Place(before.incarnation, now.lsn)
        return await self._change(connection, "correct_incarnation", {"known": before.incarnation})

    async def _change(self, connection: Connection, name: str, parameters: Mapping[str, object]) -> int:
        """Run a statement that changes the incarnation, and return the incarnation after it."""
        query, arguments = bind(name, parameters)
        await connection.execute(query, *arguments)
        return int(await connection.fetchval("SELECT incarnation FROM perdure.meta"))
