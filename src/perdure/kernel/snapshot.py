"""A state as bytes and back, so that a cold run need not be folded from its first event (PROTOCOL 5).

Snapshots are versioned and may always be thrown away: the journal is the truth. Equal states give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from perdure.kernel.causal_past import may_wait
from perdure.kernel.lifecycle import IntegrityError, N, NodeState
from perdure.kernel.segments import BlobRef
from perdure.kernel.signal_lines import join, waits
from perdure.kernel.state import Activation, Approval, Key, Line, LoopRun, State, Timer
from perdure.kernel.triggers.mailbox import sort
from perdure.kernel.values import Asked
from perdure.model.garbage import no_collection
from perdure.model.ir import IR
from perdure.model.rebase import rebase

SNAPSHOT_VERSION = 24
PIECE = 2_000
"""The activations that are encoded in one step: a millisecond, without their values."""

T = TypeVar("T")

_PLAIN = (
    "run_id",
    "workflow",
    "workflow_version",
    "tenant",
    "tags",
    "inputs",
    "parent",
    "origin",
    "overrides",
    "depth",
    "pauses",
    "orphaned",
    "submitted_by",
    "alias",
    "correlation_id",
    "sealed_for",
    "asked_by",
    "imported",
    "state",
    "generation",
    "seq",
    "tokens",
    "open",
    "undoing",
    "created_at",
    "started_at",
    "ended_at",
    "deadline_seconds",
    "deadline_at",
    "error",
    "failed_node",
    "outputs",
    "outputs_ref",
    "continued_as",
    "ending",
    "by",
    "bytes",
    "kept",
    "patching",
    "signals",
    "signals_seen",
    "heard",
    "heard_since",
    "children",
    "undoable",
    "plan",
    "trigger",
    "triggers",
    "money",
    "lent",
    "streams",
    "ir_hashes",
)


class Snapshot(msgspec.Struct, kw_only=True):
    version: int
    plain: dict[str, Any]
    tally: list[tuple[NodeState, int]]
    activations: list[Activation]
    loops: list[LoopRun]
    entered: list[tuple[int, int, tuple[int, ...], int, int]]
    visits: list[tuple[int, int]]
    timers: dict[str, Timer]
    approvals: dict[str, Approval]
    signal_waits: dict[str, list[tuple[Key, str]]]
    """Who waits for each signal: an activation, and the ask of it that does, if it is one."""


def encode(state: State) -> bytes:
    steps = encoding(state)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            body: bytes = done.value
            return body


def encoding(state: State) -> Generator[None, None, bytes]:
    """The same in steps, for states so large that all at once takes too long; the state must not change meanwhile."""
    order: list[tuple[int, tuple[int, ...], int, Activation]] = []
    for some in _in_pieces(list(state.activations.values())):
        with no_collection():
            for activation in some:
                if len(activation.edges) > 1:
                    activation.edges = dict(sorted(activation.edges.items()))
            order += sorted([(one.node, one.scope, one.item, one) for one in some])
        yield
    with no_collection():
        order.sort()  # of pieces that are sorted, it takes little
    yield
    pieces = [_map_head(len(_FIELDS))]
    for name, find in _FIELDS.items():
        if name == "activations":
            pieces += [_ACTIVATIONS, _list_head(len(order))]
            for part in _in_pieces(order):
                with no_collection():
                    pieces.append(_encoder.encode([one for *_, one in part])[len(_list_head(len(part))) :])
                yield
            continue
        with no_collection():
            pieces += [_encoder.encode(name), _encoder.encode(find(state))]
        yield
    return b"".join(pieces)


def _in_pieces(whole: list[T]) -> Iterator[list[T]]:
    for start in range(0, len(whole), PIECE):
        yield whole[start : start + PIECE]


def _map_head(count: int) -> bytes:
    return bytes((0x80 | count,))


def _list_head(count: int) -> bytes:
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


_FIELDS: dict[str, Callable[[State], Any]] = {
    "version": lambda state: SNAPSHOT_VERSION,
    "plain": lambda state: {name: _plain_value(state, name) for name in _PLAIN},
    "tally": lambda state: sorted((name, count) for name, count in state.tally.items() if count),
    "activations": lambda state: list(state.activations.values()),
    "loops": lambda state: sorted(state.loops.values(), key=attrgetter("loop", "scope")),
    "entered": lambda state: sorted((*key, *value) for key, value in state.entered.items()),
    "visits": lambda state: sorted(state.visits.items()),
    "timers": lambda state: dict(sorted(state.timers.items())),
    "approvals": lambda state: dict(sorted(state.approvals.items())),
    "signal_waits": lambda state: {name: _keys(state, line) for name, line in sorted(state.signal_waits.items())},
}
"""How each field of a `Snapshot` is found, fewer than sixteen."""


def _keys(state: State, line: Line) -> list[tuple[Key, str]]:
    entries = [entry for entry in line.entries[line.head :] if waits(state, entry)]
    return [(key, wait.name if type(wait) is Asked else "") for key, wait in entries]


_SORTED = ("tags", "pauses", "signals_seen", "heard", "children", "lent", "streams")


def _plain_value(state: State, name: str) -> Any:
    value = getattr(state, name)
    if name == "money":
        return msgspec.structs.replace(value, models=dict(sorted(value.models.items())))
    if name == "triggers":
        return {node: sort(box) for node, box in sorted(value.items())}
    return dict(sorted(value.items())) if name in _SORTED else value


@no_collection()
def decode(data: bytes, library: dict[str, IR]) -> State | None:
    """The state, or None when another version of Perdure wrote the snapshot: fold the journal instead.

    The decoder lets no other thread have its turn, and three quarters of its time were the collector's.
    """
    try:
        if _probe.decode(data).version != SNAPSHOT_VERSION:
            return None
        snapshot = _decoder.decode(data)
        plain = _plain.decode(_encoder.encode(snapshot.plain))
    except msgspec.MsgspecError:
        return None
    state = State(
        **{name: getattr(plain, name) for name in _PLAIN if name != "signals"},
        tally=dict(snapshot.tally),
        activations={a.key: a for a in snapshot.activations},
        loops={(run.loop, run.scope): run for run in snapshot.loops},
        entered={(source, target, scope): (status, hop) for source, target, scope, status, hop in snapshot.entered},
        visits=dict(snapshot.visits),
        timers=snapshot.timers,
        approvals=snapshot.approvals,
        library=library,
    )
    for seq, signal, payload in plain.signals:
        join(state, state.unconsumed, signal, (seq, payload))
    state.unconsumed_count = len(plain.signals)
    for signal, keys in snapshot.signal_waits.items():
        for key, ask in keys:
            activation = state.activations[key]
            join(state, state.signal_waits, signal, (key, activation.asks[ask] if ask else activation.wait))
    for name in state.ir_hashes:
        if name not in library:
            raise IntegrityError(f"run {state.run_id}: its IR {name} is not at hand")
        state.irs.append(rebase(library[name], *state.irs) if state.irs else library[name])
    state.short = {a.key: None for a in snapshot.activations if a.wants is not None}
    state.streaming = any(ir.streams for ir in state.irs)
    held = (a for a in snapshot.activations if a.state is N.HELD and a.reason == "stream")
    state.unfed = {activation.key: None for activation in held}
    if state.generation > 1:
        state.loose = {key: None for key, activation in state.activations.items() if may_wait(activation)}
    return state


def hashes(data: bytes) -> list[str]:
    """The IRs a snapshot needs, by hash; empty when it cannot be read."""
    try:
        return [str(name) for name in _probe.decode(data).plain.get("ir_hashes", ())]
    except msgspec.MsgspecError:
        return []


class _Version(msgspec.Struct):
    version: int
    plain: dict[str, Any] = {}


_types = {field.name: field.type for field in msgspec.structs.fields(State)} | {"signals": list[tuple[int, str, Any]]}
_Plain = msgspec.defstruct("_Plain", [(name, _types[name]) for name in _PLAIN])

_BLOB = 1
"""The msgpack extension of a blob reference, for which no map can pass."""


def _write_ref(value: Any) -> Any:
    if type(value) is BlobRef:
        return msgspec.msgpack.Ext(_BLOB, value.ref.encode())
    raise NotImplementedError(f"{type(value).__qualname__} is no data")


def _read_ref(code: int, data: memoryview) -> Any:
    if code != _BLOB:
        raise ValueError(f"extension {code} is unknown")
    return BlobRef(bytes(data).decode())


_encoder = msgspec.msgpack.Encoder(enc_hook=_write_ref)
_ACTIVATIONS = _encoder.encode("activations")
_decoder = msgspec.msgpack.Decoder(Snapshot, ext_hook=_read_ref)
_probe = msgspec.msgpack.Decoder(_Version, ext_hook=_read_ref)
_plain: Any = msgspec.msgpack.Decoder(_Plain, ext_hook=_read_ref)
