"""A run as one file, and a run out of such a file.

The file holds the run, its definitions, its events as they are shown everywhere, and the blobs they name. An imported
run is only to look at: its events are the recorded ones, and the first says that it was imported, so that no
coordinator ever executes anything of it. What was masked stays masked. It must not know HTTP, nor where a file is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from perdure.blobs import InvalidBlobRef, parse_ref, ref_of
from perdure.errors import NotFound, PerdureError
from perdure.journal import Accepted, Commit, RunRecord, StoredEvent, partition_of
from perdure.kernel import events as e
from perdure.kernel import segments
from perdure.kernel.evolve import evolve
from perdure.kernel.readings.run_view import about_view, run_view
from perdure.kernel.state import State
from perdure.model.ir import IR
from perdure.runtime.coordinator.projections import row_of
from perdure.service.errors import Invalid, Trouble
from perdure.service.runs.history import last_event_at, read_all
from perdure.service.runs.waiting_runs import is_waiting
from perdure.service.views import View
from perdure.threads import aside

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.service.tenancy import Tenancy

FORMAT = 1
_PIECE = 192 * 1024
"""How many bytes of a blob are encoded in one go; a multiple of three, so that the pieces are one text."""
LATEST = 253_402_300_799.0
"""The end of the year 9999."""


# -- out ---------------------------------------------------------------------------------------------------------------


async def export_run(engine: Engine, record: RunRecord, *, lines: bool = False) -> AsyncGenerator[str, None]:
    """The exported file, piece by piece: one object, or with `lines` one object a line, each with its `kind`. A run
    that cannot be read is refused before the first piece."""
    return _export(engine, record, await engine.runs.state_of(record), lines)


async def _export(engine: Engine, record: RunRecord, state: State, lines: bool) -> AsyncGenerator[str, None]:
    run = run_view(state) | about_view(state)
    run["inputs"] = {} if run["inputs"] is None else run["inputs"]
    run["last_event_at"] = await last_event_at(engine, record.run_id, state.seq)
    run["waiting"] = await is_waiting(engine, record, state)
    if record.quarantined is not None:
        run["quarantined"] = record.quarantined
    definitions = [await _definition(engine, name) for name in dict.fromkeys(state.ir_hashes)]
    if lines:
        yield _text({"kind": "run", "format": FORMAT, **run}) + "\n"
        for definition in definitions:
            yield _text({"kind": "definition", **definition}) + "\n"
    else:
        yield f'{{"format":{FORMAT},"run":{_text(run)},"definitions":{_text(definitions)},"events":['
    refs: dict[str, None] = {}
    begun = False
    async for event in read_all(engine, record.run_id, record.seq):
        refs |= dict.fromkeys(sorted(e.refs_of(event)))
        shown = e.public(event)
        yield _text({"kind": "event", **shown}) + "\n" if lines else f"{',' * begun}\n{_text(shown)}"
        begun = True
    if not lines:
        yield '],"blobs":['
    begun = False
    async for ref, blob in _blobs(engine, state.tenant, list(refs)):
        yield '{"kind":"blob",' if lines else f"{',' * begun}\n{{"
        if isinstance(blob, bytes):
            yield f'"ref":{_text(ref)},"data":"'
            for start in range(0, len(blob), _PIECE):
                yield base64.b64encode(memoryview(blob)[start : start + _PIECE]).decode()
                await engine.clock.sleep(0)  # takes no time, and lets other tasks of the loop run
            yield '"}'
        else:
            yield _text({"ref": ref, "data": None, "problem": blob.message})[1:]
        yield "\n" * lines
        begun = True
    if not lines:
        yield "]}\n"


async def _definition(engine: Engine, ir_hash: str) -> View:
    """A definition of the run in its canonical form, if it was stored."""
    try:
        stored = await engine.library.read(f"definition:{ir_hash}")
    except NotFound:
        return {"hash": ir_hash, "definition": None}
    return {"hash": ir_hash, "definition": msgspec.json.decode(stored)}


async def _blobs(engine: Engine, tenant: str, refs: list[str]) -> AsyncIterator[tuple[str, bytes | PerdureError]]:
    """Each blob once, and those that it names in turn; an error for one that cannot be had."""
    seen = set(refs)
    while refs:
        ref = refs.pop(0)
        try:
            data = await engine.contents.blobs.get(tenant, ref)
        except PerdureError as error:  # the rest of the file is worth having without this blob
            yield ref, error
            continue
        yield ref, data
        if parse_ref(ref)[1]:
            named = await aside(tenant, _find_named, data) - seen
            seen |= named
            refs.extend(sorted(named))


def _find_named(data: bytes) -> set[str]:
    return set(segments.find_refs(segments.decode(data, True)))


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# -- in ----------------------------------------------------------------------------------------------------------------


class _Definition(msgspec.Struct, frozen=True, kw_only=True):
    hash: str
    definition: dict[str, Any] | None


class _Blob(msgspec.Struct, frozen=True, kw_only=True):
    ref: str
    data: str | None
    problem: str = ""


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as `export_run` writes it. Fields may be added to it later."""

    format: Literal[1]
    run: dict[str, Any]
    definitions: list[_Definition]
    events: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1)]
    blobs: list[_Blob] = []


