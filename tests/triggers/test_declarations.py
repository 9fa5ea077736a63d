"""Triggers as they are written: every problem at once, with its place; and what is accepted fits the schema."""

import re
from pathlib import Path

import msgspec
import pytest

from perdure.budget import Budget
from perdure.expressions.json_schema import check as misfits
from perdure.model import trigger_sources as sources
from perdure.model import triggers
from perdure.model.durations import parse_duration, say_duration
from perdure.model.problems import DefinitionError
from perdure.model.trigger_schema import describe_triggers
from perdure.model.trigger_sources import SCHEMES, Schedule, Table, Verify, Webhook
from perdure.model.triggers import Limits, Trigger
from perdure.triggers.declarations import read_data, read_text
from perdure.triggers.mapping import FACTS

NOW = 1_790_000_000.0
VERIFY = {"scheme": "github", "secret": "HUB"}

EVERYTHING = """
- name: nightly
  description: what came in
  workflow: report@stable
  schedule:
    cron: ["30 2 * * 1-5", 0 12 1 * *]
    timezone: Europe/Oslo
    except: ["2026-12-25", {cron: "* * * 7 *"}]
    jitter: 5m
    from: 2026-01-01
    until: 2099-01-01T12:00
    max_firings: 100
  catchup: {mode: all, within: 2d}
  overlap: cancel
  inputs: {day: "{{ trigger.at }}", since: "{{ trigger.previous | default('') }}", fixed: [1, {a: null}]}
  pause_after_failures: 5
- {name: beat, workflow: w, schedule: {every: 15m, offset: 5m}, catchup: none}
- {name: once, workflow: w@3, schedule: {at: "2098-12-24T18:00"}}
- {name: days, workflow: w, schedule: {calendar: {weekday: [mon, Friday], hour: 9}}}
- name: orders
  workflow: take-order
  webhook:
    verify: {scheme: standard, secret: ORDERS}
    id: "{{ item.headers['x-delivery'] }}"
    answer: {wait: 20s, body: "{{ run.outputs }}"}
  filter: "item.body.type == 'order.created' && trigger.name != ''"
  key: "{{ item.body.customer }}"
  inputs: {order: "{{ item.body }}"}
  limits: {open: 100, per_key: 2, buffer: 500, rate: {limit: 50, per: 1s}}
  batch: {items: 100, within: 5s}
  on_poison: stop
- name: own
  workflow: w
  webhook:
    verify:
      {scheme: hmac, secret: S, header: X-Sig, prefix: "v1=", encoding: base64, timestamp_header: X-Time, signed: "{timestamp}.{body}"}
  debounce: {quiet: 10s, at_most: 1m, keep: last}
  filter: {type: composite, operator: NOT, conditions: [{type: jsonpath, query: "$.body.x", operator: exists}]}
- {name: rows, workflow: sync, table: {database: "{{ secrets.CRM }}", table: crm.orders, cursor: [updated_at, id], every: 10s, settle: transactions, notify: changed}}
- {name: files, workflow: load, folder: {url: "file:///in/", match: "*.csv", settle: 10s, identity: content, every: 30s, from: start, order: name}}
- {name: feed, workflow: take, stream: {redis: "{{ secrets.R }}", key: events, from: end}}
- {name: after, workflow: publish, runs: {workflow: report, state: [completed, failed], tag: {kind: final}}}
- {name: paid, workflow: ship, event: {name: order.paid, match: "event.amount > 100"}}
- {name: mine, workflow: x, poll: {type: my_source, config: {a: [1]}, every: 30s}}
"""


def read(**trigger):
    return read_data({"name": "t", "workflow": "w", **trigger}, NOW)


def problems(**trigger):
    return [(problem.path, problem.code) for problem in read(**trigger).problems]


def test_every_kind_of_source_is_read_and_fits_the_schema():
    found = read_text(EVERYTHING, NOW)
    assert found.problems == ()
    kinds = [trigger.kind for trigger in found.triggers]
    assert kinds == ["schedule"] * 4 + ["webhook"] * 2 + ["table", "folder", "stream", "runs", "event", "poll"]
    nightly, _, _, days, orders, own, rows = found.triggers[:7]
    assert isinstance(nightly.source, Schedule)
    assert isinstance(days.source, Schedule)
    assert isinstance(orders.source, Webhook)
    assert isinstance(own.source, Webhook)
    assert nightly.source.except_days == ("2026-12-25",)
    assert (nightly.source.jitter, nightly.catchup.within, nightly.overlap) == (300, 172_800, "cancel")
    assert (nightly.limits.open, orders.limits.open) == (1, 100)
    assert days.source.cron == ("0 9 * * 1,5",)
    assert own.source.verify == Verify("hmac", "S", "x-sig", "v1=", "base64", "x-time", "{timestamp}.{body}")
    assert rows.source == Table("{{ secrets.CRM }}", "crm.orders", ("updated_at", "id"), 10, None, 0, "changed")


