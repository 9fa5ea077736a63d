"""Checkpoints and steps: what one attempt did, the next need not do again."""

import asyncio
from typing import Any

import pytest

from perdure.kernel.values import with_data, with_step
from tests.runtime.harness import call, make_task, working

STEPPING = "tests.runtime.functions:step_by_step"


async def until_end(h):
    """The results of one attempt: its checkpoints, and how it ended."""
    results = [await h.result()]
    while results[-1].kind == "checkpointed":
        results.append(await h.result())
    return results[:-1], results[-1]


def folded(kept):
    """What the journal makes of checkpoints."""
    found = None
    for one in kept:
        found = with_step(found, one.step, one.output) if one.step else with_data(found, one.output)
    return found


async def test_a_checkpoint_is_delivered_before_the_handler_goes_on():
    after: list[Any] = []

    async def handler(config, ctx):
        assert ctx.last_checkpoint is None
        await ctx.checkpoint({"page": 1})
        after.append(ctx.last_checkpoint)

    async with working(handler) as h:
        await h.publish(make_task())
        [kept], end = await until_end(h)
    assert (kept.kind, kept.output) == ("checkpointed", {"page": 1})
    assert (kept.task_id, kept.worker) == (make_task().task_id, "w1")
    assert end.kind == "completed"
    assert after == [{"page": 1}]


async def test_the_next_attempt_sees_what_the_last_one_kept():
    async def handler(config, ctx):
        return ctx.last_checkpoint

    async with working(handler) as h:
        kept = {"data": {"page": 1}, "steps": {}}
        assert (await h.do(make_task(attempt=2, checkpoint=kept))).output == {"page": 1}
        assert (await h.do(make_task(attempt=3, checkpoint="of another language"))).output == "of another language"


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_sync_function_does_no_step_twice_over_its_attempts(isolation):
    async with working() as h:
        await h.publish(call(STEPPING, args={"fail_at": 3}, isolation=isolation))
        kept, end = await until_end(h)
        assert (end.code, end.message) == ("error", "RuntimeError: failed at 3")
        assert [(one.step, one.output) for one in kept] == [("step 1", 11), ("step 2", 12)]
        await h.publish(call(STEPPING, attempt=2, isolation=isolation, checkpoint=folded(kept)))
        kept, end = await until_end(h)
    assert end.output == [11, 12, 13, True]
    assert [(one.step, one.output) for one in kept] == [
        ("step 3", 13),
        ("", {"values": [11, 12, 13]}),
    ]
    assert [one.number for one in kept] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_an_async_function_awaits_its_steps_and_checkpoints(isolation):
    async with working() as h:
        await h.publish(call("tests.runtime.functions:step_by_step_async", isolation=isolation))
        kept, end = await until_end(h)
    assert end.output == [2, 3, [2, 3]]
    assert [(one.step, one.output) for one in kept] == [
        ("a", 2),
        ("b", 3),
        ("", [2, 3]),
    ]


async def test_a_step_name_is_used_once():
    async def handler(config, ctx):
        await ctx.step("a", lambda: 1)
        await ctx.step("a", lambda: 2)

    async with working(handler) as h:
        await h.publish(make_task())
        _, end = await until_end(h)
    assert "step 'a' was used before" in end.message


async def test_a_step_that_is_not_json_fails_with_its_name():
    def handler(config, ctx):
        ctx.step("odd", object)

    async with working(handler) as h:
        result = await h.do(make_task())
    assert (result.code, result.retryable) == ("bad_output", False)
    assert "step 'odd'" in result.message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("", len, []), "a step needs a name"), (("a", 3), "step 'a' got a int, not a function")],
)
async def test_a_step_that_is_no_call_says_how_to_write_it(arguments, words):
    def handler(config, ctx):
        ctx.step(*arguments)

    async with working(handler) as h:
        assert words in (await h.do(make_task())).message


def test_a_step_is_kept_beside_what_was_kept_before_in_whatever_form():
    assert with_step(None, "a", 1) == {"data": None, "steps": {"a": 1}}
    assert with_step({"data": 7, "steps": {"a": 1}}, "b", 2) == {"data": 7, "steps": {"a": 1, "b": 2}}
    assert with_step("of another language", "a", 1) == {"data": "of another language", "steps": {"a": 1}}


async def test_an_async_step_in_a_sync_handler_is_a_clear_mistake():
    async def step():
        return 1

    def handler(config, ctx):
        ctx.step("a", step)

    async with working(handler) as h:
        assert "make the handler async" in (await h.do(make_task())).message


async def test_what_a_handler_does_with_a_kept_value_changes_nothing():
    async def handler(config, ctx):
        value = await ctx.step("a", lambda: {"list": []})
        value["list"].append(1)
        await ctx.checkpoint(None)

    async with working(handler) as h:
        await h.publish(make_task())
        kept, _ = await until_end(h)
    assert folded(kept)["steps"] == {"a": {"list": []}}


async def test_a_checkpoint_nobody_awaits_is_sent_all_the_same():
    async def handler(config, ctx):
        ctx.checkpoint(1)
        await asyncio.sleep(0)

    async with working(handler) as h:
        await h.publish(make_task())
        kept, end = await until_end(h)
    assert (len(kept), end.kind) == (1, "completed")
