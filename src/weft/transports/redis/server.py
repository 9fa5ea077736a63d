"""What a server must be: new enough, and not one that forgets keys by itself. It looks, once, when a process starts."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from weft.errors import WeftError
from weft.transport import TransportUnavailable
from weft.transports.redis.link import Link

_log = logging.getLogger(__name__)

OLDEST = (7, 0)
# The first versions, by minor version, without the hole that lets a script out of its sandbox (CVE-2025-49844).
MENDED = {
    "redis": {(7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
    "valkey": {(7, 2): 11, (8, 0): 6, (8, 1): 4},
}


class ServerTooOld(WeftError):
    code = "redis_too_old"


async def check(link: Link) -> None:
    """Refuse what cannot work, warn about what should be otherwise, and learn whether it is a cluster."""
    try:
        text = (await link.call("INFO")).decode()
    except TransportUnavailable:
        return  # this user may not ask; if the server is away, the next call says so
    facts = dict(re.findall(r"^(\w+):(.*?)\r?$", text, re.MULTILINE))
    link.is_cluster = facts.get("cluster_enabled") != "0"
    for warning in judge(facts):
        _log.warning("the server at %s %s", link.address, warning)


def judge(facts: Mapping[str, str]) -> list[str]:
    """What should be otherwise. Raises `ServerTooOld`."""
    name = "valkey" if "valkey_version" in facts else "redis"
    version = facts.get(f"{name}_version", "0")
    major, minor, patch = (*map(int, re.findall(r"\d+", version)), 0, 0, 0)[:3]
    if (major, minor) < OLDEST:
        raise ServerTooOld(f"the server is {name} {version}; Weft needs Redis 7.0 or later, or Valkey")
    warnings = []
    if patch < MENDED[name].get((major, minor), 0) or (major, minor) < min(MENDED[name]):
        warnings.append(f"is {name} {version}, which has known holes in its scripting (CVE-2025-49844): update it")
    policy = facts.get("maxmemory_policy", "noeviction")
    if facts.get("maxmemory", "0") != "0" and policy != "noeviction":
        warnings.append(f"may drop keys when memory is short (maxmemory-policy {policy}): set it to noeviction")
    return warnings