def test_a_trigger_is_plain_data_and_back():
    for trigger in read_text(EVERYTHING, NOW).get_triggers():
        data = msgspec.to_builtins(trigger)
        assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(data)), Trigger) == trigger


def test_what_is_written_in_other_words_is_the_same_trigger():
    one = read(schedule={"cron": " 30  2 * * *", "jitter": "60s"}, catchup="latest", limits={"open": 1})
    other = read(schedule={"cron": ["30 2 * * *"], "jitter": 60.0, "timezone": "UTC"}, overlap="skip")
    assert one.triggers == other.triggers
    assert msgspec.json.encode(one.triggers) == msgspec.json.encode(other.triggers)


def test_the_schema_accepts_what_is_accepted():
    import yaml

    schema = describe_triggers()
    assert misfits(schema, yaml.safe_load(EVERYTHING.replace(": 2026-01-01\n", ': "2026-01-01"\n'))) == []
    one = {"name": "t", "workflow": "w", "schedule": {"every": 5, "cron": None}, "key": None, "webhook": None}
    assert read_data(one, NOW).problems == ()
    assert misfits(schema, one) == []


@pytest.mark.parametrize(
    "trigger",
    [
        {},
        {"schedule": {"every": 5}, "event": {"name": "x"}},
        {"schedule": {"every": "5 minutes"}},
        {"schedule": {"cron": []}},
        {"schedule": {"every": 5}, "overlap": "both"},
        {"schedule": {"every": 5}, "inputz": {}},
        {"webhook": {}},
        {"webhook": {"verify": {"scheme": "md5"}}},
        {"table": {"database": "x"}},
    ],
)
def test_the_schema_refuses_what_is_refused(trigger):
    whole = {"name": "t", "workflow": "w", **trigger}
    assert read_data(whole, NOW).problems
    assert misfits(describe_triggers(), whole)


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        ({}, [("", "missing_key")]),
        ({"schedule": {"every": 5}, "runs": {"workflow": "x"}}, [("runs", "conflicting_keys")]),
        ({"schedule": {}}, [("schedule", "missing_key")]),
        ({"schedule": {"every": "0.5s"}}, [("schedule.every", "wrong_value")]),
        ({"schedule": {"every": 0}}, [("schedule.every", "wrong_value")]),
        ({"schedule": {"every": "90.5s"}}, [("schedule.every", "wrong_value")]),
        ({"schedule": {"every": "15 min"}}, [("schedule.every", "wrong_value")]),
        ({"schedule": {"every": True}}, [("schedule.every", "wrong_type")]),
        ({"schedule": {"every": 60, "offset": 60}}, [("schedule.offset", "wrong_value")]),
        ({"schedule": {"cron": "* * * * *", "offset": 5}}, [("schedule.offset", "misplaced_key")]),
        ({"schedule": {"cron": "* * * * *", "every": 5}}, [("schedule.every", "conflicting_keys")]),
        ({"schedule": {"cron": ["* * * * *", "* *"]}}, [("schedule.cron[1]", "wrong_value")]),
        ({"schedule": {"cron": "* * * * * *"}}, [("schedule.cron", "wrong_value")]),
        ({"schedule": {"cron": 5}}, [("schedule.cron", "wrong_type")]),
        ({"schedule": {"cron": ["* * * * *"] * 101}}, [("schedule.cron", "too_large")]),
        ({"schedule": {"every": 5, "timezone": "Mars/Base"}}, [("schedule.timezone", "wrong_value")]),
        ({"schedule": {"at": "tomorrow"}}, [("schedule.at", "wrong_value")]),
        ({"schedule": {"at": ["2098-02-30"]}}, [("schedule.at[0]", "wrong_value")]),
        ({"schedule": {"every": 5, "except": ["2026-13-01"]}}, [("schedule.except[0]", "wrong_value")]),
        ({"schedule": {"every": 5, "except": [5]}}, [("schedule.except[0]", "wrong_value")]),
        ({"schedule": {"every": 5, "except": [{"cron": "x"}]}}, [("schedule.except[0].cron", "wrong_value")]),
        ({"schedule": {"every": 5, "except": [{}]}}, [("schedule.except[0]", "missing_key")]),
        ({"schedule": {"every": 5, "jitter": "2d"}}, [("schedule.jitter", "wrong_value")]),
        ({"schedule": {"every": 5, "from": "2026-01-02", "until": "2026-01-01"}}, [("schedule", "bad_schedule")]),
        ({"schedule": {"cron": "0 0 */30 2 MON#5"}}, [("schedule", "bad_schedule")]),
        ({"schedule": {"cron": "* * * * *", "except": {"cron": "* * * * *"}}}, [("schedule", "bad_schedule")]),
        ({"schedule": {"at": "2020-01-01"}}, [("schedule", "no_more_moments")]),
        ({"schedule": {"calendar": {"weekday": "someday"}}}, [("schedule.calendar.weekday", "wrong_value")]),
        ({"schedule": {"calendar": {"day": 1, "weekday": 1}}}, [("schedule.calendar.weekday", "conflicting_keys")]),
        ({"schedule": {"calendar": {}}}, [("schedule.calendar", "wrong_value")]),
        ({"schedule": {"calendar": {"day": 31, "month": "feb"}}}, [("schedule.calendar", "wrong_value")]),
        ({"schedule": {"every": 5}, "key": "a"}, [("key", "misplaced_key")]),
        ({"schedule": {"every": 5}, "filter": "true"}, [("filter", "misplaced_key")]),
        ({"event": {"name": "x"}, "catchup": "all"}, [("catchup", "misplaced_key")]),
        (
            {"schedule": {"every": 5}, "overlap": "allow", "pause_after_failures": 2},  # G25
            [("pause_after_failures", "conflicting_keys")],
        ),
        ({"event": {"name": "x", "match": "event.a >"}}, [("event.match", "bad_condition")]),
        ({"event": {"name": "x", "match": "item.a == 1"}}, [("event.match", "bad_condition")]),
        ({"event": {"name": "x"}, "filter": "output.a == 1"}, [("filter", "bad_condition")]),
        ({"event": {"name": "x"}, "filter": {"type": "python_sandbox", "code": "x"}}, [("filter", "wrong_value")]),
        (
            {
                "event": {"name": "x"},
                "filter": {
                    "type": "composite",
                    "operator": "OR",
                    "conditions": ["true", {"type": "cel", "expression": "("}],
                },
            },
            [("filter.conditions[1]", "bad_condition")],
        ),
        ({"event": {"name": "x"}, "limits": {"per_key": 2}}, [("limits.per_key", "missing_key")]),
        ({"event": {"name": "x"}, "limits": {"buffer": 10_001}}, [("limits.buffer", "wrong_value")]),
        ({"event": {"name": "x"}, "limits": {"rate": {"limit": 2}}}, [("limits.rate", "missing_key")]),
        (
            {"event": {"name": "x"}, "batch": {"items": 1, "within": 1}, "debounce": {"quiet": 1}},
            [("debounce", "conflicting_keys")],
        ),
        ({"event": {"name": "x"}, "debounce": {"quiet": 9, "at_most": 8}}, [("debounce.at_most", "wrong_value")]),
        ({"event": {"name": "x"}, "inputs": {"a": "{{ secrets.X }}"}}, [("inputs.a", "bad_reference")]),
        ({"event": {"name": "x"}, "inputs": {"a": ["{{ run.id }}"]}}, [("inputs.a[0]", "bad_reference")]),
        ({"event": {"name": "x"}, "key": "{{ item.a | nope }}"}, [("key", "bad_template")]),
        ({"event": {"name": "x"}, "key": "{{ item.a"}, [("key", "bad_template")]),
        ({"schedule": {"every": 5}, "inputs": {"a": "{{ item }}"}}, [("inputs.a", "bad_reference")]),
        ({"schedule": {"every": 5}, "inputs": {"a": "{{ trigger.att }}"}}, [("inputs.a", "bad_reference")]),
        ({"schedule": {"every": 5}, "inputs": {"a": "{{ trigger.key }}"}}, [("inputs.a", "bad_reference")]),
        ({"event": {"name": "x"}, "inputs": {"a": "{{ trigger.previous }}"}}, [("inputs.a", "bad_reference")]),
        ({"event": {"name": "x"}, "inputs": {"a": "{{ trigger.number }}"}}, [("inputs.a", "bad_reference")]),
        ({"event": {"name": "x"}, "inputs": {"a": "{{ items }}"}}, [("inputs.a", "bad_reference")]),
        ({"event": {"name": "x"}, "key": "{{ trigger.key }}"}, [("key", "bad_reference")]),
        (
            {"event": {"name": "x"}, "key": "{{ items }}", "batch": {"items": 2, "within": 1}},
            [("key", "bad_reference")],
        ),
        (
            {"webhook": {"verify": VERIFY, "answer": {"wait": 1, "body": "{{ trigger.at }}"}}},
            [("webhook.answer.body", "bad_reference")],
        ),
        ({"webhook": {"verify": {"scheme": "github"}}}, [("webhook.verify", "missing_key")]),
        ({"webhook": {"verify": {**VERIFY, "header": "x"}}}, [("webhook.verify.header", "misplaced_key")]),
        ({"webhook": {"verify": {**VERIFY, "secret": "a b"}}}, [("webhook.verify.secret", "wrong_value")]),
        ({"webhook": {"verify": {**VERIFY, "scheme": "hmac"}}}, [("webhook.verify", "missing_key")]),
        (
            {
                "webhook": {
                    "verify": {
                        "scheme": "hmac",
                        "secret": "S",
                        "header": "x",
                        "timestamp_header": "y",
                        "signed": "{body}",
                    }
                }
            },
            [("webhook.verify.signed", "missing_key")],
        ),
        (
            {"webhook": {"verify": {"scheme": "hmac", "secret": "S", "header": "x", "id_header": "y"}}},
            [("webhook.verify.signed", "missing_key")],
        ),
        (
            {
                "webhook": {
                    "verify": {
                        "scheme": "hmac",
                        "secret": "S",
                        "header": "x",
                        "timestamp_header": "t",
                        "signed": "{timestamp}{body}",
                    }
                }
            },
            [("webhook.verify.signed", "wrong_value")],
        ),
        (
            {"webhook": {"verify": {"scheme": "hmac", "secret": "S", "header": "x", "signed": "{body} {body}"}}},
            [("webhook.verify.signed", "wrong_value")],
        ),
        ({"table": {"database": "a", "table": "x; drop", "cursor": "id"}}, [("table.table", "wrong_value")]),
        ({"table": {"database": "{{ item.x }}", "table": "x", "cursor": "id"}}, [("table.database", "wrong_value")]),
        (
            {"table": {"database": "a{{ secrets.x }}", "table": "x", "cursor": "id"}},
            [("table.database", "wrong_value")],
        ),
        ({"table": {"database": "a", "table": "x", "cursor": ["id", 'i"d']}}, [("table.cursor[1]", "wrong_value")]),
        ({"folder": {"url": "/in", "identity": "name"}}, [("folder.identity", "wrong_value")]),
        ({"runs": {"workflow": "w", "state": ["done"]}}, [("runs.state[0]", "wrong_value")]),
        ({"poll": {"type": "x", "every": 0.1}}, [("poll.every", "wrong_value")]),
    ],
)
def test_a_mistake_is_refused_at_its_place(trigger, expected):
    assert problems(**trigger) == expected


