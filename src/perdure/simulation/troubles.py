"""What goes wrong by itself now and then: processes die, hang and end; clocks jump; the journal goes away or back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure.simulation.faults import WORLD
from perdure.simulation.loop import Host
from perdure.simulation.process import Process

if TYPE_CHECKING:
    from perdure.simulation.world import World


class Troubles:
    def __init__(self, world: World) -> None:
        self._world = world

    async def run(self) -> None:
        """Make trouble at the rates of the plan, which are per ten seconds."""
        world = self._world
        names = [(name, world.plan.rates[name]) for name in WORLD if name in world.plan.rates]
        total = sum(rate for _, rate in names)
        while total:
            await asyncio.sleep(world.chaos.random.expovariate(total / 10.0))
            number = world.chaos.random.random() * total
            for name, rate in names:
                number -= rate
                if number < 0:
                    self.cause(name)
                    break

    def cause(self, name: str) -> None:
        world, random = self._world, self._world.chaos.random
        up = [process for process in world.processes if not process.down]
        if not up:
            return
        process = random.choice(up)
        world.note_fault(name, process.life)
        match name:
            case "crash":
                process.crash("killed")
            case "shutdown":
                world.loop.run_in(process.host, self._shut_down(process), "shutdown")
            case "stop_short":
                world.loop.stop_host(process.host, random.random() * 10)
            case "stop_long":
                world.loop.stop_host(process.host, 16 + random.random() * 60)
            case "clock_jump":
                process.clock.skew += random.choice((-3600.0, -1.0, 1.0, 30.0, 3600.0))
                world.furthest_ahead = max(world.furthest_ahead, process.clock.skew)
            case "journal_outage":
                world.outage_until = world.loop.time() + random.random() * 30
            case "journal_rollback":
                self._roll_back()
            case "transport_flush":
                if world.plan.shared:
                    world.broker.flush()
            case "transport_outage":
                if world.plan.shared:
                    world.transport_outage_until = world.loop.time() + random.random() * 60
                    for one in world.processes:
                        one.disconnect()
            case "blob_outage":
                world.blob_outage_until = world.loop.time() + random.random() * 90
            case "caller_gone":
                world.users.lose_a_caller()
            case "task_cancelled":
                process.host.trap = random.choice((1, 3, 10, 30, 100))
        if len(world.backups) < 4:
            world.backups.append((world.store.copy(), {k: v.copy() for k, v in world.checks.checkers.items()}))

    def cancel_a_task(self, host: Host) -> None:
        """Cancel a task somewhere in a process, whatever it awaits."""
        world = self._world
        tasks = host.alive_tasks()
        process = next((one for one in world.processes if one.host is host), None)
        if process is None or not tasks or world.chaos.healed:
            return
        # The youngest tasks live shortest, and would hardly ever be chosen.
        task = world.chaos.random.choice(tasks if world.chaos.random.random() < 0.5 else tasks[-4:])
        name = str(getattr(task.get_coro(), "__qualname__", task.get_name()))
        world.trace("fault", f"{process.life}: {name} is cancelled")
        world.cancelled[name] += 1
        process.trapped = True
        task.cancel()

    async def _shut_down(self, process: Process) -> None:
        try:
            await process.shut_down(self._world.chaos.random.random() * 5)
        finally:
            process.crash("has shut down")

    def _roll_back(self) -> None:
        """Restore a backup: what came after it never happened."""
        world, random = self._world, self._world.chaos.random
        if not world.backups:
            return
        store, checkers = random.choice(world.backups)
        world.rolled_back, world.rolled_back_at = True, world.loop.time()
        world.store.restore(store)
        world.checks.checkers = {run_id: checker.copy() for run_id, checker in checkers.items()}
        world.users.forget_lost()
        if random.random() < 0.5:
            for process in world.engines:
                process.crash("the journal was restored")
