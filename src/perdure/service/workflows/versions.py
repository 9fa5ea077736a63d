"""Which version a name means: `name`, `name@3`, `name@alias`. An alias may give several versions a share of the starts.

It must not change anything.
"""

from __future__ import annotations

import msgspec

from perdure.archive.aliases import LATEST, choose_version
from perdure.errors import NotFound
from perdure.journal import WorkflowVersion
from perdure.service.tenancy import Tenancy
from perdure.spelling import suggest

MOST_VERSION = 2**31 - 1


class Resolved(msgspec.Struct, frozen=True):
    """A version of a workflow from which a run can be started."""

    name: str
    version: int
    ir: str
    alias: str = ""
    """The alias by which the version was chosen; empty where a number was given."""


async def resolve(tenancy: Tenancy, reference: str, key: str) -> Resolved:
    """The version that a reference means. `key` decides between the versions of a rollout: the same key gets the same
    version until the alias moves."""
    name, _, which = reference.partition("@")
    found = await get_version(tenancy, name, which, key)
    alias = "" if which.isdecimal() else which or LATEST
    return Resolved(found.name, found.version, found.ir_hash, alias)


async def get_version(tenancy: Tenancy, name: str, which: str = "", key: str = "") -> WorkflowVersion:
    """A stored version of a workflow. `which` is a number, an alias, or empty for the highest version."""
    version: int | None = None
    if which.isascii() and which.isdecimal():
        version = int(which) if len(which) <= 10 else MOST_VERSION
    elif which and which != LATEST:
        alias = await tenancy.archive.find_alias(tenancy.tenant, name, which)
        if alias is None:
            known = [one.alias for one in (await tenancy.archive.list_aliases(tenancy.tenant, name)).items]
            raise NotFound(f"workflow {name[:200]} has no alias {which[:80]}; {suggest(which, [*known, LATEST])}")
        version = choose_version(alias, key)
    if version is not None and version > MOST_VERSION:
        version = MOST_VERSION
    found = (
        await tenancy.engine.journal.find_workflow(name, version, tenant=tenancy.tenant) if "\0" not in name else None
    )
    if found is None:
        what = f"workflow {name[:200]}" + (f" version {version}" if version is not None else "")
        raise NotFound(f"there is no {what}; register it first (perdure workflows push FILE, or POST /workflows)")
    return found