def test_all_problems_come_at_once_with_lines_and_suggestions():
    text = """
- name: a
  workfow: w
  schedule: {cron: "61 * * * *", timezone: Europe/Olso}
- name: b
  workflow: w@a b
  schedule: {cron: "61 * * * *", timezone: Europe/Olso}
- name: c
  workflow: w
  schedule: {cron: "61 * * * *", timezone: Europe/Olso, from: 2026-02-30}
- {name: c, workflow: w, schedule: {every: 5}}
- 5
"""
    found = read_text(text, NOW)
    assert found.triggers == ()
    said = [(problem.line, problem.path, problem.code) for problem in found.problems]
    assert said == [
        (2, "[0]", "missing_key"),
        (3, "[0].workfow", "unknown_key"),
        (6, "[1].workflow", "wrong_value"),
        (10, "[2].schedule.cron", "wrong_value"),
        (10, "[2].schedule.timezone", "wrong_value"),
        (10, "[2].schedule.from", "wrong_value"),
        (11, "[3].name", "duplicate_id"),
        (12, "[4]", "wrong_type"),
    ]
    assert "did you mean 'workflow'?" in found.problems[1].message
    assert "did you mean 'Europe/Oslo'?" in found.problems[4].message
    with pytest.raises(DefinitionError):
        found.get_triggers()


