"""The journal in PostgreSQL: the distributed engine's. The driver is imported when a journal is opened, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.capacity import PARTITIONS
from perdure.clock import Clock, system
from perdure.errors import SettingsInvalid

if TYPE_CHECKING:
    from perdure.journals.postgres.journal import PostgresJournal

__all__ = ["migrate_postgres", "open_postgres"]


async def open_postgres(
    url: str,
    *,
    clock: Clock = system,
    readers: int = 4,
    writers: int = 2,
    queue_limit: int = 4096,
    **options: Any,
) -> PostgresJournal:
    """The journal in the database of a `postgresql://` URL, which `migrate_postgres` has prepared.

    It uses at most `readers` + `writers` connections, and one more while it is held. `options` are those of
    `perdure.journals.postgres.connections.Options`: `connect_seconds`, `statement_seconds`, `lock_seconds`, `require_durable`.
    """
    _check_driver()
    from perdure.journals.postgres.connections import Options
    from perdure.journals.postgres.journal import PostgresJournal

    journal = PostgresJournal(
        Options(url=url, **options), clock, readers=readers, writers=writers, queue_limit=queue_limit
    )
    try:
        await journal.incarnation()
    except BaseException:
        await journal.close()
        raise
    return journal


async def migrate_postgres(url: str, *, partitions: int = PARTITIONS, **options: Any) -> list[int]:
    """Bring the database to the schema this program knows. Returns the numbers of the migrations that were applied.

    `partitions` counts only for a new database; it is fixed from then on.
    """
    _check_driver()
    from perdure.journals.postgres import schema
    from perdure.journals.postgres.connections import Options

    return await schema.migrate(
        Options(url=url, **{"lock_seconds": 60.0, "statement_seconds": 3600.0} | options), partitions
    )


def _check_driver() -> None:
    try:
        import asyncpg  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise SettingsInvalid(f"PostgreSQL needs a driver: install perdure[postgres] ({error})") from error
