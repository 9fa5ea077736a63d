"""The rows of triggers are what their journals fold to, in every state (TG11); the doctor finds what differs and derives it anew."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.clock import system
from perdure.doctor import examine
from perdure.doctor.repair import repair
from perdure.engine import Engine
from perdure.journal import Commit, TriggerRow
from perdure.kernel.triggers import trigger_commands
from perdure.kernel.triggers.mailbox import Policy
from perdure.runtime.coordinator.triggers.firings import is_mailbox
from perdure.runtime.coordinator.triggers.trigger_rows import life_of, trigger_row
from perdure.runtime.triggers import trigger_id
from perdure.triggers.declarations import read_data
from tests.engine.helpers import ask, compiled, running, transform, until_true, workflow
from tests.engine.test_triggers import PLAIN, item, register

SCHEDULE = {"name": "nightly", "workflow": "report", "schedule": {"every": "1h"}}


async def find(engine: Engine, name: str = "orders") -> TriggerRow:
    found = await engine.journal.find_trigger("default", name)
    assert found is not None
    return found


async def check_rows(engine: Engine) -> None:
    report = await examine(engine.journal, engine.library)
    assert report.findings == []


async def test_the_row_follows_the_trigger(tmp_path):
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(PLAIN))
        policy = Policy(workflow="report", overlap="buffer", open=100)
        await engine.triggers.register("orders", "webhook", {"any": 1}, policy, hook="h" * 22)
        row = await find(engine)
        assert (row.state, row.kind, row.revision, row.hook, row.workflow) == (
            "active",
            "webhook",
            1,
            "h" * 22,
            "report",
        )
        assert (row.trigger_id, row.head, row.life, row.last_at) == (row.head, trigger_id("default", "orders"), 0, None)
        assert msgspec.json.decode(row.body)["spec"] == {"any": 1}
        await ask(engine, "pause", row.head)
        await engine.triggers.deliver("orders", [item("a"), item("b")], 1)
        row = await find(engine)
        assert (row.state, row.waiting, row.parked) == ("paused", 2, 0)
        assert msgspec.json.decode(row.body)["pauses"] == [{"reason": "", "by": ""}]
        assert row.last_at is not None
        await engine.triggers.register("orders", "webhook", {"any": 2}, policy, hook="another")
        assert ((await find(engine)).revision, (await find(engine)).hook) == (2, "h" * 22)
        await ask(engine, "resume", row.head)

        async def all_ended() -> bool:
            row = await find(engine)
            return (row.waiting, row.open, row.state) == (0, 0, "active")

        await until_true(all_ended, "both runs have ended")
        await check_rows(engine)
        await ask(engine, "cancel", row.head)
        assert (await find(engine)).state == "deleted"
        assert await engine.journal.find_hook("h" * 22) is None
        await check_rows(engine)


async def test_a_schedule_says_when_it_is_due(tmp_path):
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(PLAIN))
        now = system.now()
        (trigger,) = read_data(SCHEDULE, now).get_triggers()
        await engine.triggers.apply(trigger)
        row = await find(engine, "nightly")
        assert row.state == "active"
        assert row.next_at is not None
        assert now < row.next_at <= now + 3700
        assert row.hook is None
        await check_rows(engine)


async def test_a_trigger_that_stops_by_itself_says_why(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, PLAIN, on_poison="stop")
        poison: Any = {"code": "template_error", "message": "no body"}
        one = msgspec.convert({"id": "a", "error": poison}, type(item("a")))
        await engine.triggers.deliver("orders", [one], 1)
        row = await find(engine)
        assert (row.state, row.parked) == ("paused", 1)
        assert row.error is not None
        assert msgspec.json.decode(row.error)["code"] == "poison"


async def test_a_trigger_that_goes_on_as_a_new_run_has_one_row(tmp_path, monkeypatch):
    async with running(tmp_path) as engine:
        await register(engine, workflow(transform("a", {"n": "1"}), name="report"))
        monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 6)
        first = await find(engine)
        await engine.triggers.deliver("orders", [item("a"), item("b"), item("c")], 1)

        async def went_on() -> bool:
            row = await find(engine)
            return row.head != first.head and row.trigger_id == first.trigger_id

        await until_true(went_on, "the successor has the row")
        monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 1_000)
        state = await engine.runs.state(first.head)
        assert state.continued_as is not None
        assert trigger_row(state) is None
        await check_rows(engine)


async def test_the_doctor_finds_a_row_that_differs_and_derives_it_anew(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, PLAIN)
        row = await find(engine)
        record = await engine.journal.get_run(row.head)
        wrong = msgspec.structs.replace(row, state="paused", waiting=7)
        spoil = Commit(run_id=row.head, expected_seq=record.seq, commit_id="spoil", row=record.row, triggers=(wrong,))
        await engine.journal.append([spoil])
        report = await examine(engine.journal, engine.library)
        assert [one.invariant for one in report.findings] == ["TG11", "TG11"]
        assert "its row says state 'paused', its journal 'active'" in report.findings[0].message
        await repair(engine.journal, engine.library, system, report)
        assert await find(engine) == row
        await check_rows(engine)


async def test_the_doctor_names_a_schedule_that_is_ahead_of_the_clock(tmp_path):
    class Past:
        """A clock that was set back."""

        def __getattr__(self, name: str) -> Any:
            return getattr(system, name)

        def now(self) -> float:
            return system.now() - 7_200.0

    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(PLAIN))
        await engine.triggers.apply(read_data(SCHEDULE, 0.0).get_triggers()[0])
        await check_rows(engine)
        report = await examine(engine.journal, engine.library, clock=Past())
        assert [one.invariant for one in report.findings] == ["TG7"]
        assert "schedule nightly has decided on all moments up to" in report.findings[0].message
        assert " s ahead of this clock" in report.findings[0].message
        await ask(engine, "pause", report.findings[0].run_id)
        assert (await examine(engine.journal, engine.library, clock=Past())).findings == []


def test_mailboxes_are_known_by_their_ids():
    assert [is_mailbox(f"trigger~x0123{rest}") for rest in ("", "~2", ".12", ".12~3")] == [True] * 4
    others = ("trigger~x0123~t1790000000", "trigger~x0123.1~i00ff", "trigger~x0123~t17~2", "trigger", "r1~2")
    assert not any(map(is_mailbox, others))


def test_the_life_of_a_trigger_is_in_its_id():
    assert life_of("trigger~x0123abcd") == 0
    assert life_of("trigger~x0123abcd.12") == 12
    assert life_of("of.nobody") == 0


async def test_what_is_parked_is_a_letter_of_the_run_that_is_the_trigger_now(tmp_path, monkeypatch):
    async with running(tmp_path) as engine:
        await register(engine, PLAIN)
        poison: Any = {"code": "template_error", "message": "no body"}
        one = msgspec.convert({"id": "poison", "error": poison}, type(item("a")))
        await engine.triggers.deliver("orders", [one], 1)
        monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 8)
        first = await find(engine)
        await engine.triggers.deliver("orders", [item("a"), item("b"), item("c")], 1)

        async def went_on() -> bool:
            return (await find(engine)).head != first.head

        await until_true(went_on, "the successor has the row")
        monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 1_000)
        letters = (await engine.journal.list_dead_letters()).items
        head = (await find(engine)).head
        assert {(row.run_id, row.state) for row in letters} == {(first.head, "requeued"), (head, "pending")}
        await engine.triggers.settle("orders", 1, "skip", by="ann")
        (letter,) = (await engine.journal.list_dead_letters(run_id=head)).items
        assert (letter.state, msgspec.json.decode(letter.body)["by"]) == ("discarded", "ann")
        await check_rows(engine)
