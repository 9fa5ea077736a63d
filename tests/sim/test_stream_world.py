"""Simulated histories of seeds with a run that streams: whatever becomes of chunks and processes, readers are given 1, 2, 3, … and the sums
are right; planted bugs do not hide."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from perdure.kernel import events as e
from perdure.runtime.coordinator.inbox import Handling
from perdure.runtime.coordinator.tasks import stream_ends
from perdure.runtime.worker import inflow, outflow
from perdure.runtime.worker.lasting_outflow import Covered
from perdure.simulation.plan import STREAMS_FROM, make_plan
from perdure.simulation.worlds.stream_world import StreamWorld, make_world
from perdure.streams import Flowed, Over, Part, stream_name
from perdure.transports.local_streams import LocalStreams

pytestmark = pytest.mark.slow

SEVERAL = 1_000_000
MOST = 300
"""Histories in which a bug must show."""


def play(seed: int) -> Any:
    world = make_world(make_plan(STREAMS_FROM + seed))
    assert isinstance(world, StreamWorld)
    return world.run()


@pytest.mark.parametrize("start", [0, SEVERAL])
def test_every_reader_is_given_what_was_yielded_and_the_sums_are_right(start: int) -> None:
    types: set[str] = set()
    faults: set[str] = set()
    for seed in range(start, start + 25):
        world = play(seed)
        assert world.failures == [], seed
        types |= {e.decode(one.body).type for one in world.store.events["flow"]}
        faults |= {name for name, count in world.chaos.hit.items() if count}
    assert {"stream.opened", "stream.kept", "stream.closed", "node.checkpointed", "node.retrying"} <= types
    assert {"chunks_late", "chunks_lost", "chunks_doubled"} <= faults


@pytest.mark.parametrize("seed", [83, 120986, SEVERAL + 43, SEVERAL + 47, SEVERAL + 103, SEVERAL + 305])
def test_histories_that_were_broken_are_not(seed: int) -> None:
    """Two attempts of one reader woke each other for ever; readers of the time before a restore kept their slots for ever, of a run that there was no more, too;
    who read after a restore was given chunks of before; and who was stopped while it yielded left a task."""
    assert play(seed).failures == []


# -- planted bugs ------------------------------------------------------------------------------------------------------


def _end_before_the_append(patch: pytest.MonkeyPatch) -> None:
    """Readers are told that a stream has ended before its outcome is accepted."""
    real = outflow.Outflow.end

    async def end(self: Any) -> Any:
        found = await real(self)
        for name, port in self._ports.items():
            await self._streams.close(self._name(name), self._edition, Over("end"), port.count, port.parts)
        return found

    patch.setattr(outflow.Outflow, "end", end)


def _named_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """A piece is reported, and stored only then."""

    async def keep(self: Any, name: str, port: Any, *, report: bool) -> None:
        data = b"[" + b",".join(port.unkept) + b"]"
        part = Part(name, port.accepted, "cas://sha256:" + hashlib.sha256(data).hexdigest(), port.unkept_size)
        if report:
            await self._report(Flowed(kept=part, chain=port.chain))
        await self._store(data)
        port.parts.append(part)
        port.kept_chain = port.chain
        port.unkept, port.unkept_size = [], 0
        await self._streams.keep(self._name(name), self._edition, part, port.kept_chain)

    patch.setattr(outflow.Outflow, "_keep", keep)


def _order_of_a_source_lost(patch: pytest.MonkeyPatch) -> None:
    """Of several sources, one that has much at hand gives its last chunk first."""

    def pop(self: Any) -> Any:
        self.position += 1
        self._bodies[:1] = []
        return self.ready.pop(0 if len(self.ready) > 2 else -1)

    patch.setattr(inflow._Feed, "pop", pop)


def _credit_never_returned(patch: pytest.MonkeyPatch) -> None:
    """What a reader says of how far it is counts only the first time."""
    real = LocalStreams.read

    async def read(self: Any, stream: Any, edition: int, reader: str, after: int) -> Any:
        held = self._find(stream)
        known = held is not None and held.edition == edition and reader in held.readers
        return await real(self, stream, edition, "" if known else reader, after)

    patch.setattr(LocalStreams, "read", read)


def _nobody_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    async def go_on(self: Any, stream: Any, port: Any) -> None:
        return None

    patch.setattr(outflow.Outflow, "_wait_for_readers", go_on)


def _tail_missing(patch: pytest.MonkeyPatch) -> None:
    """The last piece is not stored, and nobody says so."""
    real = outflow.Outflow.end

    async def end(self: Any) -> Any:
        await self.settle()
        for port in self._ports.values():
            port.unkept = port.unkept[:-1]
        return await real(self)

    patch.setattr(outflow.Outflow, "end", end)


def _cursor_without_its_state(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint has the data, and says of how far each stream was read what was so a chunk ago."""
    real = inflow.Inflows.cursors

    def cursors(self: Any) -> dict[str, tuple[int, ...]]:
        return {name: (one[0], max(0, one[1] - 1), *one[2:]) for name, one in real(self).items()}

    patch.setattr(inflow.Inflows, "cursors", cursors)


