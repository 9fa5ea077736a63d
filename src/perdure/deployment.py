"""From URLs to adapters: the journal, the blob store, the transport and the keys that the settings name.

Embedded is a SQLite file, or a PostgreSQL database that one process holds; distributed is PostgreSQL with Redis, and
any number of processes. Only this file and `engine` know which adapters there are.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.blob_stores.store_url import open_store
from perdure.blobs import BlobStore
from perdure.clock import Clock
from perdure.errors import PerdureError, SettingsInvalid
from perdure.journal import Journal
from perdure.journals.sqlite import SqliteJournal
from perdure.limits import Bounds, read_queue_limits
from perdure.runtime.coordinator.library import database_identity
from perdure.secrets.keyring import open_file
from perdure.secrets.keyring import parse as parse_keys
from perdure.secrets.providers import open_secrets
from perdure.secrets.vault import Vault
from perdure.settings import Settings, read_secrets
from perdure.transports.envelopes import Keyring

if TYPE_CHECKING:
    from perdure.transports.redis import RedisTransport

POSTGRES = ("postgresql", "postgres")


def is_postgres(url: str) -> bool:
    return url.partition(":")[0] in POSTGRES


def database_file(url: str) -> Path:
    """The file of a SQLite URL: `sqlite:///perdure.db` is relative, `sqlite:////var/perdure.db` absolute."""
    scheme, _, path = url.partition(":///")
    if scheme != "sqlite" or not path:
        raise PerdureError(f"database {scheme}:…: expected sqlite:///path or postgresql://…")
    return Path(path)


def keys_file(url: str) -> Path:
    """The file with the keys of sensitive fields, unless the settings contain the keys."""
    if is_postgres(url):
        return Path(".perdure/perdure.keys")
    file = database_file(url)
    return file.with_name(file.name + ".keys")


def handled_file(url: str) -> Path:
    """The file where a process records which run it is handling, for the next process to read."""
    return keys_file(url).with_suffix(".handled")


def blob_url_of(database_url: str, blob_url: str) -> str:
    """The URL of the blob store: the one in the settings, otherwise a folder beside the database file."""
    if blob_url:
        return blob_url
    scheme, _, path = database_url.partition(":///")
    return f"file:{path}.blobs" if scheme == "sqlite" and path else "file:.perdure/blobs"


def open_vault(settings: Settings) -> Vault:
    """The vault with the secrets and keys that the settings name: by default, secrets from the environment and keys
    from the file beside the database."""
    secrets = open_secrets(read_secrets(), settings.secrets_file, settings.secrets_provider)
    signer = signing_keyring(settings.signing_keys)
    if settings.encryption_keys:
        where = settings.sources.get("encryption_keys", "encryption_keys")
        return Vault(secrets, partial(parse_keys, settings.encryption_keys, where), signer)
    return Vault(secrets, partial(open_file, keys_file(settings.database_url)), signer)


def bounds_of(settings: Settings) -> Bounds:
    queues = read_queue_limits(settings.queue_limits, settings.sources.get("queue_limits", "queue_limits"))
    return Bounds(queues, settings.max_backlog, settings.sandbox_memory_mb, settings.most_nodes)


async def open_journal(url: str, clock: Clock, **options: Any) -> Journal:
    if not is_postgres(url):
        return await SqliteJournal.open(database_file(url), clock=clock)
    from perdure.journals.postgres import open_postgres  # imported late: most processes do not need it

    return await open_postgres(url, clock=clock, **options)


async def migrate(url: str, *, partitions: int) -> list[int]:
    """Bring a PostgreSQL database to the schema of this version, and return the numbers of the migrations applied."""
    from perdure.journals.postgres import migrate_postgres

    return await migrate_postgres(url, partitions=partitions)


async def raise_incarnation(url: str, clock: Clock, by: int) -> int:
    """The incarnation of a database, raised by so many: what processes remember of a lower one is refused."""
    journal = await open_journal(url, clock)
    try:
        return await (journal.raise_incarnation(by) if by else journal.incarnation())
    finally:
        await journal.close()


def open_blobs(journal: Journal, database_url: str, blob_url: str, clock: Clock) -> BlobStore:
    return open_store(
        blob_url_of(database_url, blob_url), clock=clock, owner=partial(database_identity, journal, clock)
    )


def signing_keyring(keys: str, where: str = "signing_keys") -> Keyring | None:
    """The keys that sign messages, from `id:base64,…`: the first one signs, all of them verify. None: messages are not
    signed."""
    if keys in ("", "none"):
        return None
    ring = parse_keys(keys, where)
    return Keyring({name: ring.key(name) for name in ring.ids})


async def open_transport(settings: Settings, journal: Journal, clock: Clock) -> RedisTransport:
    try:
        from perdure.transports.redis import open_redis
    except ImportError as error:
        raise SettingsInvalid(f"Redis needs a client: install perdure[redis] ({error})") from error
    return await open_redis(
        settings.redis_url,
        prefix=settings.redis_prefix,
        partition_count=journal.partition_count,
        keyring=signing_keyring(settings.signing_keys),
        clock=clock,
        tempo=settings.tempo,
        durable_checkpoints=True,
    )
