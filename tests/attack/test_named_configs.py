"""A small definition that names large content: what is compiled is bounded, and compiled beside the loop (S03)."""

import json

import pytest

from perdure.model import DefinitionError
from perdure.runtime.definition_checks import LARGEST_BYTES, MOST_BYTES
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine.helpers import running, workflow

ITEMS = 40_000


async def put(engine, value):
    return await engine.blobs.put("default", json.dumps(value).encode())


def named(*refs):
    nodes = [{"id": f"n{number}", "type": "transform", "config_ref": ref} for number, ref in enumerate(refs)]
    return workflow(*nodes)


@attack("S03", "a definition of 200 bytes that names a config of many templates")
async def test_what_a_definition_names_is_compiled_beside_the_loop(tmp_path):
    async with running(tmp_path) as engine:
        ref = await put(engine, {"value": ["{{ inputs.q }}"] * ITEMS})
        await engine.workflows.checker.check_data(named(await put(engine, {"value": 1})))  # what is imported once
        with watching():
            compiled = await engine.workflows.checker.check_data(named(ref))
        assert compiled.ir is not None


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
