"""A small definition that names large content: what is compiled is bounded, and compiled beside the loop (S03)."""

import json

import pytest

from perdure.budget import Budget
from perdure.model import DefinitionError
from perdure.runtime.definition_checks import LARGEST_BYTES, MOST_BYTES, PUT_IN_BYTES
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine.helpers import running, workflow

ITEMS = 40_000


async def put(engine, value):
    return await engine.blobs.put("default", json.dumps(value).encode())


def named(*refs):
    nodes = [{"id": f"n{number}", "type": "transform", "config_ref": ref} for number, ref in enumerate(refs)]
    return workflow(*nodes)


@pytest.mark.slow
@attack("S03", "a definition of 200 bytes that names a config of many templates")
async def test_what_a_definition_names_is_compiled_beside_the_loop(tmp_path):
    async with running(tmp_path) as engine:
        ref = await put(engine, {"value": ["{{ inputs.q }}"] * ITEMS})
        await engine.workflows.checker.check_data(named(await put(engine, {"value": 1})))  # what is imported once
        with watching():
            compiled = await engine.workflows.checker.check_data(named(ref))
        assert compiled.ir is not None


@pytest.mark.slow
@attack("S03", "the same, with content without end")
@pytest.mark.parametrize(
    ("size", "number"), [(LARGEST_BYTES, 1), (LARGEST_BYTES - 100_000, MOST_BYTES // LARGEST_BYTES + 1)]
)
async def test_what_a_definition_names_has_a_size(tmp_path, size, number):
    async with running(tmp_path) as engine:
        refs = [await put(engine, {"value": "x" * size + str(one)}) for one in range(number)]
        with watching(), pytest.raises(DefinitionError) as refused:
            await engine.workflows.checker.check_data(named(*refs))
        assert {problem.code for problem in refused.value.problems} == {"too_large"}
        assert f"{LARGEST_BYTES:,} each and {MOST_BYTES:,} in all" in str(refused.value)


@pytest.mark.slow
@attack("S03", "a definition of 40 kB that names the same content 300 times")
async def test_content_counts_as_often_as_it_is_named(tmp_path):
    async with running(tmp_path) as engine:
        ref = await put(engine, {"value": "x" * (LARGEST_BYTES - 100)})
        fits = PUT_IN_BYTES // LARGEST_BYTES
        assert (await engine.workflows.checker.check_data(named(*[ref] * 2))).ir is not None
        with watching(), pytest.raises(DefinitionError) as refused:
            await engine.workflows.checker.check_data(named(*[ref] * (fits + 1)))
        assert [problem.code for problem in refused.value.problems] == ["too_large"]
        assert "each counted as often as it is named" in str(refused.value)


@attack("S03", "content that is too much to be checked, and so would not be checked at all")
async def test_content_that_is_too_much_to_be_checked_is_refused(tmp_path, monkeypatch):
    async with running(tmp_path) as engine:
        ref = await put(engine, {"value": ["{{ inputs.q }}"] * 1000})
        with pytest.raises(DefinitionError) as refused:
            await engine.workflows.checker.check_data(named(ref), budget=Budget(50_000))
        assert {problem.code for problem in refused.value.problems} == {"too_costly"}
        monkeypatch.setattr("perdure.model.reader.MAX_VALUES", 500)
        with pytest.raises(DefinitionError) as refused:
            await engine.workflows.checker.check_data(named(ref))
        assert {problem.code for problem in refused.value.problems} == {"too_large"}
