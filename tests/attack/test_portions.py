"""Runs that are large: no turn of the loop grows with them (S05)."""

import pytest

from tests.api.helpers import serving
from tests.attack.marks import attack
from tests.attack.watchdog import watching

COUNT = 30_000
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
            run = await server.start(MAP, {"x": [0] * COUNT})
        assert run["state"] == "completed"
        with watching():
            shown = await server.ok(f"/runs/{run['run_id']}")
        assert shown["state"] == "completed"
