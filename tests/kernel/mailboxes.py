"""Triggers for tests: a run with a mailbox, and a calendar of regular moments."""

from __future__ import annotations

from typing import Any

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.triggers.mailbox import Mailbox, Over, Policy
from perdure.kernel.triggers.trigger_run import NODE, TRIGGER
from perdure.kernel.values import Error, Wait
from tests.kernel.driver import Run

IR_HASH = "sha256:target"


def answer_moments(question: c.Question) -> Any:
    """The moments of `{"every": 60}`, after 1970, due `jitter` seconds later; with `stop`, none comes after that."""
    asked, spec = question.evidence, question.evidence.spec
    if spec.get("bad"):
        return Error("bad_schedule", "there is no such zone")
    every, jitter, stop = spec["every"], spec.get("jitter", 0.0), spec.get("stop", float("inf"))
    moment = (asked.since // every + 1) * every
    found: list[Any] = []
    more = False
    while moment <= stop and (moment if asked.nominal else moment + jitter) <= asked.until:
        if len(found) == asked.most:
            more = True
            break
        found.append([moment, moment + jitter, moment - every, moment + every])
        moment += every
    return {"moments": found, "next": moment + jitter if moment <= stop else None, "more": more}


def answer_target(question: c.Question) -> Any:
    item = question.evidence.item
    if isinstance(item.inputs, dict) and item.inputs.get("bad"):
        return Error("invalid_inputs", "they do not fit")
    if not question.evidence.workflow:
        return Error("not_found", "there is no such workflow")
    return {"version": 1, "ir": IR_HASH}


class TriggerRun(Run):
    """A run of a trigger, whose journal the checker reads along."""

    def __init__(self, *, now: float = 1_000_000.0, went: fx.ContinueRun | None = None) -> None:
        """`went`: the run before, which this one continues."""
        super().__init__(TRIGGER, start=False, answers={"moments": answer_moments, "target": answer_target})
        self.now = now
        self.checker = Checker({TRIGGER.hash: TRIGGER})
        self.check = self._feed
        self.fed = 0
        self.started: list[fx.StartRun] = []
        self.stops: list[fx.StopRun] = []
        if went is None:
            self.do(c.Start(at=self.now, run_id="tr", ir=TRIGGER))
        else:
            fields: Any = {"mailboxes": went.mailboxes, "pauses": went.pauses}
            self.do(c.Start(at=self.now, run_id=went.run_id, ir=TRIGGER, **fields))
        if went is None or not self.box.source:
            self.suspend(NODE, Wait(kind="trigger"))

    @staticmethod
    def _feed(run: Run) -> None:
        assert isinstance(run, TriggerRun)
        for event in run.journal[run.fed :]:
            assert run.checker.feed(event) == []
        assert run.checker.settle() == []
        run.fed = len(run.journal)
        run.started += [effect for effect in run.effects if isinstance(effect, fx.StartRun)]
        run.stops += [effect for effect in run.effects if isinstance(effect, fx.StopRun)]

    @property
    def box(self) -> Mailbox:
        return self.state.triggers[NODE]

    def schedule(self, every: float = 60.0, *, spec: dict[str, Any] | None = None, **policy: Any) -> Any:
        return self._register("schedule", {"every": every, **(spec or {})}, policy)

    def webhook(self, spec: Any = None, **policy: Any) -> Any:
        return self._register("webhook", spec, {"overlap": "buffer", "open": 100, **policy})

    def table(
        self, spec: Any = None, *, source: str = "orders", manner: str = "", begins: str = "", **policy: Any
    ) -> Any:
        fields = {"source": source, "manner": manner, "begins": begins}
        return self._register("table", spec, {"overlap": "buffer", "open": 100, **policy}, **fields)

    def listen(self, topic: str = "event:paid", *, cursor: str = "0", spec: Any = None, **policy: Any) -> Any:
        about = {"topic": topic, "cursor": cursor}
        return self._register("event", spec, {"overlap": "buffer", "open": 100, **policy}, **about)

    def hear(self, *ids: str, cursor: int, key: str = "", **fields: Any) -> Any:
        """What happened behind the cursor, up to `cursor`."""
        items = fields.pop("items", tuple(c.Delivered(id=name, key=key, inputs={"n": name}) for name in ids))
        fields = {"after": self.box.cursor, "revision": self.box.revision, **fields}
        return self.tell(c.Hear, items=items, cursor=str(cursor), **fields)

    def _register(self, kind: str, spec: Any, policy: dict[str, Any], **fields: Any) -> Any:
        made = Policy(**{"workflow": "report", **policy})
        return self.tell(c.Register, name="nightly", kind=kind, spec=spec, policy=made, **fields)

    def receive(self, *ids: str, cursor: str = "", attempt: int | None = None, key: str = "", **fields: Any) -> Any:
        """What the current poll brings: items, and by default the last one's id as the cursor."""
        items = fields.pop("items", tuple(c.Delivered(id=name, key=key, inputs={"n": name}) for name in ids))
        fields = {"after": self.box.cursor, "revision": self.box.revision, **fields}
        return self._command(
            c.Receive, NODE, (), None, items=items, cursor=cursor or ids[-1],
            attempt=self.get(NODE).attempt if attempt is None else attempt, **fields,
        )  # fmt: skip

    @property
    def polls(self) -> list[int]:
        """The polls that the last command sent."""
        return [effect.address.attempt for effect in self.effects if isinstance(effect, fx.Dispatch)]

    def deliver(self, *ids: str, key: str = "", **fields: Any) -> Any:
        items = tuple(c.Delivered(id=name, key=key, **fields) for name in ids)
        return self.tell(c.Deliver, items=items, revision=self.box.revision)

    def fire(self, firing: str, **fields: Any) -> Any:
        return self.tell(c.Fire, firing=firing, revision=self.box.revision, **fields)

    def end(self, *run_ids: str, state: Any = "completed") -> Any:
        ends = tuple(Over(run_id, self.box.open[run_id].number, state) for run_id in run_ids)
        return self.tell(c.EndFiring, ends=ends)

    @property
    def runs(self) -> list[str]:
        """The runs that were started, without the trigger's id."""
        return [start.run_id.partition("~")[2] for start in self.started]

    @property
    def skipped(self) -> list[tuple[str, Any]]:
        """Reasons, and the numbers or the count of what was left out."""
        return [(event.reason, event.numbers or event.count) for event in self.events("trigger.skipped")]


def trigger(**fields: Any) -> Any:
    """A `TriggerRun` (as Any: tests look into what may be None)."""
    return TriggerRun(**fields)
