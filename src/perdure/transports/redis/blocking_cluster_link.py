"""The heart's way into a cluster: a blocking connection per master, with a map of its own.

It shares nothing with the link of the event loop, so that a wedged loop does not stop it. A command that was perhaps
executed is sent again: everything a heart says may be said twice.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import redis

from perdure.clock import Clock
from perdure.transports.redis.heart import Command, client_of, execute, load
from perdure.transports.redis.server_url import Address
from perdure.transports.redis.slots import SlotMap, key_of, place, read_slots, slot_of

PAUSE_SECONDS = 0.05

_ELSEWHERE = (
    redis.exceptions.MovedError,
    redis.exceptions.TryAgainError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.MasterDownError,
    redis.exceptions.BusyLoadingError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
)


class BlockingClusterLink:
    def __init__(self, address: Address, clock: Clock, *, seconds: float, name: str) -> None:
        self.address = address
        self._clock = clock
        self._seconds = seconds
        self._name = name
        self._map = SlotMap()
        self._clients: dict[Address, redis.Redis] = {}
        self._away: set[Address] = set()
        """Servers that did not answer: they are asked for the map last."""
        self._closed = threading.Event()

    def execute(self, commands: list[Command]) -> list[Any]:
        end = self._clock.monotonic() + self._seconds
        replies: list[Any] = [None] * len(commands)
        left = list(range(len(commands)))
        if not self._map.masters:
            self._refresh()
        while True:
            for owner, numbers in self._by_owner(commands, left).items():
                answers = self._try(owner, [commands[number] for number in numbers])
                for number, answer in zip(numbers, answers, strict=True):
                    replies[number] = answer
            left = [number for number in left if isinstance(replies[number], _ELSEWHERE)]
            if not left or self._closed.is_set() or self._clock.monotonic() > end:
                return replies
            self._closed.wait(PAUSE_SECONDS)
            self._refresh()

    def everywhere(self, commands: list[Command]) -> None:
        """Load scripts on every master. One that is away gets them later: it will say that it has none."""
        for master in self._map.masters:
            with contextlib.suppress(redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
                load(self._client(master), commands)

    def close(self) -> None:
        self._closed.set()
        for client in list(self._clients.values()):
            client.close()

    def _by_owner(self, commands: list[Command], numbers: list[int]) -> dict[Address | None, list[int]]:
        found: dict[Address | None, list[int]] = {}
        for number in numbers:
            key = key_of(commands[number])
            owner = self._map.masters[0] if key is None else self._map.owners[slot_of(key)]
            found.setdefault(owner, []).append(number)
        return found

    def _try(self, owner: Address | None, commands: list[Command]) -> list[Any]:
        """The replies, or the same error for each command."""
        if owner is None:
            return [redis.exceptions.ClusterDownError("no server has this slot")] * len(commands)
        try:
            replies = execute(self._client(owner), commands)
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError) as error:
            self._away.add(owner)
            return [error] * len(commands)
        return [
            self._ask(owner, reply, command) if _is_ask(reply) else reply
            for command, reply in zip(commands, replies, strict=True)
        ]

    def _ask(self, owner: Address, said: redis.exceptions.AskError, command: Command) -> Any:
        """Send the command to the server it is redirected to: the slot is moving, and this key is there already."""
        client = self._client(place(f"{said.host}:{said.port}", owner))
        try:
            return execute(client, [("ASKING",), command])[1]
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError) as error:
            return error

    def _refresh(self) -> None:
        """Ask for the map. Raises RedisError if no server knows it."""
        failure: Exception = redis.exceptions.ClusterDownError("no server knows who has the slots")
        places = dict.fromkeys((*self._map.masters, *self._map.others, *self.address.each()))
        for address in sorted(places, key=lambda one: one in self._away):
            try:
                [reply] = execute(self._client(address), [("CLUSTER", "SLOTS")])
            except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError) as error:
                failure = error
                continue
            if isinstance(reply, Exception):
                failure = reply
                continue
            found = read_slots(reply, address)
            if found.masters:
                self._learn(found)
                return
        raise failure

    def _learn(self, found: SlotMap) -> None:
        self._map = found
        self._away.clear()
        known = {*found.masters, *found.others, *self.address.each()}
        for address in [one for one in self._clients if one not in known]:
            self._clients.pop(address).close()

    def _client(self, address: Address) -> redis.Redis:
        client = self._clients.get(address)
        if client is None:
            client = self._clients[address] = client_of(address, self._seconds, self._name)
        return client


def _is_ask(reply: Any) -> bool:
    """The library makes the error for ASK a base of the one for MOVED."""
    return isinstance(reply, redis.exceptions.AskError) and not isinstance(reply, redis.exceptions.MovedError)
