"""Suspension in a worker: what a handler asks for ends its attempt, however the handler takes it (rule 77)."""

import asyncio
from typing import Any

import pytest

import perdure
from perdure.kernel.values import with_step
from perdure.runtime.worker.local_context import LocalContext
from tests.runtime.harness import make_task, working

NAP = {"nap": perdure.Sleep(60)}
NAPPED: dict[str, Any] = {"checkpoint": with_step(None, "nap", {}), "asked": {"nap": ""}}


async def until_end(h):
    results = [await h.result()]
    while results[-1].kind == "checkpointed":
        results.append(await h.result())
    return results[:-1], results[-1]


async def catches_everything(config, ctx):
    try:
        await ctx.ask(NAP)
    except BaseException:  # noqa: BLE001  as code that catches everything does
        return "went on"


async def raises_something_else(config, ctx):
    try:
        await ctx.ask(NAP)
    finally:
        raise ValueError("while it unwinds")


async def asks_in_a_group(config, ctx):
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.ask(NAP))
        group.create_task(asyncio.sleep(3600))


async def asks_and_cancels_itself(config, ctx):
    try:
        await ctx.ask(NAP)
    except BaseException:  # noqa: BLE001  as code that catches everything does
        raise asyncio.CancelledError from None


def asks_in_a_thread(config, ctx):
    ctx.ask(NAP)


@pytest.mark.parametrize(
    "handler",
    [catches_everything, raises_something_else, asks_in_a_group, asks_and_cancels_itself, asks_in_a_thread],
    ids=lambda handler: handler.__name__,
)
async def test_the_attempt_is_suspended_whatever_the_handler_makes_of_it(handler):
    async with working(handler) as h:
        result = await h.do(make_task())
    assert (result.kind, result.output) == ("suspended", None)
    [ask] = result.asks
    assert ask | {"content": ""} == {"name": "nap", "kind": "sleep", "seconds": 60.0, "content": ""}
    assert len(ask["content"]) == 32


async def test_answers_are_given_and_only_what_has_none_is_asked_for():
    async def handler(config, ctx):
        return await ctx.ask({**NAP, "ok": perdure.Approval(show={"sum": 7}, approvers=["ann"])})

    async with working(handler) as h:
        result = await h.do(make_task(**NAPPED))
        assert [ask["name"] for ask in result.asks] == ["ok"]
        assert result.asks[0] | {"content": ""} == {
            "name": "ok",
            "kind": "approval",
            "approvers": ["ann"],
            "quorum": 1,
            "on_timeout": "reject",
            "escalate_to": [],
            "shown": {"sum": 7},
            "form": None,
            "content": "",
        }
        kept = with_step(NAPPED["checkpoint"], "ok", {"decision": "approve"})
        both = make_task(attempt=2, checkpoint=kept, asked={"nap": "", "ok": result.asks[0]["content"]})
        assert (await h.do(both)).output == {"nap": {}, "ok": {"decision": "approve"}}


async def test_what_was_answered_and_is_asked_otherwise_is_found_out():
    async def handler(config, ctx):
        await ctx.ask(NAP)

    async with working(handler) as h:
        result = await h.do(make_task(checkpoint=NAPPED["checkpoint"], asked={"nap": "of something else"}))
        assert (result.kind, result.code, result.retryable) == ("failed", "ask_changed", False)
        result = await h.do(make_task(attempt=2, checkpoint=NAPPED["checkpoint"]))
        assert (result.kind, result.code) == ("failed", "error")
        assert "is a step of this handler" in result.message


async def test_steps_that_have_begun_are_kept_and_none_begins_afterwards():
    begun = asyncio.Event()
    late: list[int] = []

    async def slow():
        begun.set()
        await asyncio.sleep(0.05)
        return "slow"

    async def handler(config, ctx):
        async def ask():
            await begun.wait()
            await ctx.ask(NAP)

        async def more():
            await begun.wait()
            await asyncio.sleep(0)
            await ctx.step("late", late.append, 1)

        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step("slow", slow))
            group.create_task(ask())
            group.create_task(more())

    async with working(handler) as h:
        await h.publish(make_task())
        [kept], end = await until_end(h)
    assert (kept.step, kept.output) == ("slow", "slow")
    assert (end.kind, [ask["name"] for ask in end.asks], late) == ("suspended", ["nap"], [])


async def test_a_step_cannot_ask():
    async def handler(config, ctx):
        async def asks():
            await ctx.ask(NAP)

        await ctx.step("asks", asks)

    async with working(handler) as h:
        result = await h.do(make_task())
    assert (result.kind, result.code) == ("failed", "error")
    assert "a step cannot ask" in result.message


