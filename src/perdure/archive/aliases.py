"""Versions of a workflow: who registered each, and the names that stand for one, or for several by percentage.

The two rules that every adapter shares are here: what a valid alias is, and which version it means for a given key.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from perdure.errors import PerdureError

LATEST = "latest"
"""The alias that moves by itself: the highest version. It is never stored."""

_ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_BUCKETS = 10_000


class InvalidAlias(PerdureError):
    code = "invalid_alias"
    status = 422


class VersionNote(msgspec.Struct, frozen=True, kw_only=True):
    """Who registered a version, when and why."""

    tenant: str
    workflow: str
    version: int
    by: str
    at: float
    reason: str = ""


class Share(msgspec.Struct, frozen=True):
    """A version and the percentage of starts that get it."""

    version: int
    percent: float = 100.0


class Alias(msgspec.Struct, frozen=True, kw_only=True):
    """A name for a version, or for several by percentage. The first gets the lowest buckets, so raising its percentage
    moves no key away from it."""

    tenant: str
    workflow: str
    alias: str
    shares: tuple[Share, ...]
    revision: int = 0
    """1 for the first place the alias pointed to, one more for each move. Given by the archive."""
    by: str
    at: float
    reason: str = ""


def check_alias(alias: Alias) -> None:
    """Refuse an invalid alias, naming everything that is wrong with it."""
    problems = []
    if alias.alias == LATEST:
        problems.append("'latest' moves by itself; choose another name")
    elif not _ALIAS.fullmatch(alias.alias):
        problems.append("its name must begin with a letter and hold letters, digits, '.', '_' and '-', at most 64")
    versions = [share.version for share in alias.shares]
    if not versions:
        problems.append("it points to no version")
    if len(set(versions)) != len(versions):
        problems.append("it names a version twice")
    if any(not 0 < share.percent <= 100 for share in alias.shares):
        problems.append("each percentage must be above 0 and at most 100")
    elif versions and abs(sum(share.percent for share in alias.shares) - 100) > 1e-6:
        problems.append(f"its percentages sum to {sum(share.percent for share in alias.shares):g}, not to 100")
    if problems:
        raise InvalidAlias(f"alias {alias.alias[:80]!r} of workflow {alias.workflow}: {'; '.join(problems)}")


def choose_version(alias: Alias, key: str) -> int:
    """The version for this key (a run id, a customer, …): always the same until the alias moves."""
    digest = hashlib.sha256(f"{alias.tenant}\0{alias.workflow}\0{alias.alias}\0{key}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") % _BUCKETS * 100 / _BUCKETS
    reached = 0.0
    for share in alias.shares:
        reached += share.percent
        if place < reached:
            return share.version
    return alias.shares[-1].version
