"""Another system is told of an approval: signed, at least once, by one of many, whatever dies in between, until it is decided."""

import asyncio

import pytest

from perdure import egress
from perdure.archive.notifications import WANTS_NOTIFICATION, Notification
from perdure.clock import system
from perdure.egress.policy import Policy
from perdure.engine import Engine
from perdure.runtime.notifier import GIVE_UP_SECONDS, LONGEST_RETRY_SECONDS, Notifier, _settle, message_id
from tests.engine.helpers import ask, check, crash, opened, running, start, task, until_true
from tests.notify.helpers import OK, SECRET, asking, message, notification, notifier, serving, status, until_settled

HOUR = 3600.0


def answers(*numbers: int):
    """One status after the other, the last for ever."""
    left = list(numbers)
    return lambda seen: status(left.pop(0) if len(left) > 1 else left[0])


async def asked(path, port, **config) -> Engine:
    """An engine that has asked and has no notifier of its own: nobody was told yet."""
    engine = await opened(path)
    await engine.hold(work=False)
    await start(engine, asking(port, **config))
    await until_true(lambda: notification(engine.journal), "the approval is durable")
    return engine


async def test_the_other_system_is_told_what_people_see_and_where_to_answer(tmp_path):
    async with serving(lambda seen: OK) as receiver, running(tmp_path, public_url="https://perdure.example/") as engine:
        await start(engine, asking(receiver.port, approvers=["ann", "bob"], quorum=2, timeout_seconds=600))
        found = await until_settled(engine.journal, "delivered")
        assert (found.attempts, found.last_error) == (1, "")
        (seen,) = receiver.seen
        assert (seen.method, seen.target, seen.headers["content-type"]) == (
            "POST",
            "/told?for=perdure",
            "application/json",
        )
        told = message(seen)
        assert (told["type"], told["timestamp"][-1]) == ("approval.requested", "Z")
        data = told["data"]
        assert data.pop("expires_at") - data.pop("requested_at") == pytest.approx(600)
        assert data == {
            "approval_id": "r1:ask:1",
            "run_id": "r1",
            "node": "ask",
            "correlation_id": None,
            "workflow": "asking",
            "version": data["version"],
            "shown": {"show": {"amount": 50}},
            "approvers": ["ann", "bob"],
            "quorum": 2,
            "answer_url": "https://perdure.example/api/v1/hooks/approvals/r1:ask:1",
            "answer_as": "webhook:127.0.0.1",
        }
        row = await engine.journal.get_approval("r1:ask:1")
        assert row.body.startswith(WANTS_NOTIFICATION)
        assert seen.headers["webhook-id"] == message_id(row)
        await check(engine.journal)


async def test_what_is_sealed_is_masked_and_no_secret_is_told_or_stored(tmp_path):
    value = {"card": "4111-1111", "name": "ann", "key": "{{ secrets.HOOK }}"}
    made = task("made", args={"value": value}, sensitive=["value.card"])
    async with serving(lambda seen: OK) as receiver:
        definition = asking(receiver.port, show="{{ made.value }}")
        human, said = definition["nodes"]
        definition["nodes"] = [made, {**human, "dependencies": ["made"]}, said]
        async with running(tmp_path) as engine:
            await start(engine, definition)
            await until_settled(engine.journal, "delivered")
        (seen,) = receiver.seen
        assert message(seen)["data"]["shown"]["show"] == {"card": "***", "name": "ann", "key": "***"}
        assert b"4111" not in seen.body
        assert SECRET.encode() not in seen.body
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"127.0.0.1" in stored
    assert SECRET.encode() not in stored


async def test_it_is_tried_again_with_growing_pauses_until_it_is_taken(tmp_path):
    async with serving(answers(500, 302, 200)) as receiver:
        engine = await asked(tmp_path, receiver.port)
        try:
            pauses = []
            for ahead in (0.0, HOUR):
                await notifier(engine, ahead).deliver()
                found = await notification(engine.journal)
                assert found.state == "waiting"
                assert f"answered {status_of(receiver)}" in found.last_error
                assert "perdure" not in found.last_error  # values of a query are nobody's business
                pauses.append(found.next_at - notifier(engine, ahead)._clock.now())
            assert 2.5 - 0.5 < pauses[0] < 7.5 < 2 * 7.5
            assert 5.0 - 0.5 < pauses[1] < 15.0
            assert await notifier(engine, HOUR).deliver() == 0  # not before its time
            await notifier(engine, 2 * HOUR).deliver()
            found = await notification(engine.journal)
            assert (found.state, found.attempts, found.last_error) == ("delivered", 3, "")
            assert await notifier(engine, 9 * HOUR).deliver() == 0
            assert len({seen.headers["webhook-id"] for seen in receiver.seen}) == 1
            assert len({seen.headers["webhook-timestamp"] for seen in receiver.seen}) == 3
        finally:
            await engine.close(0.5)