async def test_sleep_and_signal_are_short_for_asking():
    async def handler(config, ctx):
        await ctx.sleep("nap", 60)
        return await ctx.signal("payment")

    async def late(config, ctx):
        return await ctx.signal("payment", name="second", timeout_seconds=5)

    async with working(handler) as h:
        assert (await h.do(make_task())).asks[0]["kind"] == "sleep"
        result = await h.do(make_task(attempt=2, **NAPPED))
        assert result.asks[0] | {"content": ""} == {
            "name": "payment",
            "kind": "signal",
            "signal": "payment",
            "content": "",
        }
        paid = with_step(NAPPED["checkpoint"], "payment", {"payload": {"sum": 7}, "timed_out": False})
        done = await h.do(make_task(attempt=3, checkpoint=paid, asked={"nap": "", "payment": ""}))
        assert done.output == {"sum": 7}
    async with working(late) as h:
        kept = with_step(None, "second", {"payload": None, "timed_out": True})
        result = await h.do(make_task(checkpoint=kept, asked={"second": ""}))
        assert (result.kind, result.message) == ("failed", "TimeoutError: the signal did not come in time")


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ({}, "needs what is asked for"),
        ({"a b": perdure.Sleep(1)}, "cannot name an ask"),
        ({"a": perdure.Sleep(-1)}, "needs a number of seconds"),
        ({"a": perdure.Signal("")}, "needs the name of a signal"),
        ({"a": perdure.Child(7)}, "needs the name of a workflow"),
        ({"a": perdure.Approval(approvers=["ann"], quorum=2)}, "impossible"),
        ({"a": perdure.Approval(approvers=[])}, "names nobody"),
        ({"a": perdure.Approval(show="x" * 300_000)}, "bytes"),
        ({"a": 7}, "ask for an Approval"),
    ],
    ids=["none", "name", "seconds", "signal", "workflow", "quorum", "nobody", "large", "other"],
)
async def test_what_cannot_be_asked_for_fails_the_attempt(asks, says):
    async def handler(config, ctx):
        await ctx.ask(asks)

    async with working(handler) as h:
        result = await h.do(make_task())
    assert result.kind == "failed"
    assert says in result.message


async def test_a_name_is_used_once_in_an_attempt():
    async def handler(config, ctx):
        await ctx.step("nap", int)
        await ctx.ask(NAP)

    async with working(handler) as h:
        await h.publish(make_task())
        _, result = await until_end(h)
    assert "used before" in result.message


async def test_a_node_with_sensitive_fields_shows_nothing():
    async def handler(config, ctx):
        await ctx.ask({"ok": perdure.Approval(show=config)})

    async def naps(config, ctx):
        await ctx.ask(NAP)

    async with working(handler) as h:
        result = await h.do(make_task(sensitive=("card",)))
        assert (result.kind, result.code) == ("failed", "cannot_suspend")
    async with working(naps) as h:
        assert (await h.do(make_task(sensitive=("card",)))).kind == "suspended"


async def test_a_function_that_is_called_directly_cannot_ask():
    ctx: Any = LocalContext("naps", is_async=True)
    with pytest.raises(RuntimeError, match="no run that waits"):
        await ctx.sleep("nap", 1)


# -- steps that may happen at most once (rule 81) -------------------------------------------------------------------------


def charges(config, ctx):
    return ctx.step("pay", lambda: "paid", effect="at_most_once")


async def charges_on_the_loop(config, ctx):
    return await ctx.step("pay", lambda: "paid", effect="at_most_once")


@pytest.mark.parametrize("handler", [charges, charges_on_the_loop])
async def test_a_step_that_may_happen_once_begins_before_it_is_done(handler):
    async with working(handler) as h:
        await h.publish(make_task())
        [begins, kept], end = await until_end(h)
        assert (begins.step, begins.output, bool(begins.begins)) == ("pay", None, True)
        assert (kept.step, kept.output, kept.begins) == ("pay", "paid", "")
        assert end.output == "paid"
        result = await h.do(make_task(attempt=2, begun=("pay",)))
        assert (result.kind, result.code, result.retryable) == ("failed", "step_ambiguous", False)
        kept = with_step(None, "pay", "paid")
        assert (await h.do(make_task(attempt=3, checkpoint=kept))).output == "paid"


async def test_a_step_that_did_not_happen_is_said():
    async def handler(config, ctx):
        def pay():
            raise perdure.NotDone("no connection")

        await ctx.step("pay", pay, effect="at_most_once")

    async with working(handler) as h:
        await h.publish(make_task())
        [begins, released], end = await until_end(h)
        assert (begins.begins, released.not_done) == (released.begins, True)
        assert (end.code, end.not_done) == ("not_done", True)


async def test_a_handler_may_go_another_way():
    async def handler(config, ctx):
        try:
            return await ctx.step("pay", lambda: "paid", effect="at_most_once")
        except perdure.StepAmbiguous as error:
            return f"{error.step} is to be looked into"

    async with working(handler) as h:
        assert (await h.do(make_task(begun=("pay",)))).output == "pay is to be looked into"


@pytest.mark.parametrize("reserve", [{"usd": 5.0}, 5.0, None])
async def test_what_a_step_may_use_is_a_usage_and_no_argument_of_its_function(reserve):
    async def handler(config, ctx):
        return await ctx.step("call", lambda **options: options, reserve=reserve)

    async with working(handler) as h:
        result = await h.do(make_task())
    assert result.kind == "failed"
    assert "perdure.Usage" in result.message
