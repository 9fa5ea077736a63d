"""Triggers inside a run, in an unkind world: random walks with pollers that die or come late, failing work, retries, pauses and continuations.

The source is a list that grows. In the end the activations of the trigger have had each of its items, once and in order. Each planted bug is
caught, and so is each corruption of a journal (TG14).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from perdure.invariants import check
from perdure.kernel import commands as c
from perdure.kernel import continuations
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.decider import Decider
from perdure.kernel.facts.fold_rules import HANDLERS
from perdure.kernel.lifecycle import IntegrityError
from perdure.kernel.outcomes import accept
from perdure.kernel.triggers import carried, polls, receivers, trigger_nodes
from perdure.kernel.triggers.mailbox import Policy
from perdure.kernel.triggers.receivers import find_receiver, is_poll
from perdure.kernel.values import Error
from tests.kernel.driver import compiled
from tests.kernel.inner_triggers import Inner, graph
from tests.kernel.rules.graphs import node
from tests.property.worlds import go_through

replace = msgspec.structs.replace
PAGE = 3


class World:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.ir = compiled(*graph(), node("side"))
        self.items: list[str] = []
        self.kind = random.choice(("table", "table", "event"))
        self.buffer = random.choice((2, 1000))
        self.sent: list[tuple[Any, bool, Any]] = []
        """Every attempt of the trigger that was sent: its address, whether it polls, and the cursor it was given."""
        self.results: list[c.Command] = []
        self.taken: list[str] = []
        self.fed = 0
        self.steps: list[str] = []
        self.run: Any = Inner(self.ir)
        self.note()

    def do(self, command: c.Command) -> None:
        self.steps.append(repr(command)[:200])
        run = self.run
        run.do(command)
        self.note()
        went = next((one for one in run.effects if isinstance(one, fx.ContinueRun)), None)
        if went is not None and not run.refused and run.state.continued_as == went.run_id:
            self.run, self.fed = Inner(self.ir, went=went), 0
            self.run.now = run.now
            self.note()

    def note(self) -> None:
        run = self.run
        for event in run.journal[self.fed :]:
            if isinstance(event, e.NodeCompleted) and event.node == "take":
                self.taken.append(event.output["n"])
        self.fed = len(run.journal)
        for effect in () if run.refused else run.effects:
            if isinstance(effect, fx.Dispatch) and effect.address.node == "take":
                polls_ = is_poll(run.state, run.state.locate(effect.address))
                cursor = run.box.cursor if "take" in run.state.triggers else None
                self.sent.append((effect.address, polls_, cursor))

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        rules: list[tuple[float, Callable[[], None]]] = [
            (4, self.grow),
            (7, self.answer),
            (1.5, self.answer_old),
            (1, self.fail_poll),
            (1, self.lapse),
            (7, self.work),
            (0.5, self.fail_work),
            (1, self.retry),
            (0.7, self.pause),
            (1.5, self.resume),
            (2, self.hear),
            (2, self.pass_time),
        ]
        self.random.choices([rule for _, rule in rules], [weight for weight, _ in rules])[0]()

    def grow(self) -> None:
        for _ in range(self.random.choice((1, 2, 7))):
            self.items.append(f"i{len(self.items)}")

    def here(self) -> list[tuple[Any, bool, Any]]:
        return [one for one in self.sent if one[0].run_id == self.run.state.run_id]

    def answer(self) -> None:
        if found := self.here():
            self.take(found[-1])

    def answer_old(self) -> None:
        found = self.here()
        if found and self.random.random() < 0.6:
            self.take(self.random.choice(found))
        elif self.results:
            self.do(replace(self.random.choice(self.results), at=self.run.now))

    def take(self, sent: tuple[Any, bool, Any]) -> None:
        """What a coordinator, or a worker, makes of an attempt."""
        address, polls_, cursor = sent
        if not polls_:
            policy = Policy(overlap="buffer", buffer=self.buffer)
            about: Any = {"source": "s"} if self.kind == "table" else {"topic": "event:paid", "cursor": "0"}
            about |= {"at": self.run.now, "node": "take", "name": "take", "kind": self.kind, "inner": True}
            wanted = c.Register(**about, policy=policy)
            self.put(c.Await(at=self.run.now, address=address, registration=wanted))
            return
        begin, page = self.page(cursor)
        if not page and self.random.random() < 0.9:
            return  # it sleeps on
        fields: Any = {"items": page, "after": cursor, "cursor": str(begin + len(page)), "revision": 1}
        self.put(c.Receive(at=self.run.now, address=address, **fields))

    def page(self, cursor: Any) -> tuple[int, tuple[c.Delivered, ...]]:
        begin = int(cursor or 0)
        made = (c.Delivered(id=name, inputs={"n": name}) for name in self.items[begin : begin + PAGE])
        return begin, tuple(made)

    def put(self, command: c.NodeCommand) -> None:
        self.results = [one for one in self.results if one.address.run_id == command.address.run_id]  # type: ignore[attr-defined]
        self.results.append(command)
        self.do(command)

    def hear(self) -> None:
        if self.kind != "event" or "take" not in self.run.state.triggers:
            return
        cursor = self.run.box.cursor if self.random.random() < 0.9 else "0"
        begin, page = self.page(cursor)
        if page:
            upto = str(begin + len(page))
            self.do(c.Hear(at=self.run.now, node="take", items=page, after=cursor, cursor=upto, revision=1))

    def _about(self, kind: Any, **fields: Any) -> None:
        found = [one for one in self.here() if one[1]]
        if found:
            one = found[-1] if self.random.random() < 0.7 else self.random.choice(found)
            self.do(kind(at=self.run.now, address=one[0], **fields))

    def fail_poll(self) -> None:
        self._about(c.Fail, error=Error("source_failed", "it is away"), entropy=self.random.random())

    def lapse(self) -> None:
        self._about(c.Lapse, reason=self.random.choice(("crashed", "handed_back", "handed_back")))

    def work(self) -> None:
        self._end_work(lambda address: c.Complete(at=self.run.now, address=address, output={"again": True}))

    def fail_work(self) -> None:
        error = Error("error", "it failed")
        self._end_work(lambda address: c.Fail(at=self.run.now, address=address, error=error, retryable=False))

    def _end_work(self, make: Callable[[Any], c.Command]) -> None:
        state = self.run.state
        for activation in list(state.activations.values()):
            if state.name(activation.node) in ("work", "side") and activation.state in receivers.OUT:
                if state.name(activation.node) == "work" or self.random.random() < 0.2:
                    self.do(make(state.address(activation)))

    def retry(self) -> None:
        if self.run.status == "failed":
            self.do(c.Retry(at=self.run.now))

    def pause(self) -> None:
        self.do(c.Pause(at=self.run.now))

    def resume(self) -> None:
        self.do(c.Resume(at=self.run.now))

    def pass_time(self) -> None:
        self.run.now += self.random.choice((0.5, 5.0, 61.0, 400.0))
        for name, timer in list(self.run.state.timers.items()):
            if timer.due_at <= self.run.now:
                self.do(c.FireTimer(at=self.run.now, timer=name))

    # -- the end -------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        for _ in range(40 + 6 * len(self.items)):
            self.retry()
            self.resume()
            self.pass_time()
            state = self.run.state
            for activation in list(state.activations.values()):
                if activation.state == "parked":
                    self.do(c.Requeue(at=self.run.now, address=state.address(activation)))
            self.work()
            self.hear()
            found = None if "take" not in self.run.state.triggers else find_receiver(self.run.state, "take")
            address = None if found is None else self.run.state.address(found)
            for one in [one for one in self.sent if one[0] == address] or self.here()[:1]:
                self.take(one)
            if len(self.taken) >= len(self.items):
                return

    def judge(self) -> None:
        assert self.taken == self.items, "not each item once and in order (rule 54)"


def walk(seed: int, monkeypatch: pytest.MonkeyPatch, steps: int = 80) -> None:
    monkeypatch.setattr(continuations, "LONG_JOURNAL", Random(f"limits {seed}").choice((30, 100, 10_000)))
    world = World(seed)
    go_through(world, seed, steps)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 16))])
def test_each_item_is_the_outcome_of_one_activation_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    walk(seed, monkeypatch)


# -- planted bugs ------------------------------------------------------------------------------------------------------

_events: Any = HANDLERS


def _an_item_is_not_taken_out(patch: pytest.MonkeyPatch) -> None:
    """What was handed over waits on: the next activation has it again."""
    patch.setitem(_events, e.TriggerHanded, lambda state, event: None)


def _handed_over_without_a_fact(patch: pytest.MonkeyPatch) -> None:
    real = Decider.emit

    def emit(d: Decider, kind: Any, /, **fields: Any) -> None:
        if kind is not e.TriggerHanded:
            real(d, kind, **fields)

    patch.setattr(Decider, "emit", emit)


def _the_last_comes_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trigger_nodes, "min", max, raising=False)


def _the_page_is_for_one_activation(patch: pytest.MonkeyPatch) -> None:
    """What a poll brought beside the first item is forgotten with the iteration."""
    real = _events[e.TriggerHanded]

    def fold(state: Any, event: e.TriggerHanded) -> None:
        real(state, event)
        for number in list(state.triggers[event.node].waiting):
            state.drop(state.triggers[event.node].waiting, number)

    patch.setitem(_events, e.TriggerHanded, fold)


def _mailbox_not_carried_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(continuations, "carry", lambda state: ())


def _items_not_carried_over(patch: pytest.MonkeyPatch) -> None:
    real = carried._carry

    def lose(state: Any, name: str) -> c.Carried:
        one = real(state, name)
        return replace(one, mailbox=replace(one.mailbox, waiting={}))

    patch.setattr(carried, "_carry", lose)


def _fence_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(polls, "fence", lambda d, command: d.get(command))
    real = polls.receive

    def receive(d: Decider, command: c.Receive) -> None:
        real(d, replace(command, after=d.state.triggers["take"].cursor))

    handlers: Any = sys.modules["perdure.kernel.decide"]._HANDLERS
    patch.setitem(handlers, c.Receive, receive)


def _a_paused_run_is_handed_items(patch: pytest.MonkeyPatch) -> None:
    def serve(d: Decider) -> None:
        for name, box in d.state.triggers.items():
            receiver = find_receiver(d.state, name)
            if box.waiting and receiver is not None and receiver.state == "waiting":
                item = box.waiting[min(box.waiting)]
                d.emit(e.TriggerHanded, node=name, number=item.number, scope=receiver.scope)
                accept(d, receiver, output=item.inputs)

    patch.setattr(trigger_nodes, "serve", serve)


def _a_failing_run_polls_on(patch: pytest.MonkeyPatch) -> None:
    """The run waits for a poll that may sleep for ever, and does not end."""
    patch.setattr("perdure.kernel.decider.find_inner_polls", lambda state: [])


def _nobody_polls_after_a_pause(patch: pytest.MonkeyPatch) -> None:
    real = polls._poll

    def poll(d: Decider, name: str, box: Any) -> None:
        if not isinstance(d.command, c.Resume):
            receiver = find_receiver(d.state, name)
            if receiver is None or receiver.state != "waiting" or receiver.attempt < 2:
                real(d, name, box)

    patch.setattr(polls, "_poll", poll)


BUGS = (
    _an_item_is_not_taken_out,
    _handed_over_without_a_fact,
    _the_last_comes_first,
    _the_page_is_for_one_activation,
    _mailbox_not_carried_over,
    _items_not_carried_over,
    _fence_skipped,
    _a_paused_run_is_handed_items,
    _a_failing_run_polls_on,
    _nobody_polls_after_a_pause,
)


@pytest.mark.slow
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_bug_is_caught(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in (0, 1, 2, 13, *range(20, 400)):
        try:
            walk(seed, monkeypatch)
        except (AssertionError, IntegrityError, KeyError):
            return
    raise AssertionError(f"{plant.__name__} is not noticed")


# -- corruptions -------------------------------------------------------------------------------------------------------


def journal() -> list[Any]:
    """Two items come by one poll, and both are taken."""
    run: Any = Inner()
    run.wait()
    run.receive("a", "b")
    run.work((1,))
    run.wait((2,))
    return list(run.journal)


def change(events: list[Any], type_: str, place: int = 0, **fields: Any) -> list[Any]:
    found = [number for number, event in enumerate(events) if event.type == type_ and event.node == "take"]
    return [replace(event, **fields) if number == found[place] else event for number, event in enumerate(events)]


CORRUPTIONS: dict[str, tuple[str, Callable[[], list[Any]]]] = {
    "the second is handed over first": ("TG14", lambda: change(journal(), "trigger.handed", number=2)),
    "an item is handed over twice": ("TG1", lambda: change(journal(), "trigger.handed", 1, number=1)),
    "an item goes to an iteration that does not wait": (
        "TG14",
        lambda: change(journal(), "trigger.handed", 1, scope=(1,)),
    ),
    "the outcome is another one": ("TG14", lambda: change(journal(), "node.completed", output={"n": "z"})),
    "what starts runs hands over": (
        "TG14",
        lambda: change(journal(), "trigger.registered", inner=False),
    ),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_caught(name: str) -> None:
    invariant, make = CORRUPTIONS[name]
    ir = compiled(*graph())
    assert check(journal(), {ir.hash: ir}) == []
    assert invariant in {violation.id for violation in check(make(), {ir.hash: ir})}