def status_of(receiver) -> int:
    return (500, 302, 200)[len(receiver.seen) - 1]


def test_pauses_double_up_to_an_hour_and_it_is_given_up_after_a_day():
    one = Notifier(None, None, None, system)  # type: ignore[arg-type]
    now = system.now()
    first = Notification(approval_id="a", tenant="t", created_at=now, next_at=now, attempts=1)
    spread = []
    for attempts in range(1, 2000):
        later = one._later(_settle(first, "waiting", attempts=attempts), "x" * 9999)
        expected = min(5 * 2 ** (attempts - 1), LONGEST_RETRY_SECONDS)
        assert expected * 0.49 < later.next_at - now < expected * 1.51 + 1
        assert len(later.last_error) == 500
        spread.append(later.next_at)
    assert len(set(spread[20:])) > 1900  # not all at once
    old = _settle(first, "waiting", created_at=now - GIVE_UP_SECONDS)
    assert (one._later(old, "why").state, one._later(old, "why").last_error) == ("failed", "why")


async def test_it_is_given_up_at_once_where_nobody_is_any_more(tmp_path):
    async with serving(lambda seen: status(410)) as receiver, running(tmp_path) as engine:
        await start(engine, asking(receiver.port))
        found = await until_settled(engine.journal, "failed")
        assert "answered 410" in found.last_error


async def test_of_many_that_notify_at_once_one_sends(tmp_path):
    async with serving(lambda seen: OK) as receiver:
        engine = await asked(tmp_path, receiver.port)
        try:
            done = await asyncio.gather(*(notifier(engine).deliver() for _ in range(20)))
            assert sorted(done) == [0] * 19 + [1]
            assert len(receiver.seen) == 1
        finally:
            await engine.close(0.5)


async def test_what_a_process_did_not_live_to_see_answered_is_sent_again_by_another(tmp_path):
    never = asyncio.Event()

    async def hang(seen, writer):
        if len(receiver.seen) == 1:
            await never.wait()
        return OK

    async with serving(hang) as receiver:
        engine = await opened(tmp_path)
        await engine.hold()
        await start(engine, asking(receiver.port))
        await until_true(lambda: receiver.seen, "it is on its way")
        await crash(engine)
        async with running(tmp_path) as engine:
            assert (await notification(engine.journal)).state == "waiting"
            await notifier(engine, HOUR).deliver()
            assert (await notification(engine.journal)).state == "delivered"
            first, second = receiver.seen
            assert message(first) == message(second, ahead=HOUR)
            assert first.headers["webhook-id"] == second.headers["webhook-id"]


async def test_nobody_is_told_of_what_was_decided_meanwhile(tmp_path):
    async with serving(answers(503, 200)) as receiver:
        engine = await asked(tmp_path, receiver.port)
        try:
            await notifier(engine).deliver()
            reply = await ask(engine, "vote", approval="r1:ask:1", decision="approve", by="ann")
            assert not reply.refused, reply
            await notifier(engine, HOUR).deliver()
            assert (await notification(engine.journal)).state == "stopped"
            assert len(receiver.seen) == 1
        finally:
            await engine.close(0.5)


@pytest.mark.parametrize(
    ("notify", "said"),
    [
        ({"secret": "missing"}, "there is no secret missing for tenant default"),
        ({"secret": "short"}, "at least 24 bytes"),
        ({"url": "http://10.0.0.1/"}, "not public"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "169.254.169.254"),
        ({"url": "http://127.0.0.1:1/"}, "no connection"),
    ],
)
async def test_why_it_could_not_be_sent_is_said_and_nothing_is_sent_unsigned(tmp_path, monkeypatch, notify, said):
    monkeypatch.setenv("PERDURE_SECRET_SHORT", "hunter2")
    async with serving(lambda seen: OK) as receiver:
        target = {"url": f"http://127.0.0.1:{receiver.port}/", "secret": "hook", **notify}
        async with running(tmp_path) as engine:
            await start(engine, asking(0, notify=target))
            found = await until_settled(engine.journal, "waiting")
            assert said in found.last_error
            assert "hunter2" not in found.last_error
        assert receiver.seen == []


