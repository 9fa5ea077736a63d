"""The link to a Redis Cluster: one link per server, and every command goes to the master that has the slot of its key.

It owns the map of slots. Where a server says that a slot is elsewhere, or for a moment nowhere, the map is asked for
again and the command is sent again, until `seconds` have passed; nothing that may have been executed is sent twice.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from perdure.clock import Clock
from perdure.transport import TransportUnavailable
from perdure.transports.redis.connection import ConnectionLost, ReplyError
from perdure.transports.redis.link import Call, Link
from perdure.transports.redis.names import Keys
from perdure.transports.redis.server_link import ServerLink
from perdure.transports.redis.server_url import Address
from perdure.transports.redis.slots import SlotMap, key_of, place, read_slots, slot_of

MAP_SECONDS = 15.0
"""How old the map may become without need."""
FIRST_WAIT_SECONDS = 0.01
LONGEST_WAIT_SECONDS = 0.2
REDIRECTED = {"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN"}
"""The first word of an error; a command answered with one of these was not executed."""
UNSERVED = ReplyError("CLUSTERDOWN no server has this slot")

_log = logging.getLogger(__name__)

Command = tuple[str | bytes | float, ...]


class ClusterLink(Link):
    is_cluster = True

    def __init__(self, address: Address, keys: Keys, clock: Clock, *, seconds: float, name: str) -> None:
        super().__init__(address, keys, clock)
        self._seconds = seconds
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._map = SlotMap()
        self._links: dict[Address, ServerLink] = {}
        self._lock = asyncio.Lock()
        self._turn = self._asked = self._placed = int(clock.random() * 1000)
        """Where to begin if any server will do, so that not all processes begin at the same one."""
        self._why = ""
        """Why no server knew the map when it was last asked for; empty if one did."""
        self._following: set[asyncio.Task[None]] = set()

    # sending

    async def connected(self) -> None:
        self.check_open()
        if not self._map.masters:
            await self._refresh(self._map)

    def send(self, *command: str | bytes | float) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        owner = self._owner(command)
        link = self._links.get(owner) if owner is not None else None
        if link is not None and link.is_connected:
            link.send(*command).add_done_callback(functools.partial(self._answered, future, command, link.address))
        else:
            self._spawn(self._deliver(future, command, owner), future)
        return future

    def try_to_start(self, name: str, keys: Sequence[str], arguments: Sequence[str | bytes | float]) -> None:
        if self._map.masters and not self._closed:
            self.start(name, keys, arguments)

    def _owner(self, command: Command) -> Address | None:
        key = key_of(command)
        if key is not None:
            return self._map.owners[slot_of(key)]
        masters = _turned(self._map.masters, self._turn)
        alive = (one for one in masters if one in self._links and self._links[one].is_connected)
        return next(alive, next(iter(masters), None))

    def _answered(
        self, future: asyncio.Future[Any], command: Command, address: Address, sent: asyncio.Future[Any]
    ) -> None:
        reply = sent.result()
        if future.done():
            return
        if isinstance(reply, ReplyError) and _word(reply) in REDIRECTED:
            self._spawn(self._follow(future, command, address, reply), future)
        else:
            self._settle(future, address, reply)

    def _settle(self, future: asyncio.Future[Any], address: Address, reply: Any) -> None:
        if isinstance(reply, ConnectionLost):
            reply = ConnectionLost(f"{address}: {reply}")
        if not future.done():
            future.set_result(reply)

    async def _deliver(self, future: asyncio.Future[Any], command: Command, owner: Address | None) -> None:
        """Send to a server that is not connected yet. If it is away, perhaps another one has the slot by now."""
        if owner is None:
            await self._follow(future, command, self.next_place(), UNSERVED)
            return
        reply = await self._try(future, owner, command)
        if isinstance(reply, TransportUnavailable):
            await self._refresh_if_possible(self._map)
            now = self._owner(command)
            if now is not None and now != owner:
                owner, reply = now, await self._try(future, now, command)
        await self._follow(future, command, owner, reply)

    async def _follow(self, future: asyncio.Future[Any], command: Command, address: Address, reply: Any) -> None:
        """Go where the cluster says, until a server answers or the time is up."""
        end = self._clock.monotonic() + self._seconds
        wait = 0.0
        while isinstance(reply, ReplyError) and (word := _word(reply)) in REDIRECTED:
            if wait:
                await self._clock.sleep(wait)
            if self._clock.monotonic() > end:
                break
            wait = min(max(wait * 2, FIRST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
            if word == "ASK":
                address = place(str(reply).split(" ")[2], address)
            elif word == "MOVED":
                address = place(str(reply).split(" ")[2], address)
                await self._refresh_if_possible(self._map, address)
            else:
                if word != "TRYAGAIN":  # else the slot is moving, and its keys are in two places
                    await self._refresh_if_possible(self._map)
                address = self._owner(command) or address
            reply = await self._try(future, address, command, asking=word == "ASK")
        self._settle(future, address, reply)

    async def _try(
        self, future: asyncio.Future[Any], address: Address, command: Command, *, asking: bool = False
    ) -> Any:
        """The reply or, returned as a result too, the reason why there is none."""
        try:
            link = self._link(address)
            await link.connected()
        except TransportUnavailable as error:
            return error
        if future.done():
            return None  # the caller is gone
        if asking:
            link.send("ASKING")
        return await link.send(*command)

    def _spawn(self, work: Coroutine[Any, Any, None], future: asyncio.Future[Any]) -> None:
        task = self._loop.create_task(work, name="perdure-redis-cluster")
        self._following.add(task)
        task.add_done_callback(functools.partial(self._over, future))

    def _over(self, future: asyncio.Future[Any], task: asyncio.Task[None]) -> None:
        self._following.discard(task)
        error = ConnectionLost("the transport was closed") if task.cancelled() else task.exception()
        if error is not None and not future.done():
            future.set_result(error)

    # calls

    async def run_both(self, first: Sequence[Call], second: Sequence[Call]) -> None:
        await self.run_all(first)
        await self.run_all(second)

    async def call_all(self, commands: Sequence[Sequence[str | bytes | float]]) -> list[Any]:
        """Send wake-ups after the rest has arrived, without waiting: they may take another way than their subject."""
        rest = [number for number, command in enumerate(commands) if command[0] != "PUBLISH"]
        if not rest or len(rest) == len(commands):
            return await super().call_all(commands)
        replies: list[Any] = [None] * len(commands)
        for number, reply in zip(rest, await super().call_all([commands[number] for number in rest]), strict=True):
            replies[number] = reply
        for command in commands:
            if command[0] == "PUBLISH":
                self.send(*command)
        return replies

    async def call_everywhere(self, *command: str | bytes | float) -> dict[Address, Any]:
        await self.connected()
        return {address: await self._link(address).call(*command) for address in self._map.masters}

    def doubt(self, why: str) -> None:
        """Do nothing: the map was asked for again already."""

    async def load(self) -> bool:
        """Load the scripts on every master that can be reached; one that cannot says later that it has none."""
        await self.connected()
        links = [self._link(address) for address in self._map.masters]
        answers = await asyncio.gather(*(link.load() for link in links), return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        for failure in failures:
            if not isinstance(failure, TransportUnavailable) or len(failures) == len(links):
                raise failure
            _log.warning("scripts cannot be loaded everywhere now: %s", failure)
        return False not in answers

    # the map

    async def _refresh_if_possible(self, known: SlotMap, first: Address | None = None) -> None:
        try:
            await self._refresh(known, first)
        except TransportUnavailable as error:
            _log.info("the map of the cluster is not known now: %s", error)

    async def _refresh(self, known: SlotMap, first: Address | None = None) -> None:
        """Ask one server after the other for the map, unless another caller has asked since."""
        if self._why and self._lock.locked():  # it failed and another caller retries; no need to wait for that
            raise TransportUnavailable(self._why)
        async with self._lock:
            if self._map is not known:
                return
            reasons: list[str] = []
            for address in self._candidates(first):
                try:
                    found = read_slots(await self._link(address).call("CLUSTER", "SLOTS"), address)
                except TransportUnavailable as error:
                    reasons.append(str(error))
                    continue
                if found.masters:
                    self._learn(found)
                    return
                reasons.append(f"Redis at {address} knows no server that has slots")
            self.check_open()
            self._why = "; ".join(reasons)
            raise TransportUnavailable(self._why)

    def _candidates(self, first: Address | None) -> list[Address]:
        """The servers to ask: the one just named, then connected ones, beginning with a different one each time."""
        self._asked += 1
        places = _turned(self._places(), self._asked)
        places.sort(key=lambda one: one not in self._links or not self._links[one].is_lively)
        return places if first is None else [first, *(one for one in places if one != first)]

    def _places(self) -> list[Address]:
        return list(dict.fromkeys((*self._map.masters, *self._map.others, *self.address.each())))

    def _learn(self, found: SlotMap) -> None:
        if found.masters != self._map.masters:
            _log.info("the masters of the cluster are %s", ", ".join(map(str, found.masters)))
        self._map = found
        self._why = ""
        known = set(self._places())
        for address in [one for one in self._links if one not in known]:
            self._links.pop(address).doubt("it has left the cluster")

    def _link(self, address: Address) -> ServerLink:
        self.check_open()
        link = self._links.get(address)
        if link is None:
            link = ServerLink(address, self._keys, self._clock, seconds=self._seconds, name=self._name)
            self._links[address] = link
        return link

    # the rest

    @property
    def connected_at(self) -> float:
        return max((link.connected_at for link in self._links.values()), default=0.0)

    def next_place(self) -> Address:
        self._placed += 1
        return _turned(self._map.masters or self.address.each(), self._placed)[0]

    def is_place(self, address: Address) -> bool:
        return address in self._places()

    async def watch(self) -> None:
        """Watch the connections, and ask for the map now and then, so that changes are known before they are needed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look())
            group.create_task(self._ask_now_and_then())

    async def _look(self) -> None:
        while True:
            await self._clock.sleep(self._seconds / 4)
            for link in list(self._links.values()):
                link.look()

    async def _ask_now_and_then(self) -> None:
        while True:
            await self._clock.sleep(MAP_SECONDS)
            await self._refresh_if_possible(self._map)

    def close(self) -> None:
        super().close()
        for link in self._links.values():
            link.close()
        for task in self._following:
            task.cancel()


def _turned(places: Iterable[Address], number: int) -> list[Address]:
    places = list(places)
    number %= max(1, len(places))
    return places[number:] + places[:number]


def _word(reply: ReplyError) -> str:
    return str(reply).partition(" ")[0]
