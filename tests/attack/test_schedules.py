"""Schedules that take long to look at hold up nobody (S03): when they are checked, and when the coordinator looks for moments."""

import pytest

from perdure.service.triggers import coming_moments, shown_triggers
from tests.api.helpers import serving
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.waiting import until_true

NEVER = {"every": "1s", "except": [{"cron": "* * * * *"}]}
NEVER_THAT_IS_LONG = {
    "cron": "59 23 31 * *",
    "timezone": "America/St_Johns",
    "except": [{"cron": "59 23 31 1-6 *"}, {"cron": "59 23 31 7-12 *"}],
}
IN_OCTOBER = {
    "cron": "* * * * *",
    "timezone": "Europe/Berlin",
    "except": [{"cron": "* * * 11-12 *"}, {"cron": "* * * 1-9 *"}],
}
BY_MINUTES = {**IN_OCTOBER, "except": [{"cron": "0-29 * * * *"}, {"cron": "30-58 * * * *"}, {"cron": "59 1-23 * * *"}]}


def trigger(schedule):
    return {"name": "c9", "workflow": "take", "inputs": {}, "schedule": schedule}


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [NEVER, NEVER_THAT_IS_LONG])
@attack("S03", "a short schedule that leaves out all its moments")
async def test_a_schedule_is_checked_beside_the_loop(tmp_path, schedule):
    listed = {"name": "w", "nodes": [{"id": "a", "type": "pass"}], "triggers": [{"name": "c9", "schedule": schedule}]}
    async with serving(tmp_path) as server:
        with watching():
            refused = await server.post("/triggers", trigger(schedule))
            other = await server.post("/workflows", listed)
        assert (refused.status_code, refused.json()["problems"][0]["code"]) == (422, "bad_schedule"), refused.text
        assert other.status_code == 422, other.text
        assert "bad_schedule" in [one["code"] for one in other.json()["problems"]]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [IN_OCTOBER, BY_MINUTES])
@attack("S03", "a schedule that leaves out almost all its moments")
async def test_a_schedule_with_few_moments_holds_up_nobody(tmp_path, schedule):
    async with serving(tmp_path) as server:
        await server.ok("/workflows", {"name": "take", "nodes": [{"id": "a", "type": "pass"}]})
        with watching():
            await server.ok("/triggers", trigger(schedule))
            await server.ok("/triggers/c9/pause", {})
            await server.ok("/triggers/c9/resume", {})
            body = {"since": "1970-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}
            for _ in range(5):
                await server.ok("/triggers/c9/backfill", body)
            await server.ok("/triggers/c9/pause", {})
        assert (await server.ok("/triggers/c9"))["state"] == "paused"


@pytest.mark.slow
@attack("S03", "a backfill of moments that can start no run")
async def test_a_backfill_whose_workflow_is_gone_holds_up_nobody(tmp_path):
    async with serving(tmp_path) as server:
        await server.ok("/triggers", {**trigger({"every": "1m"}), "workflow": "gone"})
        with watching():
            body = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T05:00:00Z"}
            await server.ok("/triggers/c9/backfill", body)

            async def count():
                return (await server.ok("/triggers/c9"))["parked"] == 300

            await until_true(count, "all moments are parked")


@attack("S03", "a look at when many schedules are due that are due all the time")
async def test_of_many_schedules_no_more_moments_are_found_than_are_shown(tmp_path, monkeypatch):
    """A thousand of them, each looked at for as many moments as an answer holds, took a thread 15 seconds."""
    found, real = [], shown_triggers.moment_view

    def note(*about):
        found.append(real(*about)["due"])
        return real(*about)

    monkeypatch.setattr(coming_moments, "moment_view", note)
    names = [f"c{number}" for number in range(6)]
    async with serving(tmp_path) as server:
        for name in names:
            await server.ok("/triggers", {**trigger({"every": "1m", "from": "2030-01-01T00:00:00Z"}), "name": name})
        found.clear()
        shown = await server.ok("/schedules/firings?from=2030-02-01T00:00:00Z&to=2030-02-02T00:00:00Z&limit=59")
    assert (len(shown["items"]), shown["capped"]) == (59, True)
    expected = [(number, name) for number in range(10) for name in names][:59]
    begin = shown["items"][0]["due"]
    assert [((one["due"] - begin) / 60, one["name"]) for one in shown["items"]] == expected
    assert len(found) < 4 * 60 < 6 * 60
