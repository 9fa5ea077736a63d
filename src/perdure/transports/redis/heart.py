"""Heartbeats: what a worker says of itself, from a thread of its own, over a connection of its own (PROTOCOL 18).

It owns the one connection that is not asynchronous, so that a wedged event loop does not stop it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from perdure.clock import Clock
from perdure.transport import TransportUnavailable, WorkerBeat
from perdure.transports.redis.claims import Claim
from perdure.transports.redis.link import is_wrong_type
from perdure.transports.redis.messages import NOBODY, Messages
from perdure.transports.redis.names import ADOPTED, REGISTRY_SECONDS, Keys, probe
from perdure.transports.redis.reader import text_of
from perdure.transports.redis.scripts import all_scripts
from perdure.transports.redis.server_url import Address

_log = logging.getLogger(__name__)

Command = tuple[str | bytes | float, ...]


class BlockingLink(Protocol):
    """How commands get to the server or servers: `BlockingServerLink` or `BlockingClusterLink`."""

    address: Address

    def execute(self, commands: list[Command]) -> list[Any]:
        """The replies, errors of the server among them. Raises RedisError."""

    def everywhere(self, commands: list[Command]) -> None:
        """Load scripts on every server that keeps data. Raises RedisError."""

    def close(self) -> None: ...


class Heart:
    def __init__(self, link: BlockingLink, keys: Keys, messages: Messages) -> None:
        self._link = link
        self._keys = keys
        self._messages = messages
        self._scripts = all_scripts()

    def beat(self, beat: WorkerBeat, claims: Mapping[str, Claim]) -> tuple[str, ...]:
        """Send a beat. Returns the tasks that should stop: marked ones, and those that are not this worker's own."""
        calls: list[tuple[str, list[str], list[Any]]] = [
            (
                "beat",
                [self._keys.workers_seen, self._keys.workers_beats],
                [beat.worker, self._messages.encode_lines("beat", beat, NOBODY), REGISTRY_SECONDS],
            )
        ]
        asked: dict[str, list[str]] = {}
        for task_id in beat.running:
            claim = claims.get(task_id)
            for queue in beat.queues if claim is None else [claim.queue]:
                asked.setdefault(queue, []).append(task_id)
        for queue, names in asked.items():
            keys = [self._keys.held(queue), self._keys.lanes(queue), self._keys.forgotten(queue)]
            marked = [text for name in names for text in (name, _is_own(claims.get(name), beat.worker))]
            calls.append(("check", keys, [self._keys.lane(queue), ADOPTED, beat.worker, *marked]))
        _, *replies = self._run(calls)
        going_on: set[str] = set()  # one queue in which the task runs by right is enough
        for names, reply in zip(asked.values(), replies, strict=True):
            going_on.update(set(names) - set(map(text_of, reply)))
        return tuple(name for name in beat.running if name not in going_on)

    def close(self) -> None:
        self._link.close()

    def _run(self, calls: list[tuple[str, list[str], list[Any]]]) -> list[Any]:
        commands: list[Command] = [
            ("EVALSHA", self._scripts[name].hash, len(keys), *keys, *arguments) for name, keys, arguments in calls
        ]
        try:
            replies = self._link.execute(commands)
            if any(isinstance(reply, redis.exceptions.NoScriptError) for reply in replies):
                self._load()
                replies = self._link.execute(commands)
            spoilt = [keys for (_, keys, _), reply in zip(calls, replies, strict=True) if is_wrong_type(reply)]
            if spoilt:
                self._clear([key for keys in spoilt for key in keys])
                replies = self._link.execute(commands)
        except redis.RedisError as error:
            raise TransportUnavailable(f"Redis at {self._link.address}: {error}") from error
        for reply in replies:
            if isinstance(reply, Exception):
                raise TransportUnavailable(f"Redis at {self._link.address} answered: {reply}") from reply
        return replies

    def _clear(self, keys: list[str]) -> None:
        """Delete keys of a wrong type, as `Link` does."""
        found = self._link.execute([probe(key) for key in keys])
        wrong = [key for key, reply in zip(keys, found, strict=True) if is_wrong_type(reply)]
        _log.warning(
            "refused: the keys %s have another type than Perdure gives them; they were deleted", ", ".join(wrong)
        )
        self._link.execute([("DEL", key) for key in wrong])

    def _load(self) -> None:
        """Load the scripts. Where this user may not, ask a process that may to load them; the next beat comes soon."""
        try:
            self._link.everywhere([("SCRIPT", "LOAD", script.text) for script in self._scripts.values()])
        except redis.exceptions.NoPermissionError:
            self._link.execute([("PUBLISH", self._keys.wake_scripts, "missing")])


class BlockingServerLink:
    def __init__(self, address: Address, clock: Clock, *, seconds: float, name: str) -> None:
        self.address = address
        self._client = client_of(address, seconds, name)

    def execute(self, commands: list[Command]) -> list[Any]:
        return execute(self._client, commands)

    def everywhere(self, commands: list[Command]) -> None:
        load(self._client, commands)

    def close(self) -> None:
        self._client.close()


def execute(client: redis.Redis, commands: list[Command]) -> list[Any]:
    with client.pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        return list(pipeline.execute(raise_on_error=False))


def load(client: redis.Redis, commands: list[Command]) -> None:
    for reply in execute(client, commands):
        if isinstance(reply, Exception):
            raise reply


def _is_own(claim: Claim | None, worker: str) -> str:
    return "1" if claim is not None and claim.worker == worker else "0"


def client_of(address: Address, seconds: float, name: str) -> redis.Redis:
    options: dict[str, Any] = {
        "db": address.database,
        "username": address.username or None,
        "password": address.password or None,
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "retry": Retry(NoBackoff(), 1),  # a connection that died between two beats is replaced at once
        "client_name": name,
        "protocol": 2,
    }
    if address.path:
        return redis.Redis(unix_socket_path=address.path, **options)
    if address.tls:
        options |= {"ssl": True, "ssl_ca_certs": address.ca_file or None}
    return redis.Redis(host=address.host, port=address.port, **options)
