"""Heartbeats: what a worker says of itself, from a thread of its own, over a connection of its own (PROTOCOL 18).

It owns the one connection that is not asynchronous. A wedged event loop does not stop it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from weft.transport import TransportUnavailable, WorkerBeat
from weft.transports.redis.address import Address
from weft.transports.redis.claims import Claim
from weft.transports.redis.keys import ADOPTED, REGISTRY_SECONDS, Keys
from weft.transports.redis.messages import NOBODY, Messages
from weft.transports.redis.scripts import all_scripts


class Heart:
    def __init__(self, address: Address, keys: Keys, messages: Messages, *, seconds: float, name: str) -> None:
        self._address = address
        self._keys = keys
        self._messages = messages
        self._scripts = all_scripts()
        self._client = _client(address, seconds, name)

    def beat(self, beat: WorkerBeat, claims: Mapping[str, Claim]) -> tuple[str, ...]:
        """The tasks that should stop: marked ones, and those that are not this worker's own."""
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
        going_on: set[str] = set()  # one queue where it runs by right is enough
        for names, reply in zip(asked.values(), replies, strict=True):
            going_on.update(set(names) - {name.decode() for name in reply})
        return tuple(name for name in beat.running if name not in going_on)

    def close(self) -> None:
        self._client.close()

    def _run(self, calls: list[tuple[str, list[str], list[Any]]]) -> list[Any]:
        try:
            replies = self._execute(calls)
            if any(isinstance(reply, redis.exceptions.NoScriptError) for reply in replies):
                self._load()
                replies = self._execute(calls)
        except redis.RedisError as error:
            raise TransportUnavailable(f"Redis at {self._address}: {error}") from error
        for reply in replies:
            if isinstance(reply, Exception):
                raise TransportUnavailable(f"Redis at {self._address} answered: {reply}") from reply
        return replies

    def _execute(self, calls: list[tuple[str, list[str], list[Any]]]) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipeline:
            for name, keys, arguments in calls:
                command = ("EVALSHA", self._scripts[name].hash, len(keys), *keys, *arguments)
                pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
            return list(pipeline.execute(raise_on_error=False))

    def _load(self) -> None:
        """Where this user may not load scripts, somebody who may is asked to; the next beat comes soon."""
        try:
            for script in self._scripts.values():
                self._client.script_load(script.text)
        except redis.exceptions.NoPermissionError:
            self._client.publish(self._keys.wake_scripts, "missing")


def _is_own(claim: Claim | None, worker: str) -> str:
    return "1" if claim is not None and claim.worker == worker else "0"


def _client(address: Address, seconds: float, name: str) -> redis.Redis:
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
