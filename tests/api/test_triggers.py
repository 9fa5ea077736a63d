"""Triggers over HTTP: registered, read, fired, stopped and looked after (rules 45 to 50, 55 to 59)."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from perdure.access import Authenticator
from perdure.access.keys import issue_key
from perdure.api.trigger_metrics import TriggerMetrics
from perdure.doctor import examine
from perdure.kernel.commands import Delivered
from perdure.kernel.values import Error
from perdure.service.triggers import coming_moments
from perdure.sources import Source, SourceFailed
from tests.api.helpers import bearer, serving
from tests.attack.marks import attack
from tests.engine.helpers import ended, transform, until_true, workflow
from tests.waiting import PATIENCE_SECONDS

REPORT = workflow(transform("a", {"day": "{{ inputs.day }}"}), name="report")
NIGHTLY = {
    "name": "nightly",
    "workflow": "report",
    "schedule": {"cron": "30 2 * * *", "timezone": "Europe/Oslo"},
    "inputs": {"day": "{{ trigger.at }}", "kind": "nightly"},
}
ORDERS = {
    "name": "orders",
    "workflow": "report",
    "webhook": {"verify": {"scheme": "standard", "secret": "ORDERS"}},
    "inputs": {"day": "{{ item.body.day }}"},
}
FIELDS = {
    *("name", "kind", "state", "revision", "trigger_id", "hook", "workflow", "cursor", "next_at", "last_at"),
    *("waiting", "open", "parked", "failures", "skipped", "last_success", "pauses", "error", "spec"),
}


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path) as made:
        await made.ok("/workflows", REPORT)
        yield made


async def deliver(server, *items, revision=1):
    reply = await server.engine.triggers.deliver("orders", list(items), revision)
    assert not reply.refused, reply
    return reply.items


async def test_a_new_one_is_created_the_same_changes_nothing_and_another_spec_is_the_next_revision(server):
    created = await server.post("/triggers", NIGHTLY)
    assert (created.status_code, created.headers["location"]) == (201, "/api/v1/triggers/nightly")
    view = created.json()
    assert FIELDS | {"created", "changed", "problems"} == view.keys()
    assert (view["state"], view["revision"], view["created"], view["problems"]) == ("active", 1, True, [])
    assert view["hook"] is None
    assert view["next_at"] > 0
    same = await server.post("/triggers", NIGHTLY)
    assert (same.status_code, same.json()["changed"], same.json()["revision"]) == (200, False, 1)
    other = await server.client.put("/api/v1/triggers/nightly", json={**NIGHTLY, "overlap": "buffer"})
    assert (other.status_code, other.json()["changed"], other.json()["revision"]) == (200, True, 2)
    got = await server.ok("/triggers/nightly")
    assert got.keys() == FIELDS
    assert got["spec"]["overlap"] == "buffer"
    assert [one["name"] for one in (await server.ok("/triggers?kind=schedule"))["items"]] == ["nightly"]
    assert (await server.ok("/triggers?kind=webhook"))["items"] == []
    assert (await server.ok("/triggers?state=paused"))["items"] == []


async def test_every_problem_is_told_at_once(server):
    wrong = {**NIGHTLY, "schedule": {"cron": "99 2 * * *", "timezone": "Europe/Nowhere"}, "overlap": "pile"}
    answer = await server.post("/triggers", {**wrong, "colour": 1})
    assert answer.status_code == 422
    paths = {one["path"] for one in answer.json()["problems"]}
    assert {"overlap", "colour"} <= paths
    assert (await server.ok("/triggers"))["items"] == []


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("webhook.verify.scheme", {"webhook": {"verify": {"scheme": "none"}}}),
        ("name", {"name": "other"}),
    ],
)
async def test_what_is_wrong_only_here_is_told_too(server, path, more):
    answer = await server.client.put("/api/v1/triggers/orders", json={**ORDERS, **more})
    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["problems"] if one["severity"] == "error"] == [path]


async def test_a_workflow_that_is_missing_is_a_warning(server):
    view = await server.ok("/triggers", {**NIGHTLY, "workflow": "later"})
    assert [(one["code"], one["severity"]) for one in view["problems"]] == [("workflow_not_found", "warning")]


async def test_a_tenant_has_no_more_triggers_than_it_may(server):
    server.engine.triggers.most = 1
    await server.ok("/triggers", NIGHTLY)
    refused = await server.post("/triggers", ORDERS)
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_triggers")
    await server.ok("/triggers", {**NIGHTLY, "overlap": "buffer"})
    await server.ok("/triggers/nightly", method="DELETE")
    await server.ok("/triggers", ORDERS)


async def test_the_next_moments_are_told_with_what_the_clocks_do(server):
    await server.ok("/triggers", NIGHTLY)
    found = await server.ok("/triggers/nightly/next?count=2&since=2026-03-28T00:00:00Z")
    assert found["items"] == [
        {"moment": 1774661400.0, "due": 1774661400.0, "local": "2026-03-28T02:30:00+01:00", "note": ""},
        {
            "moment": 1774746000.0,
            "due": 1774746000.0,
            "local": "2026-03-29T03:00:00+02:00",
            "note": found["items"][1]["note"],
        },
    ]
    assert "02:30" in found["items"][1]["note"]
    await server.ok("/triggers", ORDERS)
    refused = await server.get("/triggers/orders/next")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_a_schedule")


async def test_one_is_fired_by_hand_and_the_same_key_is_the_same_firing(server):
    await server.ok("/triggers", {**NIGHTLY, "overlap": "allow"})
    headers = {"Idempotency-Key": "once"}
    first = await server.ok("/triggers/nightly/fire", {"inputs": {"day": "today"}}, headers=headers)
    assert (first["number"], first["state"]) == (1, "started")
    again = await server.ok("/triggers/nightly/fire", {"inputs": {"day": "today"}}, headers=headers)
    assert again == {**first, "state": "known"}
    state = await ended(server.engine, first["run_id"])
    assert state.inputs == {"day": "today", "kind": "nightly"}
    assert state.submitted_by == "trigger:nightly"
    other = await server.ok("/triggers/nightly/fire", {})
    assert other["number"] == 2
    assert (await ended(server.engine, other["run_id"])).inputs["day"].startswith("20")


async def test_a_webhook_cannot_be_fired_without_what_only_a_delivery_has(server):
    await server.ok("/triggers", ORDERS)
    refused = await server.post("/triggers/orders/fire", {})
    assert (refused.status_code, [one["path"] for one in refused.json()["problems"]]) == (422, ["inputs"])
    fired = await server.ok("/triggers/orders/fire", {"inputs": {"day": "today"}})
    assert fired["state"] == "started"


async def test_one_is_paused_resumed_and_deleted_and_its_name_is_free_again(server):
    created = await server.ok("/triggers", ORDERS)
    assert created["hook"].startswith("/api/v1/hooks/")
    assert len(created["hook"]) == len("/api/v1/hooks/") + 22
    paused = await server.ok("/triggers/orders/pause", {"reason": "holidays"})
    assert (paused["state"], paused["hook"]) == ("paused", created["hook"])
    await deliver(server, Delivered(id="a", inputs={"day": "1"}))
    assert (await server.ok("/triggers/orders"))["waiting"] == 1
    items = await server.ok("/triggers/orders/items?state=waiting")
    assert [(one["number"], one["id"], one["state"]) for one in items["items"]] == [(1, "a", "waiting")]
    assert (await server.ok("/triggers/orders/resume", {}))["state"] == "active"
    gone = await server.ok("/triggers/orders", method="DELETE")
    assert gone == {"name": "orders", "trigger_id": created["trigger_id"], "deleted": True}
    assert (await server.get("/triggers/orders")).status_code == 404
    assert (await server.post("/triggers/orders/fire", {})).status_code == 404
    another = await server.ok("/triggers", ORDERS)
    assert another["created"]
    assert another["trigger_id"] == created["trigger_id"] + ".1"
    assert another["hook"] != created["hook"]
    assert another["revision"] == 1
    taken = await server.engine.triggers.deliver("orders", [Delivered(id="a", inputs={"day": "1"})], 1, life=1)
    assert [(one.number, one.fate) for one in taken.items] == [(1, "started")]
    assert taken.items[0].run_id.startswith(another["trigger_id"])


async def test_a_backfill_starts_runs_for_moments_of_the_past(server):
    await server.ok("/triggers", {**NIGHTLY, "schedule": {"every": "1h"}})
    until = server.engine.clock.now() // 3600 * 3600
    body = {"since": until - 3 * 3600, "until": until, "open": 2}
    await server.ok("/triggers/nightly/backfill", body)

    async def ran():
        found = await server.ok("/runs?tag=trigger=nightly")
        return len(found["items"]) == 3 and all(one["state"] == "completed" for one in found["items"])

    await until_true(ran, "three moments have had their runs")
    runs = [
        await server.ok(f"/runs/{one['run_id']}") for one in (await server.ok("/runs?tag=trigger=nightly"))["items"]
    ]
    shown = await server.ok(
        f"/triggers/nightly/next?since={int(until) - 3 * 3600}&count=3"
    )  # the first is in, `until` is not
    expected = [datetime.fromtimestamp(one["moment"], UTC).isoformat() for one in shown["items"]]
    assert sorted(run["inputs"]["day"] for run in runs) == expected
    assert shown["items"][0]["moment"] == until - 3 * 3600
    wrong = await server.post("/triggers/nightly/backfill", {"since": until, "until": until - 60})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "bad_range")


async def test_what_cannot_be_mapped_is_parked_and_mapped_anew_or_given_up(server):
    await server.ok("/triggers", ORDERS)
    error = Error("unmapped", "inputs: no day")
    raw = {"headers": {}, "query": {}, "body": {"date": "monday"}}
    for name in ("a", "b", "c"):
        await deliver(server, Delivered(id=name, inputs=raw, error=error))
    items = (await server.ok("/triggers/orders/items?state=parked"))["items"]
    assert [(one["number"], one["error"]["code"]) for one in items] == [
        (1, "unmapped"),
        (2, "unmapped"),
        (3, "unmapped"),
    ]
    page = await server.ok("/triggers/orders/items?limit=2")
    assert page["next_cursor"] == "2"
    assert len((await server.ok("/triggers/orders/items?limit=2&cursor=2"))["items"]) == 1
    refused = await server.post("/triggers/orders/items/1/requeue", {})
    assert (refused.status_code, refused.json()["problems"][0]["path"]) == (422, "inputs")
    await server.ok("/triggers", {**ORDERS, "inputs": {"day": "{{ item.body.date }}"}})
    assert (await server.ok("/triggers/orders/items/1/requeue", {}))["parked"] == 2
    assert (await server.ok("/triggers/orders/items/2/requeue", {"inputs": {"day": "mine"}}))["parked"] == 1
    assert (await server.ok("/triggers/orders/items/3/discard", {}))["parked"] == 0
    assert (await server.post("/triggers/orders/items/3/discard", {})).status_code == 404
    assert (await server.post("/triggers/orders/items/x/discard", {})).status_code == 404

    async def ran():
        found = (await server.ok("/runs?tag=trigger=orders"))["items"]
        return len(found) == 2 and all(one["state"] == "completed" for one in found)

    await until_true(ran, "both runs have ended")
    days = [(await server.ok(f"/runs/{one['run_id']}"))["inputs"] for one in items[:2]]
    assert days == [{"day": "monday"}, {"day": "mine"}]


async def test_an_item_of_a_batch_is_mapped_anew_with_its_batch_and_says_its_run_when_that_begins(server):
    batch = {"batch": {"items": 2, "within": "1h"}, "inputs": {"day": "{{ items }}"}}
    await server.ok("/triggers", {**ORDERS, **batch})
    raw = {"headers": {}, "query": {}, "body": {"date": "monday"}}
    await deliver(server, Delivered(id="a", inputs=raw, error=Error("unmapped", "key: no customer")))
    await server.ok("/triggers/orders/items/1/requeue", {})

    async def ran():
        found = (await server.ok("/runs?tag=trigger=orders"))["items"]
        return [one for one in found if one["state"] == "completed"]

    (run,) = await until_true(ran, "its run has ended")
    assert (await server.ok(f"/runs/{run['run_id']}"))["inputs"] == {"day": [raw]}
    (first,) = await deliver(server, Delivered(id="b", inputs=raw))
    (second,) = await deliver(server, Delivered(id="c", inputs=raw))
    assert (first.fate, first.run_id, second.fate) == ("waiting", "", "started")
    assert second.run_id.partition("~w")[1] == "~w"
    (again,) = await deliver(server, Delivered(id="b", inputs=raw))
    assert (again.fate, again.run_id) == ("known", "")


async def test_what_a_trigger_would_do_is_shown_and_nothing_is_written(server):
    await server.ok("/triggers", ORDERS)
    item = {"headers": {}, "query": {}, "body": {"day": "1"}}
    mapped = await server.ok("/triggers/orders/test", {"item": item, "id": "x"})
    assert mapped == {"name": "orders", "result": "mapped", "id": "x", "key": "", "inputs": {"day": "1"}}
    assert (await server.ok("/triggers/orders/test", {"item": {}}))["result"] == "poison"
    await server.ok("/triggers", NIGHTLY)
    moment = await server.ok("/triggers/nightly/test", {"at": "2026-03-28T00:00:00Z"})
    assert (moment["result"], moment["moment"]) == ("mapped", 1774661400.0)
    assert moment["inputs"]["day"] == "2026-03-28T02:30:00+01:00"
    assert (await server.ok("/triggers/orders"))["last_at"] is None


async def test_all_schedules_are_listed_with_when_they_are_due(server):
    await server.ok("/triggers", NIGHTLY)
    await server.ok("/triggers", {**NIGHTLY, "name": "noon", "schedule": {"cron": "0 12 * * *"}})
    await server.ok("/triggers", ORDERS)
    assert [one["name"] for one in (await server.ok("/schedules"))["items"]] == ["nightly", "noon"]
    found = await server.ok("/schedules/firings?from=2026-01-01T00:00:00Z&to=2026-01-03T00:00:00Z")
    assert [(one["name"], one["local"][:16]) for one in found["items"]] == [
        ("nightly", "2026-01-01T02:30"),
        ("noon", "2026-01-01T12:00"),
        ("nightly", "2026-01-02T02:30"),
        ("noon", "2026-01-02T12:00"),
    ]
    assert found["capped"] is False
    some = await server.ok("/schedules/firings?from=2026-01-01T00:00:00Z&to=2026-01-03T00:00:00Z&limit=3")
    assert (len(some["items"]), some["capped"]) == (3, True)
    assert (await server.get("/schedules/firings?from=5&to=4")).status_code == 422


async def test_moments_of_all_schedules_have_no_hole_where_one_is_too_dense_to_be_followed_to_the_end(
    server, monkeypatch
):
    monkeypatch.setattr(coming_moments, "LOOK_STEPS", 20_000)
    for name, schedule in (("dense", {"cron": "* * * * *"}), ("daily", {"cron": "0 3 * * *"})):
        await server.ok("/triggers", {"name": name, "workflow": "report", "schedule": schedule})
    found = await server.ok("/schedules/firings?from=2026-01-01T00:00:00Z&to=2026-01-05T00:00:00Z")
    dense = [one["due"] for one in found["items"] if one["name"] == "dense"]
    assert found["capped"]
    assert 10 < len(dense) < 1000
    assert max(one["due"] for one in found["items"]) == dense[-1]


async def test_lists_of_runs_leave_triggers_out_unless_they_are_asked_for(server):
    made = await server.ok("/triggers", NIGHTLY)
    assert (await server.ok("/runs"))["items"] == []
    assert (await server.ok("/runs/counts"))["total"] == 0
    for asked in ("workflow=perdure:trigger", "id=trigger~"):
        assert [one["run_id"] for one in (await server.ok(f"/runs?{asked}"))["items"]] == [made["trigger_id"]]


async def test_what_is_pushed_has_no_cursor_to_set_back(server):
    await server.ok("/triggers", ORDERS)
    refused = await server.post("/triggers/orders/rewind", {"cursor": "7", "reason": "lost"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_a_source")
    assert (await server.post("/triggers/orders/rewind", {"cursor": "7"})).status_code == 422


async def test_large_inputs_of_a_firing_are_kept_as_blobs(server):
    await server.ok("/triggers", {**NIGHTLY, "overlap": "allow"})
    large = "x" * 100_000
    fired = await server.ok("/triggers/nightly/fire", {"inputs": {"day": large}})
    await ended(server.engine, fired["run_id"])
    assert (await server.ok(f"/runs/{fired['run_id']}"))["inputs"]["day"] == large


async def test_a_trigger_of_another_tenant_does_not_exist(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        mine, theirs = bearer("author", tenant="mine"), bearer("admin", tenant="theirs")
        await server.ok("/workflows", REPORT, headers=mine)
        made = await server.ok("/triggers", ORDERS, headers=mine)
        for method, path in (
            *(("GET", f"/triggers/orders{more}") for more in ("", "/next", "/items")),
            *(("POST", f"/triggers/orders/{what}") for what in ("pause", "resume", "fire", "test", "items/1/discard")),
            ("DELETE", "/triggers/orders"),
        ):
            answer = await server.client.request(method, f"/api/v1{path}", headers=theirs)
            assert answer.status_code == 404, path
            assert made["trigger_id"] not in answer.text
        assert (await server.ok("/triggers", headers=theirs))["items"] == []
        another = await server.ok("/triggers", ORDERS, headers=theirs)
        assert another["created"]
        assert another["trigger_id"] != made["trigger_id"]
        assert (await server.ok("/triggers/orders", headers=mine))["trigger_id"] == made["trigger_id"]


async def test_changes_stand_in_the_audit(server):
    await server.ok("/triggers", NIGHTLY)
    await server.ok("/triggers/nightly/fire", {"inputs": {"day": "secret thing"}})
    answer = await server.get("/audit")
    found = [(one["action"], one["object"]) for one in answer.json()["items"] if one["action"].startswith("triggers.")]
    assert sorted(found) == [("triggers.apply", "nightly"), ("triggers.fire", "nightly")]
    assert "secret thing" not in answer.text


async def test_what_is_parked_is_a_dead_letter_like_others(server):
    await server.ok("/triggers", ORDERS)
    raw = {"headers": {}, "query": {}, "body": {"date": "monday"}}
    for name in ("a", "b", "c"):
        await deliver(server, Delivered(id=name, inputs=raw, error=Error("unmapped", "inputs: no day")))
    letters = (await server.ok("/dead-letters?state=pending"))["items"]
    assert [(one["trigger"], one["item"], one["error"]["code"]) for one in letters] == [
        ("orders", number, "unmapped") for number in (1, 2, 3)
    ]
    first, second, third = (f"/dead-letters/{one['dead_letter_id']}" for one in letters)
    shown = await server.ok(first)
    assert (shown["inputs"], shown["problem"]) == (raw, None)
    refused = await server.post(f"{first}/requeue", {})
    assert (refused.status_code, refused.json()["problems"][0]["code"]) == (422, "template_error")
    requeued = await server.ok(f"{first}/requeue", {"input": {"day": "mine"}})
    assert (requeued["state"], requeued["by"]) == ("requeued", "local")
    assert (await server.ok(f"{second}/discard", {}))["state"] == "discarded"
    counted = await server.ok("/dead-letters/discard", {"code": "unmapped"})
    assert counted["matched"] == 1
    done = await server.ok("/dead-letters/discard", {"code": "unmapped", "expected": 1})
    assert (done["done"], done["refused"]) == (1, [])
    assert (await server.ok(third))["state"] == "discarded"
    assert (await server.ok("/triggers/orders"))["parked"] == 0
    report = await examine(server.engine.journal, server.engine.library)
    assert report.findings == []


async def test_letters_of_items_go_with_their_trigger(server):
    await server.ok("/triggers", ORDERS)
    await deliver(server, Delivered(id="a", error=Error("unmapped", "inputs: no day")))
    await server.ok("/triggers/orders", method="DELETE")
    (letter,) = (await server.ok("/dead-letters"))["items"]
    assert letter["state"] == "discarded"
    report = await examine(server.engine.journal, server.engine.library)
    assert report.findings == []


async def test_a_run_is_of_the_version_that_an_alias_means_when_it_starts(server):
    await server.ok("/workflows/report/aliases/stable", {"version": 1}, method="PUT")
    await server.ok("/workflows", workflow(transform("a", "second"), name="report"))
    made = await server.ok("/triggers", {**NIGHTLY, "workflow": "report@stable", "overlap": "allow"})
    assert made["problems"] == []
    first = await server.ok("/triggers/nightly/fire", {})
    assert (await ended(server.engine, first["run_id"])).workflow_version == 1
    await server.ok("/workflows/report/aliases/stable", {"version": 2}, method="PUT")
    second = await server.ok("/triggers/nightly/fire", {})
    assert (await ended(server.engine, second["run_id"])).workflow_version == 2


async def test_what_triggers_do_is_counted_by_closed_labels(server):
    await server.ok("/triggers", ORDERS)
    await server.ok("/triggers", {**NIGHTLY, "overlap": "allow"})
    await deliver(server, Delivered(id="a", inputs={"day": "1"}), Delivered(id="b", error=Error("unmapped", "no")))
    await server.ok("/triggers/nightly/fire", {})
    await server.ok("/triggers/orders/pause", {})
    await deliver(server, Delivered(id="c", inputs={"day": "1"}))
    await server.ok("/triggers/orders", method="DELETE")
    text = (await server.client.get("/metrics")).text
    found = {
        line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in text.splitlines() if "perdure_trigger" in line
    }
    assert found['perdure_trigger_items_total{kind="webhook"}'] == "3.0"
    assert found['perdure_trigger_items_total{kind="schedule"}'] == "1.0"
    assert found["perdure_trigger_started_total"] == "2.0"
    assert found["perdure_trigger_parked_total"] == "1.0"
    assert found['perdure_trigger_skipped_total{reason="deleted"}'] == "1.0"
    assert found["perdure_trigger_lateness_seconds_count"] == "0.0"
    assert "orders" not in text
    assert "nightly" not in text


async def test_the_triggers_of_a_definition_are_applied_with_it_and_paused_when_it_has_them_no_longer(server):
    daily = {key: value for key, value in NIGHTLY.items() if key != "workflow"}
    hourly = {"name": "hourly", "schedule": {"every": "1h"}}
    left = await server.ok("/workflows?triggers=false", {**REPORT, "name": "own", "triggers": [daily, hourly]})
    assert (left["triggers"], (await server.ok("/triggers"))["items"]) == ({"applied": [], "paused": []}, [])
    first = await server.ok("/workflows", {**REPORT, "name": "own", "triggers": [daily, hourly]})
    assert [(one["name"], one["workflow"], one["created"]) for one in first["triggers"]["applied"]] == [
        ("nightly", "own", True),
        ("hourly", "own", True),
    ]
    second = await server.ok("/workflows", {**REPORT, "name": "own", "triggers": [{**daily, "overlap": "buffer"}]})
    assert [(one["name"], one["revision"]) for one in second["triggers"]["applied"]] == [("nightly", 2)]
    assert second["triggers"]["paused"] == ["hourly"]
    assert (await server.ok("/triggers/hourly"))["state"] == "paused"
    patch = {"patch": [{"op": "remove", "path": "/triggers"}], "reason": "quiet"}
    assert (await server.ok("/workflows/own/patch", patch))["triggers"]["paused"] == ["nightly"]


async def test_a_definition_whose_triggers_are_refused_here_is_not_stored_and_one_refused_later_says_so(server):
    unsigned = {"name": "open", "webhook": {"verify": {"scheme": "none"}}}
    answer = await server.post("/workflows", {**REPORT, "name": "own", "triggers": [unsigned]})
    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["problems"]] == ["triggers.0.webhook.verify.scheme"]
    assert (await server.get("/workflows/own")).status_code == 404
    server.engine.triggers.most = 1
    several = [{"name": name, "schedule": {"every": "1h"}} for name in ("one", "two")]
    refused = await server.post("/workflows", {**REPORT, "name": "own", "triggers": several})
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_triggers")
    assert "own is version 1" in refused.json()["detail"]
    assert [one["name"] for one in (await server.ok("/triggers"))["items"]] == ["one"]


async def test_figures_say_what_triggers_hold(server):
    await server.ok("/workflows", workflow({"id": "s", "type": "wait", "config": {"signal": "go"}}, name="report"))
    await server.ok("/triggers", {**ORDERS, "limits": {"open": 1}})
    await deliver(server, Delivered(id="a"), Delivered(id="b"))

    async def figures() -> dict[str, float]:
        lines = (await server.client.get("/metrics")).text.splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("perdure_trigger_")}

    found = await figures()
    assert (found["perdure_trigger_waiting"], found["perdure_trigger_open"]) == (1, 1)
    await server.ok("/triggers/orders", method="DELETE")
    found = await figures()
    assert (found["perdure_trigger_waiting"], found["perdure_trigger_open"]) == (0, 0)
    assert found["perdure_trigger_poll_failures_total"] == 0
    assert found["perdure_trigger_poll_age_seconds"] == 0


class _Silent(Source, name="silent"):
    """Cannot be asked at first; whoever asks again gets no answer until the test is over."""

    asked = 0
    over = threading.Event()

    def poll(self, cursor):
        _Silent.asked += 1
        if _Silent.asked > 1:
            self.over.wait(PATIENCE_SECONDS)
        raise SourceFailed("the depot does not answer")


async def test_figures_say_how_old_the_oldest_poll_is_and_how_many_failed(server):
    _Silent.asked, _Silent.over = 0, threading.Event()
    await server.ok("/triggers", {"name": "own", "workflow": "report", "poll": {"type": "silent", "every": "1s"}})

    async def figures():
        lines = (await server.client.get("/metrics")).text.splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("perdure_trigger_poll")}

    async def failed_and_asked_again():
        found = await figures()
        return found["perdure_trigger_poll_failures_total"] > 0 and found["perdure_trigger_poll_age_seconds"] > 0

    try:
        await until_true(failed_and_asked_again, "a poll has failed, and the next one is out")
        await server.ok("/triggers/own", method="DELETE")
        assert (await figures())["perdure_trigger_poll_age_seconds"] == 0
    finally:
        _Silent.over.set()


def test_the_figures_of_triggers_are_in_the_reference():
    registry = CollectorRegistry()
    TriggerMetrics(registry)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "triggers.md").read_text()
    assert [one.name for one in registry.collect() if one.name not in page] == []


@attack("X19", "a key that may operate runs and start none starts one by a trigger")
async def test_what_starts_a_run_by_a_trigger_needs_the_right_to_start_runs(server):
    await server.ok("/triggers", NIGHTLY)
    await server.ok("/triggers", ORDERS)
    await deliver(server, Delivered(id="1", inputs={}, error=Error("unmapped", "no day")))
    archive, clock = server.engine.journal.archive, server.engine.clock
    server.app.state.site._authenticator = Authenticator(archive, clock, keys=True)
    made = await issue_key(
        archive, clock, tenant="default", name="ci", roles=("operator",), scopes=("runs:operate",), by="root"
    )
    headers = {"Authorization": f"Bearer {made.text}"}
    asked = {
        "/triggers/nightly/fire": {"inputs": {"day": "any"}},
        "/triggers/nightly/backfill": {"since": 0, "until": 10_000_000},
        "/triggers/orders/items/1/requeue": {"inputs": {"day": "any"}},
    }
    for path, body in asked.items():
        answer = await server.post(path, body, headers=headers)
        assert (answer.status_code, "runs:start" in answer.json()["detail"]) == (403, True), (path, answer.text)
    assert (await server.post("/triggers/nightly/pause", {}, headers=headers)).status_code == 200