def test_a_schedule_that_has_ended_is_a_warning_and_is_read():
    found = read(schedule={"at": "2020-01-01"})
    assert [problem.severity for problem in found.problems] == ["warning"]
    assert found.get_triggers()[0].source == Schedule(at=("2020-01-01",))


@pytest.mark.parametrize("text", ["", " \n", "[]", "{", "5", "null", "a: &x 1", "[" * 100])
def test_what_is_no_trigger_is_refused(text):
    found = read_text(text, NOW)
    assert found.triggers == ()
    assert found.problems


def test_a_request_pays_for_what_is_checked():
    many = {f"k{number}": "{{ trigger.at }}" * 50 for number in range(50)}
    found = read_data(
        {"name": "t", "workflow": "w", "schedule": {"every": 5}, "inputs": many}, NOW, budget=Budget(9_000)
    )
    assert [problem.code for problem in found.problems] == ["too_costly"]


@pytest.mark.slow
def test_a_request_pays_for_looking_at_calendars():
    """Or a thousand schedules that leave everything out keep a server busy for a quarter of an hour."""
    lines = [f"{minute} * * * *" for minute in range(60)]
    bad = {"workflow": "w", "schedule": {"cron": "* * * * *", "except": [{"cron": lines}]}}
    many = [{"name": f"t{number}", **bad} for number in range(4)]
    found = read_data(many, NOW, budget=Budget(3_000_000))
    assert [problem.code for problem in found.problems] == ["too_costly"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86_400),
        ("0.5s", 0.5),
        ("1.5h", 5400),
        ("5", None),
        ("-5s", None),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds
    if isinstance(seconds, int):
        assert parse_duration(say_duration(seconds)) == seconds


