"""Streams between nodes, embedded: what is yielded is read while it is yielded, each chunk once, whatever breaks off."""

from __future__ import annotations

import asyncio
import random
import signal
from typing import Any

import pytest

from perdure.kernel.state import State
from perdure.runtime.worker import outflow
from tests.engine.helpers import ask, check, ended, events, opened, running, start, workflow
from tests.engine.runner import Folder

pytestmark = pytest.mark.slow


def node(id: str, function: str, **more: Any) -> dict[str, Any]:
    config = {"function": f"tests.engine.streaming:{function}", "args": more.pop("args", {})}
    return {"id": id, "type": "task", "config": config, **more}


def flow(source: str, target: str) -> dict[str, str]:
    return {"from": source, "to": target}


def outputs(state: State) -> dict[str, Any]:
    return {state.name(one.node): one.output for one in state.activations.values()}


async def run(path: Any, *nodes: dict[str, Any], edges: list[dict[str, str]], **options: Any) -> State:
    async with running(path, **options) as engine:
        await start(engine, workflow(*nodes, edges=edges))
        state = await ended(engine)
        assert engine._streams is not None
        assert engine._streams._runs == {}  # type: ignore[attr-defined]  # forgotten with the run (F10)
        await check(engine.journal)
        return state


FEW = {"args": {"n": 10}}


async def test_a_reader_has_the_first_words_while_the_rest_is_not_yet_said(tmp_path):
    nodes = (node("say", "words", stream={"collect": "text"}), node("hear", "hear"))
    found = outputs(await run(tmp_path, *nodes, edges=[flow("say", "hear.heard")]))
    assert found == {"say": "one two three", "hear": ["one ", "two ", "three"]}


@pytest.mark.parametrize("yields", ["count", "count_in_thread"])
@pytest.mark.parametrize("adds", ["add", "add_in_thread"])
async def test_async_and_plain_functions_yield_and_read(tmp_path, yields, adds):
    state = await run(tmp_path, node("a", yields, **FEW), node("b", adds), edges=[flow("a.out", "b.numbers")])
    assert outputs(state) == {"a": list(range(1, 11)), "b": 55}


async def test_a_chain_a_fan_out_and_a_merge(tmp_path):
    nodes = (
        node("a", "count", **FEW, stream={"collect": "none"}),
        node("twice", "double", stream={"collect": "last"}),
        node("all", "add"),
        node("again", "add"),
    )
    edges = [
        flow("a", "twice.numbers"),
        flow("a", "all.numbers"),
        flow("twice", "all.numbers"),
        flow("a", "again.numbers"),
    ]
    found = outputs(await run(tmp_path, *nodes, edges=edges))
    assert found == {"a": None, "twice": 20, "all": 55 + 110, "again": 55}


async def test_ports_windows_an_empty_stream_and_one_that_is_read_by_nobody(tmp_path):
    nodes = (
        node("a", "sorts", args={"n": 10}, stream={"ports": ["odd"], "collect": "count"}),
        node("odds", "by_windows"),
        node("none", "nothing"),
        node("zero", "add"),
        node("alone", "count", **FEW, stream={}),
    )
    found = outputs(await run(tmp_path, *nodes, edges=[flow("a.odd", "odds.numbers"), flow("none", "zero.numbers")]))
    assert found == {"a": 5, "odds": [4, 1], "none": [], "zero": 0, "alone": list(range(1, 11))}


async def test_windows_without_an_end_are_tried_once(tmp_path):
    nodes = node("a", "count", args={"n": 3}), node("b", "without_end", retry={"max_attempts": 3, "backoff_ms": 0})
    state = await run(tmp_path, *nodes, edges=[flow("a", "b.numbers")])
    (b,) = [one for one in state.activations.values() if state.name(one.node) == "b"]
    assert b.error is not None
    assert (b.error.code, b.attempt) == ("bad_arguments", 1)


@pytest.mark.parametrize("reads", ["by_time", "by_time_in_thread"])
async def test_windows_by_time_give_what_has_come_and_take_nothing_else(tmp_path, reads):
    """The producer goes on only when the first list was given: nobody waits for a fourth number."""
    found = outputs(
        await run(tmp_path, node("a", "gated", args={"n": 7}), node("b", reads), edges=[flow("a", "b.numbers")])
    )["b"]
    assert [number for window in found for number in window] == list(range(1, 8))
    assert found[0] in ([1], [1, 2], [1, 2, 3])


async def test_a_generator_without_a_stream_gives_a_list(tmp_path):
    state = await run(tmp_path, node("a", "count", **FEW), edges=[])
    assert outputs(state) == {"a": list(range(1, 11))}
    assert state.activations[0].flow is None


async def test_what_is_returned_before_the_end_waits_for_it_unless_it_may_be_early(tmp_path):
    nodes = (node("a", "count", **FEW), node("b", "first"), node("early", "first", stream={"early": True}))
    found = outputs(await run(tmp_path, *nodes, edges=[flow("a", "b.numbers"), flow("a", "early.numbers")]))
    assert (found["b"], found["early"]) == (1, 1)


