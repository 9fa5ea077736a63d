"""Triggers inside a run, for tests: an endless loop that takes an item, works on it, and takes the next (rule 54)."""

from __future__ import annotations

from typing import Any

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.address import Address
from perdure.kernel.triggers.mailbox import Policy
from tests.kernel.driver import Run, compiled
from tests.kernel.mailboxes import answer_moments
from tests.kernel.rules.graphs import ANSWERS, node


def answer_target(question: c.Question) -> Any:
    return {"inputs": {"at": question.evidence.item.nominal}}


def graph(**keys: Any) -> list[dict[str, Any]]:
    """An endless loop: take an item, work on it, and again."""
    loop = {"condition": "output.again", "loop_back_to": "take", "endless": True}
    take = {"id": "take", "type": "trigger", "config": {"event": {"name": "paid"}}, **keys}
    return [take, node("work", "take", loop=loop), node("end", "work")]


class Inner(Run):
    """A run with a trigger inside, whose journal the checker reads along."""

    def __init__(self, ir: Any = None, *, went: fx.ContinueRun | None = None, **fields: Any) -> None:
        ir = ir or compiled(*graph())
        answers = {**ANSWERS, "moments": answer_moments, "target": answer_target}
        super().__init__(ir, start=False, answers=answers)
        self.checker, self.check, self.fed = Checker({ir.hash: ir}), self._feed, 0
        if went is not None:
            fields |= {"run_id": went.run_id, "adopted": went.adopted, "mailboxes": went.mailboxes}
        self.do(c.Start(at=self.now, **{"run_id": "run", **fields}, ir=ir))

    @staticmethod
    def _feed(run: Run) -> None:
        assert isinstance(run, Inner)
        for event in run.journal[run.fed :]:
            assert run.checker.feed(event) == []
        assert run.checker.settle() == []
        run.fed = len(run.journal)

    @property
    def box(self) -> Any:
        return self.state.triggers["take"]

    @property
    def polls(self) -> list[int]:
        """The attempts of the trigger that the last command sent."""
        found = [one.address for one in self.effects if isinstance(one, fx.Dispatch)]
        return [address.attempt for address in found if address.node == "take"]

    @property
    def stopped(self) -> list[int]:
        return [one.address.attempt for one in self.effects if isinstance(one, fx.Stop)]

    def wait(self, scope: tuple[int, ...] = (1,), *, kind: str = "table", attempt: int = 1, **fields: Any) -> Any:
        """The answer of the node: it wants the next item."""
        fields = {"source": "orders"} if kind == "table" and not fields else fields
        policy = Policy(overlap="buffer", buffer=fields.pop("buffer", 1000), catchup=fields.pop("catchup", "latest"))
        about: Any = {"at": self.now, "node": "take", "name": "take", "kind": kind, "policy": policy, "inner": True}
        address = Address(self.state.run_id, "take", scope, None, attempt, self.state.generation)
        return self.do(c.Await(at=self.now, address=address, registration=c.Register(**about, **fields)))

    def receive(self, *ids: str, scope: tuple[int, ...] = (1,), cursor: str = "", **fields: Any) -> Any:
        items = fields.pop("items", tuple(c.Delivered(id=name, inputs={"n": name}) for name in ids))
        fields = {"after": self.box.cursor, "revision": self.box.revision, **fields}
        return self._command(c.Receive, "take", scope, None, items=items, cursor=cursor or ids[-1], **fields)

    def hear(self, *ids: str, cursor: int, **fields: Any) -> Any:
        items = fields.pop("items", tuple(c.Delivered(id=name, inputs={"n": name}) for name in ids))
        fields = {"after": self.box.cursor, "revision": self.box.revision, **fields}
        return self.tell(c.Hear, node="take", items=items, cursor=str(cursor), **fields)

    def work(self, scope: tuple[int, ...], *, again: bool = True) -> Any:
        return self.complete("work", {"again": again}, scope)

    @property
    def skipped(self) -> list[tuple[str, Any]]:
        return [(event.reason, event.numbers or event.count) for event in self.events("trigger.skipped")]

    def taken(self) -> list[Any]:
        """The outcomes of the trigger, in order."""
        return [event.output["n"] for event in self.events("node.completed") if event.node == "take"]
