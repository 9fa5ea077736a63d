"""Triggers in a user's tests: moments in virtual time, and items that are pushed."""

from datetime import UTC, datetime

import pytest

import perdure
from perdure.model import DefinitionError
from perdure.testing import Pushed, Stub, StubInvalid, TriggerInvalid, approve, assert_run, deliver, run_schedule

REPORT = """
name: report
inputs: {type: object, required: [day], properties: {day: {type: string}, since: {type: string}}}
nodes:
  - {id: make, type: http, config: {url: "https://example.com", json: {day: "{{ inputs.day }}"}}}
outputs: {day: "{{ inputs.day }}"}
"""
NIGHTLY = """
name: nightly
workflow: report@stable
schedule: {cron: "30 2 * * *", timezone: Europe/Oslo}
inputs: {day: "{{ trigger.at }}", since: "{{ trigger.previous }}"}
"""
ORDER = """
name: take-order
inputs: {type: object, required: [id], properties: {id: {type: integer}}}
nodes: [{id: pay, type: http, config: {url: "https://example.com"}}]
"""
ORDERS = {
    "name": "orders",
    "workflow": "take-order",
    "webhook": {"verify": {"scheme": "github", "secret": "HOOK"}, "id": "{{ item.headers['x-delivery'] }}"},
    "filter": "item.body.kind == 'order'",
    "key": "{{ item.body.customer }}",
    "inputs": {"id": "{{ item.body.id }}"},
}


def order(number, customer="ann", **fields):
    body = {"kind": "order", "id": number, "customer": customer, **fields}
    return {"body": body, "headers": {"X-Delivery": f"d{number}"}}


def nightly(text=NIGHTLY, **options):
    about = {"since": "2026-03-27", "until": "2026-03-31", "stubs": {"make": {}}, **options}
    return run_schedule(text, workflows=[REPORT], **about)


def test_a_schedule_runs_over_a_change_of_the_clocks():
    fired = nightly()
    assert [run.inputs for run in fired.runs] == [
        {"day": "2026-03-27T02:30:00+01:00", "since": "2026-03-26T02:30:00+01:00"},
        {"day": "2026-03-28T02:30:00+01:00", "since": "2026-03-27T02:30:00+01:00"},
        {"day": "2026-03-29T03:00:00+02:00", "since": "2026-03-28T02:30:00+01:00"},
        {"day": "2026-03-30T02:30:00+02:00", "since": "2026-03-29T03:00:00+02:00"},
    ]
    for run in fired.runs:
        assert_run(run, state="completed", outputs={"day": run.inputs["day"]})
        assert run.tags["trigger"] == "nightly"
        assert len(run.calls) == 1
    assert (fired.skipped, fired.parked, fired.waiting) == ((), (), 0)


@pytest.mark.slow
def test_a_moment_while_a_run_is_open_is_skipped_and_said():
    often = NIGHTLY.replace('cron: "30 2 * * *"', "every: 5m")
    about = {"since": "2026-03-27T12:00", "until": "2026-03-27T12:22", "stubs": {"make": Stub(delay=400)}}
    fired = nightly(often, **about)
    assert [run.inputs["day"][11:16] for run in fired.runs] == ["12:05", "12:15"]
    assert [(one.reason, one.at[11:16]) for one in fired.skipped] == [("overlap", "12:10"), ("overlap", "12:20")]
    assert all(run.state == "completed" for run in fired.runs)  # the last one after `until`
    waits = nightly(often + "overlap: buffer\n", **about)
    assert [run.inputs["day"][11:16] for run in waits.runs] == ["12:05", "12:10", "12:15"]
    assert waits.waiting == 1


@pytest.mark.slow
def test_a_run_that_was_left_out_is_made_up_for_from_the_last_success_on():
    since = 'since: "{{ trigger.last_success | default(trigger.previous, true) }}"'
    often = NIGHTLY.replace('cron: "30 2 * * *"', "every: 5m").replace('since: "{{ trigger.previous }}"', since)
    about = {"since": "2026-03-27T12:00", "until": "2026-03-27T12:22", "stubs": {"make": Stub(delay=400)}}
    runs = nightly(often, **about).runs
    assert [(run.inputs["since"][11:16], run.inputs["day"][11:16]) for run in runs] == [
        ("12:00", "12:05"),
        ("12:05", "12:15"),  # 12:10 was skipped
    ]


def test_since_counts_and_until_does_not():
    hourly = {"name": "h", "workflow": "report", "schedule": {"every": "1h"}, "inputs": {"day": "{{ trigger.at }}"}}
    begin = datetime(2026, 5, 1, tzinfo=UTC)
    fired = nightly(hourly, since=begin, until=begin.timestamp() + 3 * 3600)
    assert [run.inputs["day"][11:16] for run in fired.runs] == ["01:00", "02:00"]


