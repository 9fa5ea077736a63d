"""What a server must be: new enough, and not one that evicts keys by itself. Also whether it is part of a cluster.

It looks once, when a process starts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from perdure.clock import Clock
from perdure.errors import PerdureError, SettingsInvalid
from perdure.transport import TransportUnavailable
from perdure.transports.redis.connection import ReplyError, connect
from perdure.transports.redis.link import Link
from perdure.transports.redis.server_url import Address

_log = logging.getLogger(__name__)

OLDEST = (7, 0)
# The first versions, by minor version, without the hole that lets a script out of its sandbox (CVE-2025-49844).
MENDED = {
    "redis": {(7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
    "valkey": {(7, 2): 11, (8, 0): 6, (8, 1): 4},
}


class ServerTooOld(PerdureError):
    code = "redis_too_old"


async def is_cluster(address: Address, clock: Clock, seconds: float) -> bool:
    """Whether the first server that answers says it is in a cluster; every user may ask `HELLO`. Raises
    `TransportUnavailable`."""
    reasons: list[str] = []
    for place in address.each():
        try:
            connection = await connect(place, clock, seconds, "perdure-start")
        except (OSError, ReplyError) as error:
            reasons.append(f"Redis at {place} cannot be reached: {str(error) or type(error).__name__}")
            continue
        try:
            said = await connection.send("HELLO")
        finally:
            connection.end("asked")
        if isinstance(said, Exception):
            reasons.append(f"Redis at {place} does not say what it is: {said}")
            continue
        answer = dict(zip(said[::2], said[1::2], strict=False)).get(b"mode") == b"cluster"
        if address.others and not answer:
            raise SettingsInvalid(f"the URL of Redis: {place} is not in a cluster, so the URL can name only one server")
        return answer
    raise TransportUnavailable("; ".join(reasons))


async def check(link: Link) -> None:
    """Refuse a server that cannot work, and warn about settings that should be different."""
    try:
        texts = await link.call_everywhere("INFO")
    except TransportUnavailable:
        return  # this user may not ask; if the server is away, the next call says so
    for address, text in texts.items():
        for warning in judge(dict(re.findall(r"^(\w+):(.*?)\r?$", text.decode("utf-8", "replace"), re.MULTILINE))):
            _log.warning("the server at %s %s", address, warning)


def judge(facts: Mapping[str, str]) -> list[str]:
    """Warnings about what should be different. Raises `ServerTooOld`."""
    name = "valkey" if "valkey_version" in facts else "redis"
    version = facts.get(f"{name}_version", "0")
    major, minor, patch = (*map(int, re.findall(r"\d+", version)), 0, 0, 0)[:3]
    if (major, minor) < OLDEST:
        raise ServerTooOld(f"the server is {name} {version}; Perdure needs Redis 7.0 or later, or Valkey")
    warnings = []
    if patch < MENDED[name].get((major, minor), 0) or (major, minor) < min(MENDED[name]):
        warnings.append(f"is {name} {version}, which has known holes in its scripting (CVE-2025-49844): update it")
    policy = facts.get("maxmemory_policy", "noeviction")
    if facts.get("maxmemory", "0") != "0" and policy != "noeviction":
        warnings.append(f"may drop keys when memory is short (maxmemory-policy {policy}): set it to noeviction")
    return warnings
