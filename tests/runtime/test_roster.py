"""What the roster makes of the workers it sees: how many of their slots it believes, and which nodes are held for one."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from perdure.clock import system
from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.runtime.coordinator.tasks.dispatcher import Dispatcher, Entry
from perdure.runtime.coordinator.tasks.roster import LEAST_WINDOW, UNPROVEN_SLOTS, Roster
from perdure.transport import MOST_SLOTS, QueueSeen, WorkerBeat, WorkerSeen
from tests.attack.marks import attack
from tests.kernel.driver import Run


class Workers:
    """What the roster sees: beats, and how many tasks of the queue workers have."""

    def __init__(self, *beats):
        self.beats = list(beats)
        self.claimed = 0

    async def list_workers(self):
        return [WorkerSeen(beat, 0.0) for beat in self.beats]

    async def list_queues(self):
        return [QueueSeen("default", 0, self.claimed)]

    async def recall(self, names):
        return dict.fromkeys(names, "claimed")


def make_roster(workers):
    dispatcher = Dispatcher(window=LEAST_WINDOW)
    coordinator: Any = SimpleNamespace(
        handling=SimpleNamespace(), transport=SimpleNamespace(), publisher=SimpleNamespace(dispatcher=dispatcher)
    )
    return Roster(workers, coordinator, system, dead_seconds=10.0), dispatcher


def publish(dispatcher, tenant, count):
    for number in range(count):
        dispatcher.add(Entry(Address(f"{tenant}-{number}", "n"), tenant=tenant))
    return len(list(dispatcher.take()))


@attack("S16", "a heartbeat that lies about its slots")
async def test_slots_that_nobody_uses_do_not_end_the_turns_between_tenants():
    workers = Workers(WorkerBeat("honest", slots=100), *(WorkerBeat(f"liar-{n}", slots=MOST_SLOTS) for n in range(50)))
    roster, dispatcher = make_roster(workers)
    await roster.look()
    assert publish(dispatcher, "acme", 3_000) == 2 * UNPROVEN_SLOTS


@attack("S16", "a tenant that takes every slot of a few workers")
@pytest.mark.parametrize(("slots", "most"), [(8, 7), (16, 14), (24, 21), (50, 44), (100, 88)])
async def test_of_few_slots_too_some_are_left_to_another_tenant(slots, most):
    roster, dispatcher = make_roster(Workers(WorkerBeat("w", slots=slots)))
    await roster.look()
    publish(dispatcher, "acme", 1)
    dispatcher.done(Address("acme-0", "n").task_id)
    assert publish(dispatcher, "globex", 1_000) == most
    assert publish(dispatcher, "acme", slots - most) == slots - most  # there is room, and a slot, for the other


@pytest.mark.parametrize("slots", [1, 4, 7])
async def test_where_slots_are_too_few_to_be_shared_the_window_is(slots):
    roster, dispatcher = make_roster(Workers(WorkerBeat("w", slots=slots)))
    await roster.look()
    publish(dispatcher, "acme", 1)
    dispatcher.done(Address("acme-0", "n").task_id)
    assert publish(dispatcher, "globex", 1_000) == 28
    assert publish(dispatcher, "acme", 3) == 3


async def test_a_window_grows_to_the_slots_that_workers_have_as_they_fill_them():
    workers = Workers(WorkerBeat("large", slots=1_000))
    roster, dispatcher = make_roster(workers)
    await roster.look()
    windows = [publish(dispatcher, "acme", 10_000)]
    for claimed in (windows[0], 1_000, 0):  # with nothing to do for a moment: what was proved stays proved
        workers.claimed = claimed
        await roster.look()
        windows.append(windows[-1] + len(list(dispatcher.take())))
    assert windows == [256, 1_024, 2_000, 2_000]


@pytest.mark.parametrize("slots", [10**9, MOST_SLOTS + 1, -1])
def test_a_beat_with_more_slots_than_a_worker_may_have_is_refused(slots):
    said = msgspec.json.encode({"worker": "liar", "slots": slots})
    with pytest.raises(msgspec.ValidationError, match="slots"):
        msgspec.json.decode(said, type=WorkerBeat)


async def test_a_node_whose_worker_came_while_the_run_was_paused_is_sent_after_the_resume():
    """R2, seed 1261699: a release that finds the run paused does nothing, and after the resume none came any more."""
    run = Run.of({"id": "a", "config": {"function": "f"}})
    workers = Workers()
    roster, _ = make_roster(workers)
    asked: list[Any] = []
    coordinator: Any = roster._coordinator
    coordinator.put = asked.append
    coordinator.share = SimpleNamespace(holds=lambda run_id: True)
    coordinator.renderer = SimpleNamespace(function_of=lambda type_, config: "")

    def tell(kind: type[c.Command], **fields: Any) -> None:
        roster.note(run.state, list(run.tell(kind, **fields).events))

    tell(c.HoldBack, address=run.state.address(run.get("a")))
    tell(c.Pause)
    workers.beats.append(WorkerBeat("w", types=("task",)))
    for expected in ("held", "queued"):
        await roster.look()
        for message in asked:
            run.do(message.make(run.state))
        assert run.state_of("a") == expected
        asked.clear()
        tell(c.Resume)