def test_a_workflow_that_waits_for_a_person_is_decided():
    ask = "name: report\nnodes: [{id: ask, type: human}]\n"
    fired = run_schedule(
        NIGHTLY.replace("inputs", "description: x #"), since="2026-01-01", until="2026-01-03", workflows=[ask],
        stubs={"ask": approve(after=60)},
    )  # fmt: skip
    assert [run.state for run in fired.runs] == ["completed", "completed"]
    open_ = run_schedule(
        NIGHTLY.replace("inputs", "description: x #"), since="2026-01-01", until="2026-01-02", workflows=[ask]
    )
    assert open_.runs[0].waiting == ("ask waits for a person: 0 of 1 approvals by anyone.",)


def test_a_moment_whose_inputs_do_not_fit_is_parked():
    fired = nightly(NIGHTLY.replace("day:", "night:"))
    assert fired.runs == ()
    assert {one.code for one in fired.parked} == {"invalid_inputs"}
    assert "day" in fired.parked[0].message


def test_what_is_pushed_starts_one_run_for_each_id():
    fired = deliver(
        ORDERS, order(1), order(2), order(1), {"body": {"kind": "other"}}, workflows=[ORDER], stubs={"pay": {}}
    )
    assert [run.inputs for run in fired.runs] == [{"id": 1}, {"id": 2}]
    assert [run.state for run in fired.runs] == ["completed", "completed"]
    assert [item["body"] for item in fired.filtered] == [{"kind": "other"}]


def test_orders_of_a_customer_come_one_after_the_other():
    times = []

    def pay(call):
        times.append(call.run_id)
        return {}

    items = [Pushed(order(1), at=5), order(2), order(3, "bob")]
    fired = deliver(ORDERS, *items, workflows=[ORDER], stubs={"pay": Stub(delay=60, then=pay)})
    first, second, third = (run.inputs["id"] for run in fired.runs)
    assert (first, second, third) == (2, 3, 1)  # 1 comes later, and waits for 2
    assert fired.runs[2].events[0]["at"] >= fired.runs[0].events[-1]["at"]


def test_an_item_that_cannot_be_mapped_is_parked():
    fired = deliver(ORDERS, Pushed({"body": {"kind": "order"}}, id="x"), order("y"), workflows=[ORDER])
    assert fired.runs == ()
    assert [(one.id, one.code) for one in fired.parked] == [("x", "unmapped"), ("dy", "invalid_inputs")]


def test_items_of_a_window_are_given_to_one_run():
    sums = "name: take-order\nnodes: [{id: n, type: transform, config: {value: '{{ inputs.ids }}'}}]\n"
    batched = {
        **ORDERS,
        "batch": {"items": 2, "within": "1h"},
        "inputs": {"ids": "{{ items | map(attribute='body.id') | list }}"},
    }
    fired = deliver(batched, order(1), order(2), Pushed(order(3), at=10), workflows=[sums])
    assert [run.outputs for run in fired.runs] == [{"n": [1, 2]}, {"n": [3]}]
    assert fired.runs[1].events[0]["at"] - fired.runs[0].events[0]["at"] >= 3600


def test_a_python_workflow_is_started():
    @perdure.task
    def work(day: str) -> str:
        return day.upper()

    @perdure.workflow
    def report(day: str) -> str:
        return work(day)

    fired = run_schedule(
        NIGHTLY.replace(', since: "{{ trigger.previous }}"', ""), since="2026-01-01", until="2026-01-02",
        workflows=[report], stubs={"work": "X"},
    )  # fmt: skip
    assert fired.runs[0].outputs == {"result": "X"}


@pytest.mark.parametrize(
    ("work", "error", "said"),
    [
        (lambda: nightly(ORDERS), TriggerInvalid, "orders is a webhook and has no moments; use deliver"),
        (lambda: deliver(NIGHTLY, {}, workflows=[REPORT]), TriggerInvalid, "a schedule and takes no items"),
        (lambda: nightly(until="2026-03-27"), TriggerInvalid, "does not come before until"),
        (lambda: deliver(ORDERS, workflows=[REPORT]), TriggerInvalid, "starts take-order, which is not there; workflows= has report"),
        (lambda: deliver(ORDERS, {"id": 1}, workflows=[ORDER]), TriggerInvalid, "{body, headers, query}"),
        (lambda: nightly([{**ORDERS}, {**ORDERS, "name": "b"}]), TriggerInvalid, "choose one with name=: orders, b"),
        (lambda: nightly([{**ORDERS}], name="order"), TriggerInvalid, "did you mean 'orders'"),
        (lambda: nightly(stubs={}), StubInvalid, "has no stub"),
        (lambda: nightly(stubs={"mak": {}}), StubInvalid, "names no node"),
        (lambda: nightly(NIGHTLY.replace("2 * * *", "99 * * *")), DefinitionError, "cron line"),
    ],
)  # fmt: skip
def test_a_mistake_is_explained(work, error, said):
    with pytest.raises(error, match=None) as caught:
        work()
    assert said in str(caught.value)


def test_the_history_can_be_read():
    lines = nightly(until="2026-03-28").history()
    assert any("make is completed" in line for line in lines), lines
    assert any("nightly: starts nightly~t1774575000" in line for line in lines), lines
    assert any("parks item 1: invalid_inputs" in line for line in nightly(NIGHTLY.replace("day:", "n:")).history())
