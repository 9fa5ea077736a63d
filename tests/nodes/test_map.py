"""`map` in the real engine: order, sizes, failures, and what an item may be."""

import asyncio

import pytest

from perdure.kernel import events as e
from perdure.model import DefinitionError, compile_definition
from tests.engine.helpers import check, compiled, finish, output_of, running, start, transform, workflow

DOUBLE = {"type": "transform", "config": {"value": "{{ item * 2 }}"}}


def mapping(over="{{ inputs.list }}", name="tested", **config):
    return workflow({"id": "m", "type": "map", "config": {"over": over, **config}}, name=name)


async def run_large(engine, definition, inputs):
    """Waits for the end only: looking at the state after each of many thousand events would be the slow part."""
    over = asyncio.Event()
    stop = engine.listen(lambda state, events: over.set() if state.run_id == "r1" and state.terminal else None)
    await start(engine, definition, inputs=inputs)
    await asyncio.wait_for(over.wait(), 60)
    stop()
    return await engine.runs.state("r1")


def call(function):
    config = {"function": f"tests.engine.tasks:{function}", "args": {"item": "{{ item }}"}}
    return {"type": "task", "config": config}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 100])
async def test_ten_thousand_items_of_a_node_in_one_run_keep_their_order(tmp_path, limit):
    more = {} if limit is None else {"max_concurrency": limit}
    async with running(tmp_path) as engine:
        state = await run_large(engine, mapping(node=call("crowd"), **more), {"list": list(range(10_000))})
        assert await engine.contents.outputs(state) == {"m": [2 * n for n in range(10_000)]}
        found = await check(engine.journal)
    assert sum(isinstance(event, e.ItemCompleted) for event in found) == 10_000


@pytest.mark.slow
async def test_ten_thousand_items_that_need_no_worker(tmp_path):
    async with running(tmp_path) as engine:
        state = await run_large(engine, mapping(node=DOUBLE), {"list": list(range(10_000))})
        assert await engine.contents.outputs(state) == {"m": [2 * n for n in range(10_000)]}
        await check(engine.journal)


@pytest.mark.slow
async def test_a_thousand_items_that_are_runs_of_their_own(tmp_path):
    async with running(tmp_path) as engine:
        inner = workflow(transform("x", "{{ inputs.n * 2 }}"), name="double", outputs={"got": "{{ x }}"})
        await engine.workflows.register(compiled(inner))
        definition = mapping(workflow="double", inputs={"n": "{{ item }}"}, max_concurrency=200)
        state = await run_large(engine, definition, {"list": list(range(1000))})
        assert await engine.contents.outputs(state) == {"m": [{"got": 2 * n} for n in range(1000)]}
        children = [event.child for event in await check(engine.journal) if isinstance(event, e.ChildStarted)]
        assert len(set(children)) == 1000
        await check(engine.journal, children[500])


async def test_a_whole_number_from_a_division_is_one_in_the_journal_too(tmp_path):
    """2 / 2 is 1.0: as such it stood in an event that nobody could read again."""
    async with running(tmp_path) as engine:
        half = "{{ inputs.two / 2 }}"
        definition = mapping(node=DOUBLE, max_concurrency=half, tolerated_failures=half)
        state = await finish(engine, definition, inputs={"list": [1, 2], "two": 2})
        assert output_of(state, "m") == [2, 4]
        waited = next(event for event in await check(engine.journal) if isinstance(event, e.NodeWaiting))
        assert (type(waited.wait.limit), type(waited.wait.tolerated)) == (int, int)


async def test_a_failure_that_is_tolerated_stands_in_the_list_as_an_error(tmp_path):
    only_even = {"type": "transform", "config": {"value": "{{ item.n }}"}}
    items = [{"n": 0}, {"m": 1}, {"n": 2}]
    async with running(tmp_path) as engine:
        state = await finish(engine, mapping(node=only_even, tolerated_failures=1), inputs={"list": items})
        found = output_of(state, "m")
        assert (found[0], found[2]) == (0, 2)
        assert found[1]["error"]["code"] == "template_error"
        failed = await finish(engine, mapping(node=only_even), "r2", {"list": items})
        assert failed.error.code == "items_failed"


async def test_an_item_reads_the_rest_of_the_run_too(tmp_path):
    async with running(tmp_path) as engine:
        inner = {"type": "transform", "config": {"value": {"item": "{{ item }}", "by": "{{ inputs.by }}"}}}
        state = await finish(engine, mapping(node=inner), inputs={"list": ["a", {"b": 1}], "by": 7})
    assert output_of(state, "m") == [{"item": "a", "by": 7}, {"item": {"b": 1}, "by": 7}]


async def test_what_looks_like_a_template_in_an_item_stays_text(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(
            engine,
            mapping(node={"type": "transform", "config": {"value": "{{ item }}"}}),
            inputs={"list": ["{{ 7*7 }}"]},
        )
    assert output_of(state, "m") == ["{{ 7*7 }}"]


async def test_an_item_may_wait(tmp_path):
    async with running(tmp_path) as engine:
        inner = {"type": "wait", "config": {"seconds": "{{ item }}"}}
        state = await finish(engine, mapping(over=[0.05, 0, 0.02], node=inner))
    assert output_of(state, "m") == [{}, {}, {}]


async def test_more_items_than_the_workflow_allows_fail_the_run(tmp_path):
    async with running(tmp_path) as engine:
        definition = {**mapping(node=DOUBLE), "limits": {"max_fanout": 10}}
        assert (await finish(engine, definition, "r1", {"list": list(range(10))})).state == "completed"
        failed = await finish(engine, definition, "r2", {"list": list(range(11))})
    assert failed.error.code == "limit_exceeded"


@pytest.mark.parametrize("over", [{"a": 1}, "text", 7, None])
async def test_something_that_is_no_list_fails_at_once(tmp_path, over):
    async with running(tmp_path) as engine:
        state = await finish(engine, mapping(node=DOUBLE), inputs={"list": over})
    assert (state.error.code, state.error.attempts) == ("bad_config", 1)


async def test_the_config_of_the_item_is_checked_too(tmp_path):
    async with running(tmp_path) as engine:
        with pytest.raises(DefinitionError) as caught:
            await engine.workflows.register(compiled(mapping(node={"type": "http", "config": {"ulr": "x"}})))
    problems = {problem.path: problem.code for problem in caught.value.problems}
    assert problems == {"nodes.m.config.node.config": "missing_key", "nodes.m.config.node.config.ulr": "unknown_key"}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"node": DOUBLE, "workflow": "x"},
        {"node": DOUBLE, "max_concurrency": 0},
        {"node": DOUBLE, "tolerated_failures": -1},
    ],
)
def test_a_map_of_nothing_does_not_compile(config):
    assert compile_definition(mapping(**config)).ir is None