async def test_a_producer_that_breaks_off_begins_anew_with_its_readers(tmp_path):
    retry = {"max_attempts": 3, "backoff_ms": 1}
    nodes = (
        node("a", "fails_once", args={"n": 40}, retry=retry),
        node("b", "double"),
        node("d", "add_and_tell", retry={"max_attempts": 1}),
    )
    state = await run(tmp_path, *nodes, edges=[flow("a", "b.numbers"), flow("b", "d.numbers")])
    assert outputs(state)["d"] == 2 * 820
    assert (state.find("d").failures, state.find("a").failures) == (0, 1)


async def test_a_reader_that_fails_goes_on_behind_its_checkpoint(tmp_path):
    retry = {"max_attempts": 3, "backoff_ms": 1}
    nodes = (node("a", "count", args={"n": 50}), node("b", "add_in_steps", args={"every": 20}, retry=retry))
    found = outputs(await run(tmp_path, *nodes, edges=[flow("a", "b.numbers")]))
    assert found["b"] == {"sum": 1275, "read": 50, "began": 20, "position": 50}


async def test_a_broken_stream_may_be_rescued_and_is_a_failure_otherwise(tmp_path):
    nodes = (
        node("a", "breaks", args={"n": 3}, on_failure="continue"),
        node("b", "rescue"),
        node("d", "add", on_failure="continue"),
    )
    state = await run(tmp_path, *nodes, edges=[flow("a", "b.numbers"), flow("a", "d.numbers")])
    assert outputs(state)["b"] == "3 of a"
    assert state.find("d").error.code == "stream_broken"


async def test_an_edge_to_a_parameter_that_is_not_there_is_refused(tmp_path):
    state = await run(tmp_path, node("a", "count", **FEW), node("b", "add"), edges=[flow("a", "b.figures")])
    assert state.error.code == "no_such_port"


async def test_a_diamond_whose_join_reads_one_side_first_does_not_wait_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(outflow, "MOST_BEHIND", 10)
    monkeypatch.setattr(outflow, "STALL_SECONDS", 0.01)
    nodes = (
        node("a", "count", args={"n": 500}, stream={"collect": "count"}),
        node("left", "double", stream={"collect": "count"}),
        node("right", "double", stream={"collect": "count"}),
        node("join", "one_after_the_other"),
    )
    edges = [
        flow("a", "left.numbers"),
        flow("a", "right.numbers"),
        flow("left", "join.left"),
        flow("right", "join.right"),
    ]
    found = outputs(await run(tmp_path, *nodes, edges=edges))
    assert found["join"] == [250_500, 250_500]


async def test_a_long_stream_is_kept_in_pieces_and_little_of_it_is_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(outflow, "PART_BYTES", 64 * 1024)
    monkeypatch.setattr(outflow, "LARGEST_LIST", 100 * 1024)
    most = 0
    real = outflow.Outflow._send

    async def send(self: Any, name: str, port: Any) -> None:
        nonlocal most
        await real(self, name, port)
        held = [one for places in self._streams._runs.values() for one in places.values()]
        most = max(most, sum(map(len, (body for one in held for body in one.tail))))

    monkeypatch.setattr(outflow.Outflow, "_send", send)
    nodes = (
        node("a", "large", args={"n": 1000, "size": 1000}),
        node("b", "weigh"),
        node("late", "weigh", dependencies=["b"]),
    )
    state = await run(tmp_path, *nodes, edges=[flow("a", "b.texts"), flow("a", "late.texts")])
    found = outputs(state)
    assert found["b"] == found["late"] == {"chunks": 1000}
    assert (found["a"]["chunks"], len(found["a"]["parts"])) == (1000, len(state.find("a").flow.parts))
    assert 5 < len(found["a"]["parts"]) < 30
    assert most < 256 * 1024


async def test_a_retry_of_the_run_reads_what_the_producer_had_kept(tmp_path):
    async with running(tmp_path) as engine:
        more = {"retry": {"max_attempts": 1}}
        await start(
            engine,
            workflow(
                node("a", "count", args={"n": 50}),
                node("b", "add_in_steps", args={"every": 20}, **more),
                edges=[flow("a", "b.numbers")],
            ),
        )
        assert (await ended(engine)).state == "failed"
        await ask(engine, "retry")
        state = await ended(engine)
        assert state.find("b").output["sum"] == 1275
        assert [event.type for event in await events(engine.journal)].count("stream.opened") == 1


@pytest.mark.parametrize("seed", range(2))
def test_kills_at_random_moments_and_the_sum_is_right(tmp_path, seed):
    rng = random.Random(seed)
    folder = Folder(tmp_path)
    more = {"max_crashes": 1000}
    nodes = (node("a", "slow_count", args={"n": 1000}, **more), node("b", "slow_add", **more))
    folder.add("r1", workflow(*nodes, edges=[flow("a", "b.numbers")]))
    for _ in range(3):
        with folder.process() as process:
            wanted = len(folder.effects()) + rng.randint(1, 60)
            folder.wait(process, lambda wanted=wanted: len(folder.effects()) >= wanted, "some were yielded")
            process.kill()
            assert process.wait(30) == -signal.SIGKILL, "100 lines are left by one attempt alone"
    with folder.process() as process:
        assert process.wait(60) == 0, folder.errors()
    asyncio.run(_check(folder))


