"""The right to be the one coordinator of a database: a lock of a connection, which the server releases with it.

It saves work and guarantees nothing: a holder whose connection was cut does not learn of it. Coordinators that share a
database use leases, whose epochs do guarantee (`perdure.leases`).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

import msgspec

from perdure.journal import HeldBy
from perdure.journals.postgres.connections import Connection, Options, disconnect, open_connection
from perdure.journals.postgres.errors import is_locked, translate
from perdure.journals.postgres.statements import bind

_LOCK = "1346720324, 5"
_SETTLE_SECONDS = 0.5
"""How long a lock may outlive its release: the server has to notice that the connection is gone."""
_MARK = "perdure holder"


class Hold:
    """A held lock. `release` may be called again."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection

    def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


async def hold(options: Options, greet: Callable[[Connection], Awaitable[None]]) -> Hold | HeldBy:
    """Take the lock, or say which process has it."""
    name = f"{_MARK} {os.getpid()} {socket.gethostname()}"[:63]
    connection = await open_connection(msgspec.structs.replace(options, application_name=name), greet)
    try:
        await connection.execute(f"SET lock_timeout = {round(_SETTLE_SECONDS * 1000)}")
        try:
            await connection.execute(f"SELECT pg_advisory_lock({_LOCK})")
        except Exception as error:
            if not is_locked(error):
                raise
            holder = await _read(connection)
            await disconnect(connection)
            return holder
    except asyncio.CancelledError:
        connection.terminate()
        raise
    except Exception as error:
        connection.terminate()
        raise translate(error, options.name) from error
    return Hold(connection)


async def _read(connection: Connection) -> HeldBy:
    query, _ = bind("find_holder", {})
    words = str(await connection.fetchval(query) or "").removeprefix(_MARK).split()
    pid = int(words[0]) if words and words[0].isdecimal() else 0
    return HeldBy(pid, words[1] if len(words) > 1 else "")
