"""Runs that are started while things break, and what must hold of them afterwards."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from perdure.doctor import Doctor, Report
from perdure.engine import Engine
from perdure.errors import StoreUnavailable
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.run_ids import root_of
from perdure.kernel.state import State
from perdure.runtime.coordinator.requests import Reply, Request
from perdure.transport import TransportUnavailable
from tests.chaos.cluster import Cluster
from tests.chaos.workflows import CHILD, CHILD_EFFECTS, EFFECTS, LONG, MIXED, ONCE, PERSON
from tests.distributed.helpers import eventually
from tests.engine.helpers import compiled

HEALED_SECONDS = 30.0
"""After the last fault, everything moves again within this."""
MOST_ASKING = 8
"""Starts that wait for an answer: while nobody decides, no more are asked."""
ASK_SECONDS = 5.0
ASK_AGAIN = {"unknown_approval", "not_found"}
DECIDED = {"already_decided", "already_voted"}
KINDS = (MIXED, MIXED, ONCE, MIXED, PERSON)


class Load:
    """`names` has every run that somebody was told has started, with its workflow."""

    def __init__(self, cluster: Cluster, engine: Engine, prefix: str, pause: float = 0.2) -> None:
        self.cluster = cluster
        self.engine = engine
        self.prefix = prefix
        self.names: dict[str, str] = {}
        self.pause = pause
        self.irs: dict[str, str] = {}
        self.approved: set[str] = set()
        self.most_payments = 1
        """Of one run. A database that went back does not know that it has paid."""
        self._count = 0
        self._places = asyncio.Semaphore(MOST_ASKING)
        self._stopped = asyncio.Event()

    async def prepare(self) -> None:
        for definition in (CHILD, MIXED, ONCE, PERSON, LONG):
            ir, _ = await self.engine.workflows.register(compiled(definition))
            self.irs[str(definition["name"])] = ir.hash

    async def run(self) -> None:
        """Start one after the other until told to stop; each until somebody says that it has started."""
        async with asyncio.TaskGroup() as group:
            while not self._stopped.is_set():
                await self._places.acquire()
                definition = KINDS[self._count % len(KINDS)]
                self._count += 1
                group.create_task(self.start(f"{self.prefix}-{self._count:05}", str(definition["name"])))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), self.pause)

    def stop(self) -> None:
        self._stopped.set()

    async def start(self, run_id: str, workflow: str, *, counted: bool = True) -> None:
        request = Request(kind="start", run_id=run_id, ir=self.irs[workflow])
        while True:
            try:
                reply = await self._ask(request)
            except (StoreUnavailable, TransportUnavailable, TimeoutError):
                await asyncio.sleep(0.1)
                continue
            assert not reply.refused or reply.code == "exists", reply
            self.names[run_id] = workflow
            if counted:
                self._places.release()
            break
        if workflow == PERSON["name"] and self._count % 2:
            await self.approve(run_id)

    async def _ask(self, request: Request) -> Reply:
        """Not for ever: a database that went back in time has lost what was asked."""
        return await asyncio.wait_for(self.engine.runs.request(request), ASK_SECONDS)

    # -- waiting

    async def started(self, more: int) -> None:
        wanted = len(self.names) + more
        await eventually(lambda: len(self.names) >= wanted, 60)

    async def effects(self, more: int) -> None:
        wanted = len(self.cluster.effects()) + more
        await eventually(lambda: len(self.cluster.effects()) >= wanted, 60)

    async def unfinished(self) -> dict[str, str]:
        """Runs that have neither ended nor wait for a person, and what they do instead."""
        rows = await self.cluster.query("SELECT run_id FROM perdure.runs WHERE ended_at IS NULL")
        found: dict[str, str] = {}
        for run_id in {row["run_id"] for row in rows} & set(self.names):
            state = await self.engine.runs.state(run_id)
            if not state.terminal and (not (waits := _waits(state)) or waits - {"approval", "parked"}):
                found[run_id] = f"{state.state.value}: {_open(state)}"
            elif not state.terminal and run_id in self.approved:
                found[run_id] = "approved, and waits"
        return found

    async def goes_on(self) -> None:
        """Every run that has been started by now comes to its end, with whatever is broken at the moment."""
        names = set(self.names)

        async def is_over() -> bool:
            return not names & set(await self.unfinished())

        try:
            await eventually(is_over, HEALED_SECONDS)
        except AssertionError:
            raise AssertionError(f"these do not go on: {await self.unfinished()}") from None

    async def finish(self, seconds: float = HEALED_SECONDS) -> Counter[str]:
        """Wait until nothing moves any more, and check everything: how many ended how."""
        try:
            await eventually(self._is_over, seconds)
        except AssertionError:
            stuck = await self.unfinished()
            raise AssertionError(f"{len(stuck)} runs are stuck: {stuck}") from None
        return await self.check()

    async def _is_over(self) -> bool:
        return not await self.unfinished()

    async def forget_lost(self) -> set[str]:
        """The database went back in time: runs that it does not know any more are nobody's."""
        self.most_payments += 1
        self.approved.clear()
        there = {row["run_id"] for row in await self.cluster.query("SELECT run_id FROM perdure.runs")}
        lost = set(self.names) - there
        for run_id in lost:
            del self.names[run_id]
        return lost

    # -- checking

    async def check(self) -> Counter[str]:
        ends: Counter[str] = Counter()
        keys = Counter(key for _, key, _, _ in self.cluster.effects())
        doctor, report = Doctor(self.engine.journal, self.engine.library), Report()
        for run_id, workflow in self.names.items():
            record = await self.engine.journal.get_run(run_id)
            report.add(await doctor.examine_run(record))
            state = await self.engine.runs.state_of(record)
            end = record.row.state if state.terminal else f"waits for {' '.join(sorted(_waits(state)))}"
            ends[f"{workflow.removeprefix('chaos-')} {end}"] += 1
            mine = {key for key in keys if root_of(key.partition("/")[0]) == run_id}
            if workflow == MIXED["name"]:
                assert end == "completed", f"{run_id} is {end}: {record.row.error!r}"
                assert mine == _keys(run_id), (
                    f"{run_id}: effects {sorted(mine ^ _keys(run_id))} are missing or too many"
                )
                report.add(await doctor.examine_run(await self.engine.journal.get_run(f"{run_id}:call")))
            elif workflow == ONCE["name"]:
                assert end in {"completed", "waits for parked"}, f"{run_id} is {end}: {record.row.error!r}"
                assert keys[f"{run_id}/pay/do"] <= self.most_payments, (
                    f"{run_id} has paid {keys[f'{run_id}/pay/do']} times"
                )
                assert end != "completed" or mine == {f"{run_id}/{name}/do" for name in ("begin", "pay", "end")}
            elif workflow == LONG["name"]:
                assert (end, mine) == ("completed", {f"{run_id}/long/do"}), f"{run_id} is {end}: {record.row.error!r}"
            else:
                wanted = {"completed"} if run_id in self.approved else {"waits for approval"}
                if self.most_payments > 1:  # the approval may be forgotten
                    wanted = {"completed", "waits for approval"}
                assert end in wanted, f"{run_id} is {end}: {record.row.error!r}"
        assert report.sound, f"{report.findings} {report.quarantined}"
        assert not report.moving
        await self._leaves_nothing()
        return ends

    async def _leaves_nothing(self) -> None:
        """Redis has no key without a reason, and no message that nobody needs."""
        unexplained: list[str] = []

        def clean() -> bool:
            found = self.cluster.redis.unexplained_keys(self.cluster.prefix)
            # Where a coordinator listens, there is a stream: one for each partition at most.
            unexplained[:] = [one for one in found if not one.endswith("}:results: an empty stream")]
            return not unexplained

        try:
            await eventually(clean, 15)
        except AssertionError:
            raise AssertionError(f"keys without a reason: {unexplained}") from None

    async def approve(self, run_id: str) -> None:
        """As soon as the run waits for that; again, if nobody can say whether it was heard."""
        vote = Request(kind="vote", run_id=run_id, approval=f"{run_id}:ask:1", approver="somebody")
        while run_id in self.names:
            try:
                reply = await self._ask(vote)
            except (StoreUnavailable, TransportUnavailable, TimeoutError):
                await asyncio.sleep(0.1)
                continue
            if not reply.refused or reply.code not in ASK_AGAIN:
                assert not reply.refused or reply.code in DECIDED, reply
                self.approved.add(run_id)
                return
            await asyncio.sleep(0.1)


