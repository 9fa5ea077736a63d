"""`perdure.ContinueAsNew` in a real engine: an endless run goes on as a new one, with other inputs (rule 15)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from perdure.kernel import continuations
from perdure.kernel.readings.explain import explain
from tests.engine.helpers import ask, check, ended, running, start, until, workflow

PAGES = {
    "type": "object",
    "required": ["last"],
    "properties": {"page": {"type": "integer", "default": 1}, "last": {"type": "integer"}},
}


def pages(function: str, **more: Any) -> dict[str, Any]:
    """An endless loop over pages, each in a run of its own."""
    args = {"page": "{{ inputs.page }}", "last": "{{ inputs.last }}"}
    config = {"function": f"tests.engine.going_on:{function}", "args": args}
    loop = {"condition": "output.again", "loop_back_to": "pause", "endless": True}
    turn = {"id": "turn", "type": "task", "config": config, "dependencies": ["pause"], "loop": loop, "retry": 1, **more}
    pause = {"id": "pause", "type": "wait", "config": {"seconds": 0}}
    return workflow(pause, turn, inputs=PAGES, outputs={"page": "{{ turn.page }}"})


async def follow(engine: Any) -> Any:
    """The last run of the chain, and their number."""
    run_id, number = "r1", 1
    while (state := await ended(engine, run_id)).continued_as is not None:
        run_id, number = state.continued_as, number + 1
    return state, number


@pytest.mark.parametrize("function", ["turn", "turn_in_thread", "Turning"])
async def test_a_run_goes_on_with_the_inputs_that_its_function_gives(tmp_path, function):
    async with running(tmp_path) as engine:
        await start(engine, pages(function), inputs={"page": 1, "last": 4})
        state, number = await follow(engine)
        assert (state.outputs, number, state.inputs) == ({"page": 4}, 4, {"page": 4, "last": 4})
        await check(engine.journal)


@pytest.mark.slow
async def test_so_does_one_whose_function_is_in_a_process_of_its_own(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, pages("turn_in_thread", isolation="process"), inputs={"page": 1, "last": 2})
        state, number = await follow(engine)
        assert (state.outputs, number) == ({"page": 2}, 2)


@pytest.mark.parametrize(
    ("function", "said"), [("turn_wrongly", '"last" is a required property'), ("turn_with_text", "a mapping")]
)
async def test_inputs_that_do_not_fit_fail_the_node(tmp_path, function, said):
    async with running(tmp_path) as engine:
        await start(engine, pages(function), inputs={"page": 1, "last": 2})
        state = await ended(engine)
        assert (state.error.code, said in state.error.message) == ("bad_output", True), state.error


async def test_one_that_cannot_go_on_is_warned_about_and_explained(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 5)
    monkeypatch.setattr(continuations, "WORRYING_JOURNAL", 20)
    loop = {"condition": "true", "loop_back_to": "go", "endless": True}
    echo = {"id": "x", "type": "transform", "config": {"value": 1}, "dependencies": ["go"], "loop": loop}
    go = {"id": "go", "type": "wait", "config": {"signal": "go"}}
    beside = {"id": "beside", "type": "wait", "config": {"signal": "never"}}
    async with running(tmp_path) as engine:
        with caplog.at_level(logging.WARNING):
            await start(engine, workflow(go, echo, beside))
            for _ in range(8):
                await ask(engine, "signal", name="go")
            seq = (await until(engine, lambda state: state.seq > 30)).seq
        said = [record.getMessage() for record in caplog.records if "cannot go on as a new one" in record.getMessage()]
        assert len(said) == seq // 20, "at 20 events, at 40, and at 60"
        assert "beside has not ended" in said[0]
        assert "beside has not ended" in explain(await engine.runs.state("r1"), "x")