async def _check(folder: Folder) -> None:
    engine = await opened(folder.path)
    try:
        state = await check(engine.journal)
        found = await engine.runs.state("r1")
        assert found.find("b").output == 1000 * 1001 // 2, state
        assert found.state == "completed"
    finally:
        await engine.close()


# -- streams that go on ------------------------------------------------------------------------------------------------

AGAIN = {"max_attempts": 4, "backoff_ms": 1}


async def test_a_producer_that_repeats_itself_goes_on_and_its_reader_does_not_notice(tmp_path):
    nodes = (
        node("a", "repeat_and_fail", args={"n": 50, "after": 20}, retry=AGAIN, stream={"restart": "repeat"}),
        node("b", "add_to", args={"until": 20}),
    )
    state = await run(tmp_path, *nodes, edges=[flow("a", "b.numbers")])
    assert outputs(state) == {"a": list(range(1, 51)), "b": 1275}
    assert (state.find("a").flow.edition, state.find("a").flow.by, state.find("b").attempt) == (1, 2, 1)


@pytest.mark.parametrize("lies", ["repeat_and_fail", "repeat_and_stop"])
async def test_one_that_does_not_repeat_itself_begins_anew_with_its_readers(tmp_path, lies):
    args = {"n": 20, "after": 20, "lies": True} if lies == "repeat_and_fail" else {"n": 20}
    nodes = (
        node("a", lies, args=args, retry=AGAIN, stream={"restart": "repeat"}),
        node("b", "add_to", args={"until": 20}),
    )
    state = await run(tmp_path, *nodes, edges=[flow("a", "b.numbers")])
    assert outputs(state)["b"] == (210 + 1000 if lies == "repeat_and_fail" else 210)
    assert (state.find("a").flow.edition, state.find("a").failures, state.find("b").attempt) == (3, 1, 2)


async def test_what_was_kept_in_pieces_is_compared_too(tmp_path, monkeypatch):
    monkeypatch.setattr(outflow, "PART_BYTES", 20)
    nodes = (
        node("a", "repeat_and_fail", args={"n": 90, "after": 60}, retry=AGAIN, stream={"restart": "repeat"}),
        node("b", "add_to", args={"until": 60}),
    )
    state = await run(tmp_path, *nodes, edges=[flow("a", "b.numbers")])
    assert outputs(state) == {"a": list(range(1, 91)), "b": 4095}
    assert state.find("b").attempt == 1


@pytest.mark.parametrize("collect", ["list", "count", "last"])
@pytest.mark.parametrize("goes_on", ["go_on", "go_on_in_thread"])
async def test_a_producer_goes_on_from_its_checkpoint(tmp_path, goes_on, collect):
    stream = {"restart": "checkpoint", "collect": collect}
    nodes = (
        node("a", goes_on, args={"n": 30, "fails": 18}, retry=AGAIN, stream=stream),
        node("b", "add_in_order"),
    )
    state = await run(tmp_path, *nodes, edges=[flow("a", "b.numbers")])
    found = outputs(state)
    assert found["b"] == 465
    said = found["a"] if collect != "list" else [number for _, number in found["a"]]
    assert {"list": list(range(1, 31)), "count": 30}.get(collect, found["a"]) == said
    assert (state.find("a").flow.edition, state.find("a").flow.by, state.find("b").attempt) == (1, 2, 1)
    assert collect != "last" or said[1] == 30


async def test_pieces_of_many_checkpoints_are_put_together(tmp_path):
    nodes = (
        node("a", "go_on", args={"n": 300, "every": 1}, stream={"restart": "checkpoint", "collect": "count"}),
        node("b", "add_in_order"),
    )
    state = await run(tmp_path, *nodes, edges=[flow("a", "b.numbers")])
    assert outputs(state) == {"a": 300, "b": 45_150}
    assert len(state.find("a").flow.parts) <= 12


async def test_a_stage_that_goes_on_begins_anew_with_what_it_reads(tmp_path):
    """G16: what it has yielded was made of what is over."""
    retry = {"max_attempts": 3, "backoff_ms": 1}
    nodes = (
        node("a", "fails_once", args={"n": 40}, retry=retry),
        node("b", "double_in_turn", stream={"restart": "checkpoint", "collect": "count"}),
        node("c", "add_and_tell"),
        node("d", "add_in_order"),
    )
    edges = [flow("a", "b.numbers"), flow("a", "c.numbers"), flow("b", "d.numbers")]
    state = await run(tmp_path, *nodes, edges=edges)
    assert outputs(state)["d"] == 820
    assert state.find("b").flow.edition > 1


async def test_a_checkpoint_of_one_that_repeats_itself_is_refused(tmp_path):
    nodes = (node("a", "go_on", args={"n": 9}, stream={"restart": "repeat"}),)
    state = await run(tmp_path, *nodes, edges=[])
    assert (state.error.code, "restart: checkpoint" in state.error.message) == ("bad_checkpoint", True)
