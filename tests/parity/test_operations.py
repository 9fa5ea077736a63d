"""Every operation of the service answers and refuses the same on a database and through a server."""

import asyncio
import importlib
import inspect
import json
from functools import cached_property

import pytest

from perdure.cli.frame.backend import connected
from perdure.cli.frame.where import Where
from perdure.errors import PerdureError
from perdure.service import Service
from tests.parity.operations import NOWHERE, OF_THE_PROCESS, OPERATIONS, OTHERWISE
from tests.parity.world import held, without


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with held(tmp_path_factory) as made:
        made.client.workflows.put_alias("kept-done", "live", 1)
        made.client.runs.wait(made.client.runs.start("kept-done", {"n": 1})["run_id"])
        yield made


REFUSED = {
    "sessions.end": "only a browser has a session: `tests/api/test_sessions.py`",
}
"""Operations that cannot succeed here, with the place where they do."""


async def told(side, ask):
    """What a side answers, or how it refuses."""
    (_, place) = side
    async with connected(Where(db=place) if side[0] == "--db" else Where(server=place)) as backend:
        try:
            answer = ask(backend)
            answer = await (answer.first() if hasattr(answer, "first") else answer)
            if inspect.isasyncgen(answer):  # an export, which may be large
                return json.loads("".join([str(part) async for part in answer]))
            return answer
        except PerdureError as error:
            return {
                "refused": error.code,
                "message": error.message,
                "status": getattr(error, "http_status", error.status),
            }


def is_refused(answer):
    return isinstance(answer, dict) and {"refused", "message", "status"} == answer.keys()


def leave_out(answer, fields):
    if isinstance(answer, dict):
        return {key: leave_out(one, fields) for key, one in answer.items() if key not in fields}
    return [leave_out(one, fields) for one in answer] if isinstance(answer, list) else answer


def compare(world, asked, abouts):
    answers = []
    for side, about in zip(world.sides, abouts, strict=True):
        answer = leave_out(asyncio.run(told(side, lambda backend, about=about: asked.ask(backend, about))), asked.apart)
        answers.append(without(answer, [about] if about else []) if asked.changes else answer)
    assert answers[0] == answers[1]
    return answers[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_answers_the_same_on_a_database_and_on_a_server(world, name):
    asked = OPERATIONS[name]
    if asked.about or not asked.kind:
        answer = compare(world, asked, [asked.about] * 2)
    elif asked.changes:
        answer = compare(world, asked, [world.make(asked.kind) for _ in world.sides])
    else:
        answer = compare(world, asked, [world.read[asked.kind]] * 2)
    assert is_refused(answer) is (name in REFUSED), answer
    if asked.kind or asked.about:
        answer = compare(world, asked, [NOWHERE] * 2)
        assert is_refused(answer) or answer.get("items") == [] or answer["refused"] == []


@pytest.mark.parametrize("name", OF_THE_PROCESS)
def test_what_tells_of_a_process_has_one_shape(world, name):
    here, there = (asyncio.run(told(side, OF_THE_PROCESS[name])) for side in world.sides)
    assert here == {"items": [], "next_cursor": None}
    assert [*there] == [*here]
    assert there["items"]


def test_no_operation_of_the_service_is_missing():
    found = set()
    for noun, made in vars(Service).items():
        if isinstance(made, cached_property):
            kind = inspect.get_annotations(made.func)["return"]
            room = f".{noun}" if noun in {"runs", "triggers", "workflows"} else ""
            noun_class = getattr(importlib.import_module(f"perdure.service{room}.{noun}"), kind)
            found |= {f"{noun}.{name}" for name in dir(noun_class) if not name.startswith("_")}
    assert found == {*OPERATIONS, *OF_THE_PROCESS, *OTHERWISE}
