"""Triggers that listen, in an unkind world: random walks with readers that are late, read twice, or mapped by an old revision.

The topics are lists that grow; a reader takes a page behind some cursor, and puts it to the trigger at any time after, also when another has
long done so. In the end everything that happened since the trigger listens has exactly one run. Each planted bug is caught.
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
from perdure.kernel.lifecycle import IntegrityError
from perdure.kernel.triggers import topics, trigger_commands
from perdure.kernel.triggers.mailbox import Mailbox, Over, Policy, run_of_item
from tests.kernel.mailboxes import TriggerRun

PAGE = 3


class World:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.log: list[tuple[str, str]] = []
        """What happened: topic and id; its position is its place, from 1 on."""
        self.pages: list[c.Hear] = []
        self.open: dict[str, int] = {}
        self.runs: list[str] = []
        self.wanted: set[str] = set()
        self.topic, self.counter = "event:0", 0
        self.policy: dict[str, Any] = {"open": random.choice((1, 3, 100)), "buffer": random.choice((2, 1000))}
        self.run = TriggerRun()
        self.register()

    @property
    def box(self) -> Mailbox:
        return self.run.box

    def register(self, topic: str = "") -> None:
        self.counter += 1
        policy = Policy(workflow="report", overlap="buffer", **self.policy)
        about: Any = {"spec": {"n": self.counter}, "topic": topic or self.topic, "cursor": str(len(self.log))}
        if topic not in (
            "",
            self.topic,
        ):  # what it has not read of the old one is not missed, as a person asked for another
            self.wanted = {id for id in self.wanted if run_of_item("tr", id) in self.box.seen}
        self.topic = topic or self.topic
        self.do(c.Register(at=self.run.now, name="x", kind="event", policy=policy, **about))

    def do(self, command: c.Command) -> Any:
        result = self.run.do(command)
        self.note()
        for effect in getattr(result, "effects", ()):
            if isinstance(effect, fx.ContinueRun):
                self.run = TriggerRun(now=self.run.now, went=effect)
                self.note()
        return result

    def note(self) -> None:
        for begun in self.run.started:
            assert begun.run_id not in self.runs, f"{begun.run_id} is started twice (TG4)"
            self.runs.append(begun.run_id)
            self.open[begun.run_id] = begun.trigger.number
        self.run.started = []

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        rules: list[tuple[float, Callable[[], None]]] = [
            (5, self.happen),
            (5, self.read),
            (5, self.put),
            (4, self.end),
            (0.5, self.register),
            (0.3, lambda: self.register(f"event:{self.random.randint(0, 1)}")),
            (0.7, lambda: self.do(c.Pause(at=self.run.now)) and None),
            (1.5, lambda: self.do(c.Resume(at=self.run.now)) and None),
        ]
        self.run.now += self.random.random()
        self.random.choices([rule for _, rule in rules], [weight for weight, _ in rules])[0]()

    def happen(self) -> None:
        for _ in range(self.random.choice((1, 2, 7))):
            self.log.append((f"event:{self.random.randint(0, 1)}", f"id{len(self.log)}"))
            if self.log[-1][0] == self.topic:
                self.wanted.add(self.log[-1][1])

    def read(self) -> None:
        begin = int(str(self.box.cursor))
        there = [(n, id) for n, (topic, id) in enumerate(self.log, 1) if n > begin and topic == self.topic][:PAGE]
        if there:
            items = tuple(c.Delivered(id=id, inputs={"n": id}) for _, id in there)
            about: Any = {"after": str(begin), "cursor": str(there[-1][0]), "revision": self.box.revision}
            self.pages.append(c.Hear(at=0.0, items=items, **about))

    def put(self) -> None:
        """Put some page, the newest or one from long ago, mapped again or not."""
        if self.pages:
            page = self.pages[-1] if self.random.random() < 0.6 else self.random.choice(self.pages)
            if self.random.random() < 0.1:
                page = msgspec.structs.replace(page, revision=page.revision - 1)
            self.do(msgspec.structs.replace(page, at=self.run.now))

    def end(self) -> None:
        if self.open:
            run_id = self.random.choice(sorted(self.open))
            self.do(c.EndFiring(at=self.run.now, ends=(Over(run_id, self.open.pop(run_id), "completed"),)))

    def finish(self) -> None:
        self.do(c.Resume(at=self.run.now))
        before: Any = None
        while before != (before := (self.box.cursor, len(self.runs), len(self.open))) or self.open:
            self.read()
            if self.pages:
                self.do(msgspec.structs.replace(self.pages[-1], at=self.run.now, revision=self.box.revision))
            self.end()
        missing = {id for id in self.wanted if run_of_item("tr", id) not in self.runs}
        assert not missing, f"{sorted(missing)} have happened, and have no run"


def walk(seed: int, steps: int = 60) -> None:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.finish()


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_everything_that_happens_has_one_run(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 60 if block % 2 else 200_000)
    for seed in range(block * 25, block * 25 + 25):
        walk(seed)


def _never_compared(patch: pytest.MonkeyPatch) -> None:
    """`after` is not compared."""
    real = topics.hear

    def take(d: Any, command: c.Hear) -> None:
        real(d, msgspec.structs.replace(command, after=d.state.triggers[command.node].cursor))

    patch.setitem(sys.modules["perdure.kernel.decide"]._HANDLERS, c.Hear, take)


def _always_room(patch: pytest.MonkeyPatch) -> None:
    """What comes to a full mailbox is taken in, and dropped as any other would be."""
    patch.setattr(topics, "has_room", lambda box: True)
    patch.setattr("perdure.kernel.triggers.trigger_commands.math.inf", 0)


def _old_topic(patch: pytest.MonkeyPatch) -> None:
    """The cursor of another topic stays where that of the old one was: the past of the new one comes in."""
    real = trigger_commands.register

    def register(d: Any, command: c.Register) -> None:
        box = d.state.triggers.get(command.node)
        cursor = command.cursor if box is None else str(box.cursor)
        real(d, msgspec.structs.replace(command, cursor=str(max(0, int(cursor) - 5))))

    patch.setitem(sys.modules["perdure.kernel.decide"]._HANDLERS, c.Register, register)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [_never_compared, _always_room, _old_topic])
def test_a_planted_bug_is_caught(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, IntegrityError)):
        _walk_many(400)


def _walk_many(count: int) -> None:
    for seed in range(count):
        walk(seed)
