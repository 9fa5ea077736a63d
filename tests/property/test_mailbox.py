"""Triggers in an unkind world: random walks over everything that can happen to one, then healing.

The world holds the runs that were started, tells their ends late, twice or not in order, delivers what it delivered before, and goes
on as a new run again and again. After every step the checker reads along and the journal folds to the live state (`TriggerRun`).
In the end the world, which keeps its own books, and the mailbox agree: every item had one fate, every identity one run at most, every
moment is accounted for.
"""

from __future__ import annotations

from random import Random
from typing import Any, cast

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.triggers import hand_out, trigger_commands
from perdure.kernel.triggers.mailbox import Over, Policy, Rate, Windowing
from perdure.kernel.values import Error
from tests.kernel.mailboxes import TriggerRun
from tests.property.worlds import go_through

OVERLAPS = ("skip", "buffer_one", "buffer", "cancel", "terminate", "allow")


class World:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.steps: list[str] = []
        self.run = TriggerRun()
        self.journal: list[Any] = []
        """The events of all runs of the chain."""
        self.fed = 0
        self.runs: dict[str, int] = {}
        """Runs that were started, with the number of the firing."""
        self.open: dict[str, int] = {}
        """Those that have not ended, and report their end."""
        self.told: list[Over] = []
        """Ends that were told, which may be told again."""
        self.ids: list[str] = []
        self.sent: set[str] = set()
        """Ids that were taken in."""
        self.every = 60.0
        self.scheduled = random.random() < 0.6
        self.windowed = random.random() < 0.5
        self.counter = 0
        self.register()

    def do(self, command: c.Command) -> Any:
        self.steps.append(repr(command)[:300])
        result = self.run.do(command)
        self.journal += self.run.journal[self.fed :]
        self.fed = len(self.run.journal)
        for begun in self.run.started:
            assert begun.run_id not in self.runs, f"{begun.run_id} is started twice (TG4)"
            self.runs[begun.run_id] = begun.trigger.number
            if begun.trigger.report:
                self.open[begun.run_id] = begun.trigger.number
        self.run.started = []
        carried = [effect for effect in getattr(result, "effects", ()) if isinstance(effect, fx.ContinueRun)]
        if carried:
            before = self.run
            self.run = TriggerRun(now=before.now, went=carried[0])
            assert self.run.box.cursor == before.box.cursor
            assert before.state.pauses.items() <= self.run.state.pauses.items(), "a pause is lost"
            self.journal += self.run.journal
            self.fed = len(self.run.journal)
        return result

    def step(self) -> None:
        rules: list[tuple[float, Any]] = [
            (6, self.pass_time),
            (3, self.fire),
            (1, self.end_again),
            (0.7, self.pause),
            (1.5, self.resume),
            (0.5, self.register),
            (1.5, self.settle),
        ]
        rules.append((5, self.backfill if self.scheduled and self.random.random() < 0.1 else self.deliver))
        if self.open:
            rules.append((6, self.end))
        self.random.choices([rule for _, rule in rules], [weight for weight, _ in rules])[0]()

    @property
    def box(self) -> Any:
        return self.run.state.triggers.get("receive")

    def register(self) -> None:
        random = self.random
        policy: dict[str, Any] = {
            "open": random.choice((1, 1, 2, 5)),
            "per_key": random.choice((0, 1, 2)),
            "overlap": random.choice(OVERLAPS) if self.scheduled else random.choice(("buffer", "buffer", "skip")),
            "buffer": random.choice((3, 1000)),
            "catchup": random.choice(("none", "latest", "all")),
            "within": random.choice((100.0, 86_400.0)),
            "on_poison": random.choice(("park", "park", "stop")),
            "pause_after_failures": random.choice((0, 0, 2)),
        }
        if random.random() < 0.3:
            policy["rate"] = Rate(random.choice((1, 3)), random.choice((1.0, 40.0)))
        if not self.scheduled and self.windowed and random.random() < 0.8:
            quiet = random.choice((0.0, 4.0))
            items, keep = random.choice((2, 5, 1_000)), cast("Any", random.choice(("all", "all", "last")))
            policy["window"] = Windowing(random.choice((10.0, 60.0)), items, quiet, keep)
        self.every = random.choice((7.0, 60.0, 600.0))
        spec = (
            {"every": self.every, "jitter": random.choice((0.0, 0.0, 3.0))}
            if self.scheduled
            else {"n": random.random()}
        )
        kind = "schedule" if self.scheduled else "webhook"
        made = Policy(workflow="report", **policy)
        self.do(c.Register(at=self.run.now, name="x", kind=kind, spec=spec, policy=made))

    def pass_time(self) -> None:
        run = self.run
        run.now += self.random.choice((0.0, 1.0, 5.0, 30.0, 61.0, 700.0))
        due = [name for name, timer in run.state.timers.items() if timer.due_at <= run.now]
        for name in due if self.random.random() < 0.8 else []:  # or late
            self.do(c.FireTimer(at=self.run.now, timer=name))

    def deliver(self) -> None:
        random = self.random
        items = []
        for _ in range(random.choice((1, 1, 2, 6))):
            if self.ids and random.random() < 0.3:
                name = random.choice(self.ids)
            else:
                self.counter += 1
                name = f"d{self.counter}"
                self.ids.append(name)
            error = Error("bad_template") if random.random() < 0.1 else None
            inputs = {"bad": True} if random.random() < 0.1 else {"n": name}
            items.append(c.Delivered(id=name, key=random.choice(("", "k", "l")), inputs=inputs, error=error))
        revision = self.box.revision - (random.random() < 0.1)
        result = self.do(c.Deliver(at=self.run.now, items=tuple(items), revision=revision))
        if isinstance(result, c.Ruling):
            self.sent |= {item.id for item in items}

    def fire(self) -> None:
        self.counter += self.random.random() < 0.8
        overlap: Any = self.random.choice((None, None, "allow", "buffer", "cancel"))
        inputs = {"bad": True} if self.random.random() < 0.1 else None
        self.do(
            c.Fire(
                at=self.run.now, firing=f"f{self.counter}", overlap=overlap, inputs=inputs, revision=self.box.revision
            )
        )

    def backfill(self) -> None:
        until = self.run.now - self.random.choice((0.0, 50.0, 1000.0))
        since = until - self.random.choice((10.0, 500.0))
        again, open_ = self.random.random() < 0.3, self.random.choice((1, 2, 500))
        self.do(c.Backfill(at=self.run.now, since=since, until=until, again=again, open=open_))

    def end(self) -> None:
        names = self.random.sample(sorted(self.open), self.random.randint(1, min(2, len(self.open))))
        state: Any = self.random.choice(("completed", "completed", "failed", "cancelled", "lost"))
        ends = tuple(Over(name, self.open.pop(name), state) for name in names)
        self.told += ends
        self.do(c.EndFiring(at=self.run.now, ends=ends))

    def end_again(self) -> None:
        if self.told:
            old = self.random.choice(self.told)
            result = self.do(c.EndFiring(at=self.run.now, ends=(old,)))
            assert isinstance(result, c.Ruling)
            assert not any(isinstance(event, e.TriggerEnded) for event in result.events), "an end counts twice (TG3)"

    def pause(self) -> None:
        self.do(c.Pause(at=self.run.now, reason=self.random.choice(("", "a person"))))

    def resume(self) -> None:
        self.do(c.Resume(at=self.run.now))

    def settle(self) -> None:
        if self.box.parked:
            number = self.random.choice(sorted(self.box.parked))
            as_: Any = self.random.choice(("again", "skip"))
            key = self.random.choice(("", "k"))
            self.do(c.Settle(at=self.run.now, number=number, as_=as_, key=key, revision=self.box.revision))

    # -- the end -------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Everything is settled and told, until nothing waits any more."""
        box = self.box
        policy = msgspec.structs.replace(box.policy, rate=None)
        self.do(c.Resume(at=self.run.now))
        self.do(c.Register(at=self.run.now, name="x", kind=box.kind, spec=box.spec, policy=policy))
        for _ in range(3_000):
            self.do(c.Resume(at=self.run.now))
            if not self.scheduled:
                self.run.now += 1.0  # windows close
            for number in sorted(self.box.parked):
                self.do(c.Settle(at=self.run.now, number=number, as_="skip"))
            for name in sorted(self.open):
                self.do(c.EndFiring(at=self.run.now, ends=(Over(name, self.open.pop(name), "completed"),)))
            for name, timer in list(self.run.state.timers.items()):
                if timer.due_at <= self.run.now:
                    self.do(c.FireTimer(at=self.run.now, timer=name))
            done = all(lane.cursor >= lane.until for lane in self.box.lanes.values())
            if not self.box.waiting and not self.box.parked and not self.open and done:
                return
        raise AssertionError(f"items wait for ever: {self.box}")

    def judge(self) -> None:
        fates: dict[int, str] = {}
        received: dict[int, Any] = {}
        for event in self.journal:
            match event:
                case e.TriggerReceived():
                    received |= {item.number: item for item in event.items}
                case e.TriggerSkipped():
                    fates |= dict.fromkeys(event.numbers, "skipped")
                case e.TriggerStarted():
                    fates |= {number: "started" for begun in event.starts for number in begun.numbers}
                case e.TriggerReleased(as_="skip"):
                    fates[event.number] = "skipped"
        assert sorted(received) == sorted(fates), "an item has no fate (TG1)"
        begun = [one for event in self.journal if isinstance(event, e.TriggerStarted) for one in event.starts]
        started = {one.run_id if "~w" in one.run_id else received[one.numbers[-1]].run_id for one in begun}
        assert started == set(self.runs), "what is recorded as started is what was started"
        numbers = [number for one in begun for number in one.numbers]
        assert len(numbers) == len(set(numbers)), "an item is started twice (TG1)"
        assert {item.id for item in received.values() if item.run_id.startswith("tr~i")} == self.sent
        if self.scheduled:
            self._judge_moments()

    def _judge_moments(self) -> None:
        """Every moment since the registration was received as it came, or is counted as skipped (TG7)."""
        seen: dict[float, int] = {}
        spec: dict[str, Any] = {}
        cursor = 0.0
        left = 0
        expected = 0
        for event in self.journal:
            found: Any = event
            match event:
                case e.TriggerRegistered():
                    spec, cursor = found.spec, found.cursor
                case e.TriggerSkipped(count=count, lane=0) if count:
                    left += count
                case e.TriggerReceived(lane=0) | e.TriggerAdvanced(lane=0) if found.cursor != found.after:
                    moments = round((found.cursor - found.after) // spec["every"] + 1)
                    exact = [
                        moment
                        for number in range(moments + 2)
                        if found.after
                        < (moment := (found.after // spec["every"] + number) * spec["every"])
                        <= found.cursor
                    ]
                    expected += len(exact)
                    for item in getattr(found, "items", ()):
                        assert item.nominal in exact
                        seen[item.nominal] = seen.get(item.nominal, 0) + 1
                    assert found.after == cursor
                    cursor = found.cursor
        assert max(seen.values(), default=0) <= 1
        assert len(seen) + left == expected, "a moment was passed without a fact (TG7)"


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 60))])
def test_a_mailbox_keeps_its_promises_in_any_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    walk(seed, monkeypatch, steps=60)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1_000, 1_200, 50))
def test_many_more_mailboxes_do_too(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(start, start + 50):
        walk(seed, monkeypatch, steps=100)


def walk(seed: int, monkeypatch: pytest.MonkeyPatch, *, steps: int) -> World:
    random = Random(f"limits {seed}")
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", random.choice((25, 60, 200_000)))
    monkeypatch.setattr(hand_out, "MOST_STARTS", random.choice((2, 200)))
    monkeypatch.setattr(hand_out, "LANE_PAGE", random.choice((2, 100)))
    monkeypatch.setattr(trigger_commands, "PAGE", random.choice((5, 10_000)))
    world = World(seed)
    go_through(world, seed, steps)
    return world
