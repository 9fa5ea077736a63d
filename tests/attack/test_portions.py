"""Runs that are large: no turn of the loop grows with them (S05)."""

import os

import pytest

from tests.api.helpers import serving
from tests.attack.__main__ import CASES, GENERATED
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine.helpers import until_true

COUNT = 100_000 if int(os.environ.get(GENERATED, "0")) >= CASES else 20_000
"""As many as it may have with `make attack`."""
MAP = {
    "name": "w",
    "nodes": [
        {
            "id": "m",
            "type": "map",
            "config": {"over": "{{ inputs.x }}", "node": {"type": "transform", "config": {"value": "{{ item }}"}}},
        }
    ],
}


@pytest.mark.slow
@attack("S05", "a map of as many items as it may have")
async def test_the_items_of_a_map_are_started_in_portions_and_hold_up_nobody(tmp_path):
    async with serving(tmp_path) as server:
        with watching():
            run = await server.start(MAP, {"x": [0] * COUNT}, wait=0)
            await until_true(lambda: _is_done(server, run["run_id"]), "the map is done", 300)
        with watching():
            shown = await server.ok(f"/runs/{run['run_id']}")
        assert shown["state"] == "completed"


async def _is_done(server, run_id):
    return (await server.engine.journal.find_run(run_id)).row.state == "completed"
