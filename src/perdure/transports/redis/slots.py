"""Slots of a Redis Cluster: which slot a key is in, and which server has it. It opens nothing."""

from __future__ import annotations

import binascii
import functools
from typing import Any

import msgspec

from perdure.transports.redis.server_url import Address

SLOTS = 16384


@functools.lru_cache(maxsize=10_000)
def slot_of(key: str | bytes) -> int:
    """The slot of a key: by what stands in its first braces, if anything does; otherwise by the whole key."""
    name = key.encode() if isinstance(key, str) else key
    _, brace, rest = name.partition(b"{")
    tag, end, _ = rest.partition(b"}")
    return binascii.crc_hqx(tag if brace and end and tag else name, 0) % SLOTS


def key_of(command: tuple[str | bytes | float, ...]) -> str | bytes | None:
    """The first key of a command that Perdure uses; None if any server will do."""
    if command[0] == "EVALSHA":
        key = command[3]
    elif command[0] in {"PUBLISH", "PING", "INFO"}:
        return None
    else:
        key = command[1]
    assert isinstance(key, str | bytes)
    return key


class SlotMap(msgspec.Struct, frozen=True):
    """Which server has which slots, as one server of the cluster sees it."""

    masters: tuple[Address, ...] = ()
    """The servers that have slots."""
    others: tuple[Address, ...] = ()
    """Replicas: they keep nothing of their own, but know the map and hear what is published."""
    owners: tuple[Address | None, ...] = (None,) * SLOTS
    """The owner of each slot; None where no server has it now."""


def read_slots(reply: Any, asked: Address) -> SlotMap:
    """The map in the answer to `CLUSTER SLOTS`. A server that does not know its own address is where it was asked."""
    ranges: list[tuple[int, int, Address]] = []
    others: dict[Address, None] = {}
    for first, last, master, *replicas in reply:
        owner = _address(master, asked)
        if owner is not None:
            ranges.append((first, last, owner))
        others |= {found: None for replica in replicas if (found := _address(replica, asked)) is not None}
    owners: list[Address | None] = [None] * SLOTS
    for first, last, owner in ranges:
        owners[first : last + 1] = [owner] * (last + 1 - first)
    masters = dict.fromkeys(owner for _, _, owner in ranges)
    return SlotMap(tuple(masters), tuple(one for one in others if one not in masters), tuple(owners))


def place(text: str, asked: Address) -> Address:
    """The address in `host:port`, as in MOVED and ASK; a missing host is that of the server that said so."""
    host, _, port = text.rpartition(":")
    return asked.at(host, int(port))


def _address(node: Any, asked: Address) -> Address | None:
    host, port = node[0], node[1]
    if host == b"?":
        return None  # its name is not known yet
    return asked.at("" if host is None else host.decode(), port)
