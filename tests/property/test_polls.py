"""Sources that are polled, in an unkind world: random walks with pollers that die, come back late, or speak twice.

The source is a list that grows; its cursor is how many of its items were read. The world keeps every task that was ever sent and lets
any of them answer at any time, also long after another one took its place. In the end every item has exactly one run a round.
Each planted bug is caught.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.decider import Decider
from perdure.kernel.facts import trigger_facts
from perdure.kernel.facts.fold_rules import HANDLERS
from perdure.kernel.lifecycle import IntegrityError
from perdure.kernel.triggers import polls, trigger_commands
from perdure.kernel.triggers.mailbox import Mailbox, Over, Policy, run_of_item
from perdure.kernel.triggers.trigger_run import NODE
from perdure.kernel.values import Error
from tests.kernel.mailboxes import TriggerRun
from tests.property.worlds import go_through

PAGE = 3


class World:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.steps: list[str] = []
        self.run = TriggerRun()
        self.source = "s0"
        self.lists: dict[str, list[str]] = {"s0": []}
        """The items of each source there was."""
        self.tasks: list[tuple[Any, Any, str]] = []
        """Every poll that was sent: its address, the cursor it was given, and the source."""
        self.results: list[Any] = []
        self.open: dict[str, int] = {}
        self.runs: list[str] = []
        self.wanted: set[tuple[str, int]] = set()
        """Items that must have a run, with the round."""
        self.policy: dict[str, Any] = {"open": random.choice((1, 3, 100)), "buffer": random.choice((2, 1000))}
        self.counter = 0
        self.do(self.registration())

    @property
    def box(self) -> Mailbox:
        return self.run.box

    def registration(self, **fields: Any) -> c.Register:
        self.counter += 1
        fields = {"source": self.source, "spec": {"n": self.counter}, **fields}
        policy = Policy(workflow="report", overlap="buffer", **self.policy)
        return c.Register(at=self.run.now, name="x", kind="table", policy=policy, **fields)

    def do(self, command: c.Command) -> Any:
        self.steps.append(repr(command)[:200])
        result = self.run.do(command)
        self.note()
        for effect in getattr(result, "effects", ()):
            if isinstance(effect, fx.ContinueRun):
                self.run = TriggerRun(now=self.run.now, went=effect)
                self.note()
        return result

    def note(self) -> None:
        for effect in self.run.effects:
            if isinstance(effect, fx.Dispatch):
                self.tasks.append((effect.address, self.box.cursor, self.source))
        for begun in self.run.started:
            assert begun.run_id not in self.runs, f"{begun.run_id} is started twice (TG4)"
            self.runs.append(begun.run_id)
            self.open[begun.run_id] = begun.trigger.number
        self.run.started = []

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        rules: list[tuple[float, Callable[[], None]]] = [
            (5, self.grow),
            (7, self.answer),
            (1.5, self.answer_old),
            (1, self.fail),
            (1, self.lapse),
            (0.7, self.pause),
            (1.5, self.resume),
            (0.6, self.rewind),
            (0.5, self.remap),
            (2, self.exchange),
            (4, self.end),
            (2, self.pass_time),
        ]
        self.random.choices([rule for _, rule in rules], [weight for weight, _ in rules])[0]()

    def grow(self) -> None:
        items = self.lists[self.source]
        for _ in range(self.random.choice((1, 2, 7))):
            items.append(f"{self.source}/{len(items)}")
            self.wanted.add((items[-1], 0))

    def read(self, task: tuple[Any, Any, str]) -> c.Receive:
        """What a worker makes of a task, now."""
        address, cursor, source = task
        items = self.lists[source]
        begin = int(cursor or 0)
        page = items[begin : begin + PAGE]
        made = tuple(c.Delivered(id=name, inputs={"n": name}) for name in page)
        upto = str(begin + len(page))
        fields: Any = {"more": begin + len(page) < len(items), "revision": self.box.revision}
        return c.Receive(at=self.run.now, address=address, items=made, after=cursor, cursor=upto, **fields)

    def answer(self) -> None:
        if self.tasks:
            self.take(self.tasks[-1])

    def take(self, task: tuple[Any, Any, str]) -> None:
        address = task[0]
        received = self.read(task)
        if not received.items and received.cursor == (received.after or "0") and self.random.random() < 0.9:
            return  # it sleeps on
        if self.random.random() < 0.1:
            received = msgspec.structs.replace(received, revision=received.revision - 1)
        if address.run_id == self.run.state.run_id:
            self.do(received)
            self.results.append((task, received))

    def answer_old(self) -> None:
        """A poller that everybody has forgotten, or a result that is delivered again as it was."""
        here = [task for task in self.tasks if task[0].run_id == self.run.state.run_id]
        if here and self.random.random() < 0.6:
            self.take(self.random.choice(here))
        elif self.results:
            task, received = self.random.choice(self.results)
            if task[0].run_id == self.run.state.run_id:
                self.do(msgspec.structs.replace(received, at=self.run.now, revision=self.box.revision))

    def fail(self) -> None:
        self._about(c.Fail, error=Error("source_failed", "it is away"), entropy=self.random.random())

    def lapse(self) -> None:
        self._about(c.Lapse, reason=self.random.choice(("crashed", "handed_back", "handed_back")))

    def _about(self, kind: Any, **fields: Any) -> None:
        here = [task for task in self.tasks if task[0].run_id == self.run.state.run_id]
        if here:
            task = here[-1] if self.random.random() < 0.7 else self.random.choice(here)
            self.do(kind(at=self.run.now, address=task[0], **fields))

    def pause(self) -> None:
        self.do(c.Pause(at=self.run.now))

    def resume(self) -> None:
        self.do(c.Resume(at=self.run.now))

    def rewind(self) -> None:
        items = self.lists[self.source]
        cursor = self.random.choice((None, str(self.random.randint(0, int(self.box.cursor or 0)))))
        again = self.random.random() < 0.4
        if again and self.box.last and not self.box.again and cursor != self.box.cursor:
            upto = items.index(self.box.last) + 1
            self.wanted |= {(one, self.box.round + 1) for one in items[int(cursor or 0) : upto]}
        elif self.box.again or (again and cursor != self.box.cursor):
            return  # one at a time, so that the world knows what is wanted
        self.do(c.Rewind(at=self.run.now, cursor=cursor, again=again, reason="a test"))

    def remap(self) -> None:
        self.do(self.registration())

    def exchange(self) -> None:
        """Another source takes its place once everything of this one has come in."""
        if self.box.again or int(self.box.cursor or 0) < len(self.lists[self.source]):
            return
        name = f"s{len(self.lists)}"
        self.lists[name] = []
        self.source = name
        result = self.do(self.registration(source=name, begins="start"))
        assert isinstance(result, c.Ruling)

    def end(self) -> None:
        if self.open:
            name = self.random.choice(sorted(self.open))
            self.do(c.EndFiring(at=self.run.now, ends=(Over(name, self.open.pop(name), "completed"),)))

    def pass_time(self) -> None:
        self.run.now += self.random.choice((0.5, 5.0, 61.0, 400.0))
        for name, timer in list(self.run.state.timers.items()):
            if timer.due_at <= self.run.now:
                self.do(c.FireTimer(at=self.run.now, timer=name))

    # -- the end -------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        for _ in range(400):
            self.do(c.Resume(at=self.run.now))
            activation = self.run.get(NODE)
            if activation.state == "parked":
                self.do(c.Requeue(at=self.run.now, address=self.run.state.address(activation)))
            self.pass_time()
            while self.open:
                self.end()
            address = self.run.state.address(self.run.get(NODE))
            task = next((one for one in self.tasks if one[0] == address), None)
            if task is not None:
                received = self.read(task)
                if received.items:
                    self.do(received)
            done = int(self.box.cursor or 0) >= len(self.lists[self.source])
            if done and not self.box.waiting and not self.open and self.run.get(NODE).state == "queued":
                return
        raise AssertionError(f"the source is not read to its end: {self.box}")

    def judge(self) -> None:
        expected = {run_of_item("tr", name, turn) for name, turn in self.wanted}
        missing = [one for one in self.wanted if run_of_item("tr", *one) not in self.runs]
        assert not missing, f"no run for {sorted(missing)[:5]} (TG10)"
        assert len(self.runs) == len(set(self.runs)) == len(expected), "an item has a run that nobody wanted (TG4)"


def walk(seed: int, monkeypatch: pytest.MonkeyPatch, steps: int = 80) -> None:
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", Random(f"limits {seed}").choice((40, 120, 200_000)))
    world = World(seed)
    go_through(world, seed, steps)


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 40))])
def test_each_item_of_a_source_has_one_run_whatever_becomes_of_its_polls(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk(seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("start", [1_000, 1_100])
def test_so_it_is_in_many_more_walks(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(start, start + 30):
        walk(seed, monkeypatch, steps=120)


# -- planted bugs ------------------------------------------------------------------------------------------------------

_events: Any = HANDLERS


def _cursor_before_the_append(patch: pytest.MonkeyPatch) -> None:
    """The cursor moves when the poll is sent, by as much as it will bring."""
    real = polls._poll

    def poll(d: Decider, node: str, box: Mailbox) -> None:
        before = len(d.effects)
        real(d, node, box)
        if any(isinstance(effect, fx.Dispatch) for effect in d.effects[before:]):
            d.emit(e.TriggerAdvanced, node=node, after=box.cursor, cursor=str(int(str(box.cursor or 0)) + PAGE))

    patch.setattr(polls, "_poll", poll)


def _items_without_the_cursor(patch: pytest.MonkeyPatch) -> None:
    real = trigger_commands.add_items

    def take(d: Decider, box: Mailbox, items: Any, inputs: Any, errors: Any, moved: Any) -> None:
        real(d, box, items, inputs, errors, {**moved, "cursor": moved["after"]})

    patch.setattr(polls, "add_items", take)


def _cursor_without_the_items(patch: pytest.MonkeyPatch) -> None:
    real = _events[e.TriggerReceived]

    def fold(state: Any, event: e.TriggerReceived) -> None:
        real(state, msgspec.structs.replace(event, items=event.items[:1], inputs=(event.inputs or [None])[:1]))

    patch.setitem(_events, e.TriggerReceived, fold)


def _fence_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(polls, "fence", lambda d, command: d.get(command))


def _after_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Neither does a rewind void the poll: only `after` could tell."""
    real = polls.receive

    def receive(d: Decider, command: c.Receive) -> None:
        real(d, msgspec.structs.replace(command, after=d.state.triggers[NODE].cursor))

    handlers: Any = sys.modules["perdure.kernel.decide"]._HANDLERS
    patch.setitem(handlers, c.Receive, receive)
    patch.setattr(polls, "stop_poll", lambda d, node: None)


