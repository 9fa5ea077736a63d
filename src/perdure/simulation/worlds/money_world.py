"""A simulated cluster whose handlers make calls that cost something, under a budget, while processes die.

Seeds from 10,000,000 on are such histories, those from 11,000,000 on with several coordinators. The provider counts every call that
is made; in the end each run has counted at least as much, call by call, and no call began without room (B1).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from perdure.invariants import Checker, money
from perdure.journal import Appended, Commit
from perdure.model.money import NOTHING, Budget
from perdure.outcomes import NotDone
from perdure.purses import BudgetRow
from perdure.simulation.memory_journal import MemoryJournal
from perdure.simulation.plan import MONEY_FROM, Plan
from perdure.simulation.store import read_purses
from perdure.simulation.world import World
from perdure.simulation.worlds import schedule_world
from perdure.simulation.worlds.ask_world import AskingHandlers, AskWorld
from perdure.spending import Spent, Usage


class SpendingHandlers(AskingHandlers):
    def __init__(self, world: MoneyWorld) -> None:
        super().__init__(world)
        self._paying = world

    async def handle(self, config: Any, ctx: Any) -> Any:
        """Play a handler that makes calls, some at once, and then does what any other does."""
        task = ctx._task
        if not task.undo and task.effect != "at_most_once" and task.isolation == "thread":
            random = Random(f"calls {self._paying.plan.seed} {ctx.idempotency_key}")
            count, together = random.choice((0, 1, 1, 2, 4)), random.random() < 0.5
            most = {f"call{number}": random.randint(1, 4) for number in range(count)}
            if together:
                async with asyncio.TaskGroup() as group:
                    for name, amount in most.items():
                        group.create_task(self._call(ctx, name, amount))
            else:
                for name, amount in most.items():
                    await self._call(ctx, name, amount)
        return await super().handle(config, ctx)

    async def _call(self, ctx: Any, name: str, most: int) -> Any:
        world = self._paying

        async def call() -> Spent:
            await asyncio.sleep(world.random.random() * 2)
            if world.random.random() < 0.1 and not world.chaos.healed:
                raise NotDone("no connection")
            used = world.random.randint(0, most)
            world.made[ctx.run_id] += used
            await asyncio.sleep(world.random.random() * 2)  # it may die here: made, and not known to be
            return Spent(name, Usage(calls=used))

        try:
            return await ctx.step(name, call, reserve=Usage(calls=most), model="small")
        except NotDone:
            return None


class MoneyWorld(AskWorld):
    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        random = Random(f"budgets {plan.seed}")
        for definition in plan.workflows:
            if random.random() < 0.7:
                policy = "fail" if random.random() < 0.1 else "pause"
                budget = {"calls": random.choice((0, 4, 10, 40)), "on_exceed": policy}
                definition.setdefault("limits", {})["budget"] = budget
        super().__init__(plan, tracing=tracing)
        self.handlers = SpendingHandlers(self)
        self.registry = self.handlers.registry()
        self.made: Counter[str] = Counter()
        """What the provider has been asked for, by run."""
        if random.random() < 0.5:
            limit = random.choice((2, 10, 40))
            whole = BudgetRow(tenant="default", scope="tenant", calls=limit, share=random.choice((0.5, 1.0)))
            self.store.budgets["default", "tenant"] = whole

    async def append(self, journal: MemoryJournal, name: str, commits: Sequence[Commit]) -> list[Appended]:
        answers = await super().append(journal, name, commits)
        rows = self.store.ledger.values()
        one_month = len({row.day[:7] for row in rows if row.day}) <= 1
        for purse in read_purses(self.store, "default", "", "", "") if one_month and not self.plan.shared else ():
            used = purse.spent_calls + sum(map(_count_open, self.checks.checkers.values()))
            if used > (purse.calls or 0):
                self.checks.fail(
                    "B1", f"{used} calls of all runs are used or set aside, of {purse.calls} ({purse.scope})"
                )
        return answers

    def more_money(self, run_id: str) -> Budget | None:
        state = self.checks.fold(run_id)
        failed = state.error is not None and state.error.code == "budget_exhausted"
        if failed or any(reason.startswith("budget:") for reason in state.pauses):
            for key, row in self.store.budgets.items():  # as people do who may write costs
                self.store.budgets[key] = msgspec.structs.replace(row, calls=(row.calls or 0) + 1_000, share=1.0)
        if "budget" not in state.pauses and not failed:
            return None
        return Budget(calls=state.money.spent.calls + 1_000)

    async def _close(self) -> None:
        for run_id, checker in self.checks.checkers.items():
            if run_id not in self.store.runs:
                continue
            state = self.checks.fold(run_id)
            for found in money.compare(checker.model, state):
                self.checks.fail(found.id, f"run {run_id}: {found.message}")
            own = state.money.spent.calls - state.money.children.calls
            answered = (
                not self.plan.shared
            )  # the simulated broker of several processes does not say what became of a wish
            if answered and not self.rolled_back and own < self.made[run_id]:
                self.checks.fail("B2", f"run {run_id} has counted {own} calls, and {self.made[run_id]} were made")
            if state.money.reserved:
                self.checks.fail("B3", f"run {run_id} has ended, and {state.money.reserved} is set aside")
        self._check_ledger()
        await super()._close()

    def _check_ledger(self) -> None:
        """B2: the ledger has what the events of all runs say that they used themselves (rule 85)."""
        whole = NOTHING
        for run_id in self.store.runs:
            money = self.checks.fold(run_id).money
            whole += money.spent - money.children
        rows = [row for row in self.store.ledger.values() if row.day]
        kept = sum(row.calls for row in rows), sum(row.input + row.output for row in rows)
        if kept != (whole.calls, whole.tokens):
            self.checks.fail("B2", f"the ledger has {kept} calls and tokens, the runs have used {whole}")
        held = [row for row in self.store.ledger.values() if not row.day and (row.calls or row.input or row.output)]
        if held:
            self.checks.fail("B3", f"all runs have ended, and the ledger has set aside {held}")


def _count_open(checker: Checker) -> int:
    """The calls that are set aside for what is under way, as the events of a run say."""
    return sum(one.usage.calls for one in checker.model.purse.open.values())


def make_world(plan: Plan, *, tracing: bool = False) -> World:
    """The world of a plan, of whichever kind its seed says."""
    if plan.seed >= MONEY_FROM:
        return MoneyWorld(msgspec.structs.replace(plan), tracing=tracing)
    return schedule_world.make_world(plan, tracing=tracing)