async def test_the_loopback_interface_is_not_called_unless_it_is_allowed(tmp_path):
    egress.configure(Policy())
    async with serving(lambda seen: OK) as receiver, running(tmp_path) as engine:
        await start(engine, asking(receiver.port))
        found = await until_settled(engine.journal, "waiting")
        assert "is refused" in found.last_error
        assert receiver.connections == 0


async def test_one_that_cannot_be_sent_stops_neither_the_others_nor_the_engine(tmp_path):
    async with serving(lambda seen: OK) as receiver, running(tmp_path) as engine:
        real = engine.vault.reveal

        def reveal(name, tenant, queue):
            if name == "odd":
                raise RuntimeError("a provider of somebody's that is broken")
            return real(name, tenant, queue)

        engine.vault.reveal = reveal
        url = f"http://127.0.0.1:{receiver.port}/"
        await start(engine, asking(0, name="odd", notify={"url": url, "secret": "odd"}))
        found = await until_settled(engine.journal, "waiting")
        assert found.last_error == "RuntimeError"
        await start(engine, asking(receiver.port), run_id="r2")
        await until_settled(engine.journal, "delivered", "r2:ask:1")
        engine.parts.check()


async def test_an_url_and_a_secret_may_come_from_the_inputs(tmp_path):
    async with serving(lambda seen: OK) as receiver, running(tmp_path) as engine:
        notify = {"url": "{{ inputs.url }}", "secret": "{{ inputs.secret }}"}
        inputs = {"url": f"http://127.0.0.1:{receiver.port}/x", "secret": "hook"}
        await start(engine, asking(0, notify=notify), inputs=inputs)
        await until_settled(engine.journal, "delivered")
        assert message(receiver.seen[0])["data"]["run_id"] == "r1"


@pytest.mark.parametrize("inputs", [{"url": "ftp://x", "secret": "hook"}, {"url": "http://x.example", "secret": "a b"}])
async def test_a_rendered_config_that_is_wrong_fails_the_node_and_nobody_is_told(tmp_path, inputs):
    async with running(tmp_path) as engine:
        await start(
            engine, asking(0, notify={"url": "{{ inputs.url }}", "secret": "{{ inputs.secret }}"}), inputs=inputs
        )

        async def look():
            state = await engine.runs.state("r1")
            return state if state.terminal else None

        state = await until_true(look, "the run ends")
        assert state.error.code == "bad_config"
        assert await notification(engine.journal) is None


@pytest.mark.slow
async def test_a_host_that_does_not_answer_is_left_alone_for_a_moment_and_others_are_told(tmp_path):
    never = asyncio.Event()

    async def hang(seen, writer):
        await never.wait()

    async with serving(hang) as silent, serving(lambda seen: OK) as receiver:
        engine = await asked(tmp_path, silent.port)
        try:
            one = notifier(engine)
            one._silent["default", "http", "127.0.0.1", silent.port] = system.monotonic() + 60  # it was silent before
            for number in range(2, 30):
                await start(engine, asking(silent.port), run_id=f"r{number}")
            await start(engine, asking(receiver.port), run_id="other")
            await until_true(lambda: notification(engine.journal, "other:ask:1"), "the approval is durable")
            async with asyncio.timeout(5):
                await one.deliver()
            assert (await notification(engine.journal, "other:ask:1")).state == "delivered"
            left = await notification(engine.journal)
            assert (left.state, left.last_error) == ("waiting", "127.0.0.1 did not answer another request a moment ago")
            assert silent.connections == 0
        finally:
            await engine.close(0.5)


async def test_one_request_without_an_answer_is_enough_to_know_a_host_for_silent(tmp_path):
    engine = await asked(tmp_path, 1)
    try:
        one = notifier(engine)
        await one.deliver()
        assert "no connection" in (await notification(engine.journal)).last_error
        assert list(one._silent) == [("default", "http", "127.0.0.1", 1)]
    finally:
        await engine.close(0.5)
