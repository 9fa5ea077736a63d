"""Which file a version of a workflow came from, and whether another file uses the same name.

Children are started by name, in the highest version (rule 39): two files that give different workflows one name take it
from each other. The file is recorded in the note of the version, which people read.
"""

from __future__ import annotations

from perdure.archive import Archive
from perdure.journal import Journal

_FROM = "from "


def describe_origin(path: str) -> str:
    """The origin of a version as its note records it."""
    return f"{_FROM}{path}"


async def find_namesake(
    journal: Journal, archive: Archive, name: str, version: int, path: str, *, tenant: str = "default"
) -> str | None:
    """A warning if the name was, or now is, that of a workflow from another file than this version."""
    origin = describe_origin(path)
    highest = await journal.find_workflow(name, tenant=tenant)
    if highest is None:
        return None
    taken = highest.version != version
    other = highest.version if taken else version - 1
    notes = await archive.find_notes(tenant, name, {other, version})
    before, own = notes.get(other), notes.get(version)
    if before is None or own is None or not before.reason.startswith(_FROM) or before.reason == origin:
        return None
    if not taken and own.reason != origin:  # the other file has the same definition, and registered it first
        return None
    if taken:
        who = f"workflow '{name}' of {path} is version {version}, and version {other} came {before.reason}"
    else:
        who = f"workflow '{name}' came {before.reason} until now, and is version {version} from {path}"
    newest = "the latter" if taken else "this one"
    return f"{who}: a start by its name gets {newest}; rename one of them"