def test_without_limits_a_schedule_has_one_open_run_and_others_a_hundred():
    assert read(schedule={"every": 5}).triggers[0].limits == Limits(open=1)
    assert read(event={"name": "x"}).triggers[0].limits == Limits(open=100)
    assert read(event={"name": "x"}, key="{{ item.id }}", limits={"per_key": 3}).triggers[0].limits.per_key == 3


def test_every_key_is_explained():
    """And none that does not exist."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "triggers.md").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))

    def cells(text):
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        return {word for cell in rows for word in re.findall(r"`([^`]+)`", cell)}

    assert cells(parts["A trigger"]) == triggers.TRIGGER_KEYS
    assert cells(parts["schedule"]) == sources.SCHEDULE_KEYS
    assert cells(parts["webhook"]) == sources.WEBHOOK_KEYS | set(SCHEMES)
    words = {part: set(re.findall(r"[a-z_]+", text)) for part, text in parts.items()}
    last = words["table, folder, stream, runs, event, poll"]
    assert words["webhook"] >= sources.VERIFY_KEYS
    assert set(FACTS) <= words["Templates"]
    for known in (sources.TABLE_KEYS, sources.FOLDER_KEYS, sources.STREAM_KEYS, sources.RUNS_KEYS, sources.POLL_KEYS):
        assert known <= last
    for known in (triggers.LIMIT_KEYS, triggers.RATE_KEYS, triggers.BATCH_KEYS, triggers.DEBOUNCE_KEYS):
        assert known <= words["A trigger"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"schedule": {"every": "1h"}, "jitter": "5m"}, "unknown key 'jitter' in trigger 't'; it stands in 'schedule'"),
        ({"cron": "0 2 * * *"}, "unknown key 'cron' in trigger 't'; it stands in 'schedule'"),
        ({"folder": {"url": "x"}, "every": "1h"}, "unknown key 'every' in trigger 't'; it stands in 'folder'"),
        ({"webhook": {"verify": VERIFY}, "verfiy": {}}, "unknown key 'verfiy' in trigger 't'"),
        (
            {"schedule": {"every": "1h", "overlap": "allow"}},
            "unknown key 'overlap' in schedule of trigger 't'; it stands beside the source, not in it",
        ),
        ({"event": {"name": "paid", "filter": "true"}}, "it stands beside the source, not in it"),
    ],
)
def test_a_key_at_the_wrong_level_is_told_where_it_stands(written, said):
    problems = read_data({"name": "t", "workflow": "w", **written}, NOW).problems
    assert [one for one in problems if one.code == "unknown_key" and said in one.message], problems