def _keys(run_id: str) -> set[str]:
    return {f"{run_id}/{name}/do" for name in EFFECTS} | {f"{run_id}:call/{name}/do" for name in CHILD_EFFECTS}


def _open(state: State) -> list[str]:
    return [
        f"{state.name(one.node)}{list(one.scope)} {NodeState(one.state).value} attempt {one.attempt}"
        for one in state.activations.values()
        if NodeState(one.state) in (NodeState.QUEUED, NodeState.RUNNING, NodeState.WAITING, NodeState.RETRYING)
        or NodeState(one.state) in (NodeState.HELD, NodeState.PARKED)
    ]


def _waits(state: State) -> set[str]:
    """What the open activations wait for."""
    found: set[str] = set()
    for one in state.activations.values():
        what = NodeState(one.state)
        if what is NodeState.WAITING:
            found.add(one.wait.kind if one.wait is not None else "wait")
        elif what is NodeState.PARKED:
            found.add("parked")
        elif what in (NodeState.QUEUED, NodeState.RUNNING, NodeState.RETRYING, NodeState.HELD):
            found.add(what.value)
    return found


@contextlib.asynccontextmanager
async def loaded(cluster: Cluster, prefix: str, **options: Any) -> AsyncIterator[Load]:
    """Runs are started until the block ends; whatever was broken in it is healed then, and everything is checked."""
    try:
        cluster.heal()
        await eventually(cluster.settled, 60)
        engine = await cluster.engine()
        try:
            load = Load(cluster, engine, prefix, **options)
            await load.prepare()
            async with asyncio.TaskGroup() as group:
                running = group.create_task(load.run())
                await load.effects(20)
                try:
                    yield load
                    await load.started(2)
                finally:
                    load.stop()
                    cluster.heal()
                await running
            print(dict(await load.finish()))
        finally:
            await engine.close()
    except BaseException as error:
        error.add_note(cluster.logs())
        raise