def _repeat_not_dropped(patch: pytest.MonkeyPatch) -> None:
    """What is sent again is appended again."""

    async def append(self: Any, stream: Any, edition: int, first: int, bodies: Any, **more: Any) -> int:
        held = self._get(stream, edition, more.get("attempt", 0))
        held.tail += bodies
        self._wake(stream)
        return max(held.next, first + len(bodies))

    patch.setattr(LocalStreams, "append", append)


def _gap_accepted(patch: pytest.MonkeyPatch) -> None:
    """Chunks behind a gap are taken: what the store has lost is never asked for."""

    async def append(self: Any, stream: Any, edition: int, first: int, bodies: Any, **more: Any) -> int:
        held = self._get(stream, edition, more.get("attempt", 0))
        held.tail += bodies[max(0, held.next - first) :]
        self._wake(stream)
        return first + len(bodies)

    patch.setattr(LocalStreams, "append", append)


def _shown_before_it_is_covered(patch: pytest.MonkeyPatch) -> None:
    """Pieces are shown before the checkpoint that covers them is kept."""
    real = Covered.cover

    async def cover(self: Any, upto: Any, save: Any) -> None:
        for name, port in self._ports.items():
            await self.settle()
            if (count := upto[name] - port.kept) > 0:
                await self._put(name, port, count, is_small=True)
                port.shown = len(port.parts)
                await self._show(name, port)
        await real(self, upto, save)

    patch.setattr(Covered, "cover", cover)


def _one_name_after_a_restore(patch: pytest.MonkeyPatch) -> None:
    def name(run_id: str, node: str, port: str, tenant: str = "default", incarnation: int = 1) -> Any:
        return stream_name(run_id, node, port, tenant)

    for module in (inflow, outflow, stream_ends):
        patch.setattr(module, "stream_name", name)


def _readers_of_before_a_restore_stay(patch: pytest.MonkeyPatch) -> None:
    real = Handling._report

    def report(self: Any, loaded: Any, message: Any) -> None:
        real(self, loaded, message)
        result = message.delivery.result
        if result.incarnation != self._incarnation.number and result.flow is not None and result.flow.waits:
            message.refused = False

    patch.setattr(Handling, "_report", report)


BUGS = {
    _end_before_the_append: "F5 F4 F3",
    _named_before_it_is_stored: "V7",
    _order_of_a_source_lost: "F3",
    _credit_never_returned: "F8",
    _nobody_is_waited_for: "F8",
    _tail_missing: "F3 F4 F5 R2",
    _cursor_without_its_state: "F3 F6",
    _repeat_not_dropped: "F3 F4",
    _gap_accepted: "F3 F4",
    _shown_before_it_is_covered: "F6 F3",
    _one_name_after_a_restore: "F3 F6 TooManySteps",
    _readers_of_before_a_restore_stay: "R2",
}


FROM = {_one_name_after_a_restore: 105, _readers_of_before_a_restore_stay: 20}
"""Where those are looked for that need a restore in the right moment. In some histories two attempts of that name wake each other without end: half a minute."""


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_noticed(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    start = FROM.get(plant, 0)
    for seed in (base + number for number in range(start, start + MOST // 2) for base in (0, SEVERAL)):
        if failures := play(seed).failures:
            assert failures[0].rule in BUGS[plant].split(), (seed, failures)
            return
    raise AssertionError(f"no history of {MOST} found it")
