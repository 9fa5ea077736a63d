"""The definitions of a run, as its events name them: the one it began with, and what each patch made of it.

Owns how they are found in a journal. It must not know HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.errors import NotFound
from perdure.journal import RunRecord
from perdure.kernel import events as e
from perdure.service.runs.history import read_stored
from perdure.service.views import View
from perdure.threads import aside

if TYPE_CHECKING:
    from perdure.engine import Engine

_ASIDE_BYTES = 256 * 1024
"""Definitions of more bytes than this are read in a thread."""


async def definition_of(engine: Engine, record: RunRecord, at: int | None) -> View:
    """The definition after event `at`, or now, in its canonical form; null where it is not kept."""
    names, patches = await names_of(engine, record, at)
    try:
        stored = await engine.library.read(f"definition:{names[-1]}")
    except NotFound:
        definition = None
    else:
        definition = await _decode(record.row.tenant, stored)
    return {"run_id": record.run_id, "hash": names[-1], "definition": definition, "patches": patches}


async def names_of(engine: Engine, record: RunRecord, at: int | None = None) -> tuple[list[str], list[View]]:
    """The hashes of the definitions that the run has followed, the present one last, and a view of each patch."""
    last = record.seq if at is None else at
    if last > record.seq:
        raise NotFound(f"run {record.run_id} has {record.seq} events; there is no event {last} yet")
    state = await engine.runs.state_of(record)
    names, patches = state.ir_hashes[:1], []
    if len(state.ir_hashes) > 1:  # a journal may be long, and most runs are never patched
        async for stored in read_stored(engine, record.run_id, last=last):
            if stored.type == "run.patched":
                event = e.decode(stored.body)
                assert isinstance(event, e.RunPatched)
                names.append(event.ir)
                patches.append(_patch_view(event))
                if len(names) == len(state.ir_hashes):
                    break
    return names, patches


def _patch_view(event: e.RunPatched) -> View:
    shown = e.public(event)["data"]
    about = {"seq": event.seq, "at": event.at, "by": event.by, "reason": event.reason, "hash": event.ir}
    return {**about, "patch": shown.get("patch")}


async def _decode(tenant: str, stored: bytes) -> Any:
    return (
        msgspec.json.decode(stored) if len(stored) <= _ASIDE_BYTES else await aside(tenant, msgspec.json.decode, stored)
    )
