"""Triggers declared in Python: data beside a workflow, found in files, and a part of the definition."""

import datetime
from typing import Any

import pytest

import perdure
from perdure.sdk import loader
from perdure.sdk.errors import BuildError
from perdure.testing import deliver, run_schedule
from perdure.triggers.declarations import read_data


@perdure.task
def work(day: str) -> str:
    return day


@perdure.workflow
def report(day: str = "") -> str:
    return work(day)


def test_a_schedule_is_data_as_a_file_would_hold_it():
    made = perdure.schedule(
        "report@stable",
        cron=["30 2 * * *", "0 12 * * MON"],
        timezone="Europe/Oslo",
        leave_out=[datetime.date(2026, 12, 25), {"cron": "* * * 7 *"}],
        jitter=datetime.timedelta(minutes=5),
        begin=datetime.datetime(2026, 1, 1, 8, 0, 0, 5, tzinfo=datetime.UTC),
        until="2098-01-01",
        max_firings=9,
        catchup={"mode": "all", "within": "2d"},
        name="nightly",
        overlap="buffer",
        inputs={"day": "{{ trigger.at }}"},
    )
    assert made.definition() == {
        "workflow": "report@stable",
        "name": "nightly",
        "catchup": {"mode": "all", "within": "2d"},
        "overlap": "buffer",
        "inputs": {"day": "{{ trigger.at }}"},
        "schedule": {
            "cron": ["30 2 * * *", "0 12 * * MON"],
            "timezone": "Europe/Oslo",
            "except": ["2026-12-25", {"cron": "* * * 7 *"}],
            "jitter": 300.0,
            "from": "2026-01-01T08:00:00+00:00",
            "until": "2098-01-01",
            "max_firings": 9,
        },
    }
    (trigger,) = read_data(made.definition(), 1_790_000_000.0).get_triggers()
    assert (trigger.name, trigger.workflow) == ("nightly", "report@stable")


def test_webhooks_and_events_are_data_too():
    hook = perdure.on_webhook("w", scheme="github", secret="HUB", id="{{ item.body.id }}", filter="item.body.ok")
    assert hook.definition() == {
        "workflow": "w",
        "name": "w",
        "filter": "item.body.ok",
        "webhook": {"verify": {"scheme": "github", "secret": "HUB"}, "id": "{{ item.body.id }}"},
    }
    own = perdure.on_webhook("w", verify={"scheme": "hmac", "secret": "S", "header": "X-Sig"})
    assert own.data["webhook"]["verify"] == {"scheme": "hmac", "secret": "S", "header": "X-Sig"}
    paid = perdure.on_event("w", "order.paid", match="event.amount > 100", key="{{ item.key }}")
    assert paid.data["event"] == {"name": "order.paid", "match": "event.amount > 100"}
    for one in (hook, own, paid):
        read_data(one.definition(), 1_790_000_000.0).get_triggers()


def definition(file):
    found = loader.load(file).compiled.definition
    assert found is not None
    return found


def test_what_is_declared_for_a_workflow_of_the_file_is_in_its_definition(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "declared_one.py").write_text(
        "import perdure\n"
        "@perdure.task\n"
        "def work(day: str) -> str:\n    return day\n"
        "@perdure.workflow\n"
        "def report(day: str) -> str:\n    return work(day)\n"
        "perdure.schedule(report, every='15m', inputs={'day': 'x'})\n"
        "perdure.on_event('other', 'paid')\n"
        "perdure.schedule(work, every='1h', name='direct')\n"
    )
    assert definition("declared_one.py:report")["triggers"] == [
        {"name": "report", "inputs": {"day": "x"}, "schedule": {"every": "15m"}}
    ]
    listed = loader.load_triggers("declared_one.py")
    assert [(one.name, one.workflow, one.line) for one in listed] == [
        ("report", "report", 8),
        ("other", "other", 9),
        ("direct", "work", 10),
    ]
    assert [one.name for one in loader.load_triggers("declared_one.py:report")] == ["report"]
    assert definition("declared_one.py:work")["triggers"] == [{"name": "direct", "schedule": {"every": "1h"}}]


def test_a_file_that_declares_none_says_how(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "declared_none.py").write_text("x = 1\n")
    with pytest.raises(loader.LoadError, match=r"declares no trigger; declare one with perdure\.schedule"):
        loader.load_triggers("declared_none.py")


def call(declare: Any, target: Any = "w", **options: Any) -> Any:
    return declare(target, **options)


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: call(perdure.schedule, every="1m", input={}), "has no option 'input'; did you mean 'inputs'"),
        (lambda: call(perdure.schedule, every="1m", filter="x"), "perdure.schedule has no option 'filter'"),
        (lambda: call(perdure.on_webhook, target=work.fn), "for a workflow, a task or a name, got function"),
        (lambda: perdure.on_event("w", "e", inputs={"a": object()}), "which JSON cannot hold"),
    ],
)
def test_a_mistake_is_found_where_it_is_declared(declare, said):
    with pytest.raises(BuildError) as caught:
        declare()
    assert said in str(caught.value)


def test_what_was_declared_is_tested_as_it_is():
    nightly = perdure.schedule(report, cron="30 2 * * *", inputs={"day": "{{ trigger.at }}"}, name="n1")
    fired = run_schedule(nightly, since="2026-05-01", until="2026-05-03", stubs={"work": "done"})
    assert [run.inputs["day"][:10] for run in fired.runs] == ["2026-05-01", "2026-05-02"]
    hook = perdure.on_webhook(report, secret="S", inputs={"day": "{{ item.body }}"}, name="n2")
    assert deliver(hook, {"body": "today"}, stubs={"work": "done"}).runs[0].inputs == {"day": "today"}