def _old_revision_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(polls, "check_revision", lambda box, revision: None)
    real = Decider.emit

    def emit(d: Decider, kind: Any, /, **fields: Any) -> None:
        if kind is e.TriggerReceived and isinstance(d.command, c.Receive):
            fields["revision"] = d.command.revision
        real(d, kind, **fields)

    patch.setattr(Decider, "emit", emit)


def _another_source_keeps_the_poll(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("perdure.kernel.triggers.poll_stops.stop_poll", lambda d, node: None)


def _a_rewind_forgets_the_round(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(polls, "_in_rounds", lambda box, delivered: ((given, 0) for given in delivered))


def _a_round_without_end(patch: pytest.MonkeyPatch) -> None:
    real = trigger_facts._answered

    def answered(state: Any, box: Mailbox, event: Any) -> None:
        box.again = box.again or ("never" if box.round else "")
        real(state, box, event)

    patch.setattr(trigger_facts, "_answered", answered)


BUGS = (
    _cursor_before_the_append,
    _items_without_the_cursor,
    _cursor_without_the_items,
    _fence_skipped,
    _after_not_compared,
    _old_revision_accepted,
    _another_source_keeps_the_poll,
    _a_rewind_forgets_the_round,
    _a_round_without_end,
)


@pytest.mark.slow
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_bug_is_caught(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(200):
        try:
            walk(seed, monkeypatch)
        except (AssertionError, IntegrityError):
            return
    raise AssertionError(f"{plant.__name__} is not noticed")
