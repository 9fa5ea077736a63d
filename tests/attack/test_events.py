"""The events of a run are read in portions, whoever reads them: a page of large ones holds up nobody (S03)."""

import pytest

from perdure.service.runs.attempts import attempts_of
from tests.api.helpers import serving
from tests.attack.marks import attack
from tests.attack.watchdog import LONGEST_SECONDS, watching

ITEMS = 400
LONG = 14_000
"""As many numbers as an event may hold without a blob."""
MAP = {
    "name": "w",
    "nodes": [
        {
            "id": "m",
            "type": "map",
            "config": {"over": "{{ inputs.x }}", "node": {"type": "transform", "config": {"value": [0] * LONG}}},
        }
    ],
}


@pytest.mark.slow
@attack("S03", "a page of events that are each as large as they may be")
async def test_a_page_of_large_events_holds_up_nobody(tmp_path):
    async with serving(tmp_path) as server:
        engine = server.engine
        run_id = (await server.start(MAP, {"x": list(range(ITEMS))}))["run_id"]
        state = await engine.runs.state(run_id)
        assert state.state == "completed"
        with watching(LONGEST_SECONDS / 2):
            types = [event.type async for event in engine.runs.follow(run_id)]
        assert types[-1] == "run.completed"
        assert len(types) == state.seq > ITEMS
        with watching(LONGEST_SECONDS / 2):
            assert await attempts_of(engine, state, {"node": "m", "visits": []})
        with watching():  # the answer itself, of 8 MiB, is most of the longest turn
            answer = await server.get(f"/runs/{run_id}/events?limit=1000")
        page = answer.json()
        assert 0 < len(page["items"]) < len(types), "large events make a shorter page"
        assert page["next_cursor"] == str(page["items"][-1]["seq"])
        rest = (await server.ok(f"/runs/{run_id}/events?limit=1000&cursor={page['next_cursor']}"))["items"]
        assert rest[0]["seq"] == page["items"][-1]["seq"] + 1