class Transfer:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._engine = tenancy.engine

    async def read(self, data: Any) -> View:
        """Make a run out of a file, under a new id."""
        try:
            file = msgspec.convert(data, RunFile)
        except msgspec.ValidationError as error:
            raise _refuse("", str(error)) from None
        for number, blob in enumerate(file.blobs):
            await self._keep_blob(number, blob)
        library = {one.hash: await self._keep(number, one) for number, one in enumerate(file.definitions)}
        run_id = self._engine.clock.new_id()
        before, events, stored, state = await aside(self._tenancy.tenant, self._make, file, run_id, library)
        row = row_of(state, partition_of(run_id, self._engine.journal.partition_count))
        commit = Commit(
            run_id=run_id,
            expected_seq=0,
            commit_id=self._engine.clock.new_id(),
            row=msgspec.structs.replace(row, busy=False),
            events=stored,
        )
        (answer,) = await self._engine.journal.append([commit])
        assert isinstance(answer, Accepted), answer
        # Crash here: the run is stored and not quarantined. Its first event says that it was imported, so no coordinator
        # takes it up.
        await self._engine.journal.mark_quarantined(run_id, f"imported from {before}: to look at, not to run")
        return {
            "run_id": run_id,
            "workflow": state.workflow,
            "version": state.workflow_version,
            "state": state.state.value,
            "events": len(events),
            "imported_from": before,
        }

    async def _keep_blob(self, number: int, blob: _Blob) -> None:
        if blob.data is None:
            return
        try:
            data = base64.b64decode(blob.data, validate=True)
            digest, refs = parse_ref(blob.ref)
        except (binascii.Error, ValueError, InvalidBlobRef):
            raise _refuse(f"blobs[{number}]", "expected a reference and its content as base64") from None
        if ref_of(data, refs=refs) != f"cas://sha256:{digest}{'+refs' if refs else ''}":
            raise _refuse(f"blobs[{number}]", "the content is not what the reference names")
        await self._engine.contents.blobs.put(self._tenancy.tenant, data)

    async def _keep(self, number: int, one: _Definition) -> IR:
        if one.definition is None:
            raise _refuse(f"definitions[{number}]", "the definition was not kept when the run was exported")
        compiled = await self._engine.workflows.checker.check_data(
            one.definition, tenant=self._tenancy.tenant, budget=self._tenancy.budget
        )
        if compiled.get_ir().hash != one.hash:
            raise _refuse(f"definitions[{number}]", f"it is not the definition {one.hash}; another Perdure compiled it")
        return await self._engine.workflows.keep(compiled, tenant=self._tenancy.tenant, checked=True)

    def _make(
        self, file: RunFile, run_id: str, library: dict[str, IR]
    ) -> tuple[str, list[e.AnyEvent], tuple[StoredEvent, ...], State]:
        """Build the imported run, in a thread: thousands of events take their time, and nothing is shared yet."""
        before, events = self._rebuild(file, run_id)
        state = _fold(run_id, events, library)
        stored = tuple(StoredEvent(one.seq, one.type, one.at, e.encode(one)) for one in events)
        return before, events, stored, state

    def _rebuild(self, file: RunFile, run_id: str) -> tuple[str, list[e.AnyEvent]]:
        """The original id of the run, and its events as they were written, under a new id and in this tenant."""
        events: list[e.AnyEvent] = []
        before = ""
        for number, shown in enumerate(file.events):
            data = shown.get("data")
            fields = {**shown, **(data if isinstance(data, dict) else {})}
            fields.pop("data" if data is fields.get("data") else "", None)
            fields.pop("refs", None)
            try:
                event = e.decode(msgspec.json.encode(fields))
            except e.UnknownEvent as error:
                raise _refuse(f"events[{number}]", str(error)[:300]) from None
            if wrong := _find_wrong_time(event):
                raise _refuse(f"events[{number}]", f"{wrong} is not a valid time")
            if isinstance(event, e.RunCreated):
                before = event.run_id
                event = msgspec.structs.replace(
                    event,
                    run_id=run_id,
                    tenant=self._tenancy.tenant,
                    parent=None,
                    sealed_for="",
                    imported=before or "a file",
                )
            events.append(event)
        return before, events


def _find_wrong_time(event: e.Event) -> str | None:
    """The field with an impossible time, if any: one time that cannot be shown would hide everything beside it."""
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if (name == "at" or name.endswith("_at")) and value is not None and not 0 <= value <= LATEST:
            return name
    return None


def _fold(run_id: str, events: list[e.AnyEvent], library: dict[str, IR]) -> State:
    state = State(run_id=run_id)
    state.library.update(library)
    for number, event in enumerate(events):
        try:
            evolve(state, event)
        except Exception as error:  # noqa: BLE001  the file may come from anywhere, and fail in any way
            raise _refuse(f"events[{number}]", f"it does not follow from those before it: {error!r}"[:300]) from None
    return state


def _refuse(path: str, message: str) -> Invalid:
    where = f"{path}: " if path else ""
    return Invalid(f"the file is not an exported run: {where}{message}", [Trouble(path, "wrong_value", message)])
