"""`make chaos`: everything that can go wrong, by chance, for as long as you like, while runs are started.

Faults come alone and together. After each round everything is healed, and the deployment must move again within 30 s; now and
then, and at the end, all runs must be over and everything is checked. The database is also put back to an earlier state.
The seed decides what happens and for how long; when it hits is up to the machine, so a seed repeats a history only roughly.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from tests.chaos.cluster import Cluster, clustered
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.load import HEALED_SECONDS, Load
from tests.chaos.workflows import MIXED
from tests.distributed.helpers import eventually
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

ROUNDS = 10
"""Of faults, before all runs must be over."""


class Chaos:
    def __init__(
        self, cluster: Cluster, rng: random.Random, faults: tuple[Fault, ...], longest: float, rate: float
    ) -> None:
        self.cluster = cluster
        self.rng = rng
        self.faults = faults
        self.longest = longest
        self.rate = rate
        self.counts: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.slowest = 0.0

    async def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        act = 0
        while time.monotonic() < until:
            act += 1
            await self._scene(f"act{act}", partial(self._act, until=until))
            if self.rng.random() < 0.5 and time.monotonic() < until:
                await self._scene(f"restore{act}", self._restore)

    async def _scene(self, name: str, play: Callable[[Load], Awaitable[None]]) -> None:
        """Something happens while runs are started; at its end all of them must be over."""
        await eventually(self.cluster.settled, 60)
        engine = await self.cluster.engine()
        try:
            load = Load(self.cluster, engine, name, pause=1 / self.rate)
            await load.prepare()
            async with asyncio.TaskGroup() as group:
                running = group.create_task(load.run())
                await play(load)
                load.stop()
                await running
            began = time.monotonic()
            ends = await load.finish()
        finally:
            await engine.close()
        self.ends += ends
        told = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
        self._say(f"all over and checked after {time.monotonic() - began:.1f} s: {told}")

    async def _act(self, load: Load, until: float) -> None:
        for _ in range(ROUNDS):
            if time.monotonic() < until:
                await self._round(load)

    async def _round(self, load: Load) -> None:
        await asyncio.sleep(self.rng.random())
        self.cluster.check_alive()
        chosen = self.rng.sample(self.faults, min(self.rng.choice((1, 1, 1, 2, 3)), len(self.faults)))
        seconds = [self.rng.choice((0.05, 0.5, 1.0, 2.0, 4.0, self.longest)) for _ in chosen]
        what = ", ".join(f"{fault.__name__} {length:g} s" for fault, length in zip(chosen, seconds, strict=True))
        self.counts.update(fault.__name__ for fault in chosen)
        async with asyncio.TaskGroup() as group:
            for fault, length in zip(chosen, seconds, strict=True):
                group.create_task(_quietly(fault, self.cluster, self.rng, length))
        self.cluster.heal()
        await self._moves(load, what)

    async def _restore(self, load: Load) -> None:
        """The database goes back to where it was before the last faults."""
        await load.started(20)
        self.cluster.back_up()
        for _ in range(3):
            await self._round(load)
        self.counts["restore"] += 1
        (before,) = await self.cluster.query("SELECT incarnation FROM perdure.meta")
        self.cluster.restore()

        async def is_later() -> bool:
            (row,) = await self.cluster.query("SELECT incarnation FROM perdure.meta")
            return bool(row["incarnation"] > before["incarnation"])

        await eventually(is_later, HEALED_SECONDS)
        lost = await load.forget_lost()
        await self._moves(load, f"restore; {len(lost)} runs are lost")

    async def _moves(self, load: Load, what: str) -> None:
        """A run that is started now gets to its end."""
        began = time.monotonic()
        name = f"{load.prefix}-probe-{sum(self.counts.values())}"

        async def has_ended() -> bool:
            record = await load.engine.journal.find_run(name)
            return record is not None and record.row.ended_at is not None

        try:
            async with asyncio.timeout(HEALED_SECONDS):
                await load.start(name, str(MIXED["name"]), counted=False)
                await eventually(has_ended)
        except TimeoutError:
            stuck = await load.unfinished()
            raise AssertionError(f"{what}: nothing moves after {HEALED_SECONDS:g} s; {len(stuck)}: {stuck}") from None
        taken = time.monotonic() - began
        self.slowest = max(self.slowest, taken)
        self._say(f"{what}; moving again after {taken:.1f} s, {len(load.names)} runs")

    def _say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


async def _quietly(fault: Fault, cluster: Cluster, rng: random.Random, seconds: float) -> None:
    """One fault may find that another has taken what it wanted to break."""
    with contextlib.suppress(OSError):
        await fault(cluster, rng, seconds)


async def chaos(cluster: Cluster, given: argparse.Namespace) -> Chaos:
    faults = tuple(fault for fault in FAULTS if not given.only or fault.__name__ in given.only.split(","))
    made = Chaos(cluster, random.Random(given.seed), faults, given.longest, given.rate)
    await made.run(given.seconds)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", default="", help="names of faults, with commas")
    parser.add_argument("--longest", type=float, default=10.0, help="seconds a fault lasts at most")
    parser.add_argument("--rate", type=float, default=10.0, help="runs that are started each second, if they can be")
    given = parser.parse_args()
    print(
        f"chaos: {given.seconds:g} s; repeat with: make chaos SEED={given.seed} SECONDS={given.seconds:g}", flush=True
    )
    postgres, redis = PostgresServer(), RedisServer()
    folder = Path(tempfile.mkdtemp(prefix="perdure-chaos-"))
    try:
        postgres.start()
        redis.start()
        with clustered(postgres, redis, folder) as cluster:
            try:
                done = asyncio.run(chaos(cluster, given))
            except BaseException:
                print(cluster.logs(), file=sys.stderr)
                print(f"chaos: seed {given.seed} failed; logs are in {folder}", file=sys.stderr)
                raise
        faults = ", ".join(f"{count} {name}" for name, count in sorted(done.counts.items()))
        print(f"chaos: {sum(done.counts.values())} faults: {faults}")
        print(
            f"chaos: {sum(done.ends.values())} runs: " + ", ".join(f"{n} {end}" for end, n in sorted(done.ends.items()))
        )
        shutil.rmtree(folder)
        print(f"chaos: moving again after {done.slowest:.1f} s at most; nothing lost, nothing twice, nothing stuck")
    finally:
        redis.remove()
        postgres.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
