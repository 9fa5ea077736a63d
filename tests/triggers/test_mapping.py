"""Items become ids, keys and inputs; what is in them stays data."""

from datetime import UTC, datetime

import pytest

from perdure.budget import Budget
from perdure.triggers.calendar import Moment
from perdure.triggers.declarations import read_data
from perdure.triggers.mapping import (
    Filtered,
    Mapped,
    Poison,
    facts_of,
    facts_of_item,
    list_facts,
    map_item,
    map_moment,
    map_window,
)
from perdure.triggers.trials import fill_inputs, try_item, try_moment
from perdure.triggers.zones import get_zone

FACTS = facts_of_item(1_767_225_600.0)


def broken(found) -> str:
    """Where the mapping failed."""
    assert isinstance(found, Poison)
    return found.part


def make(**trigger):
    whole = {"name": "t", "workflow": "w", "event": {"name": "x"}, **trigger}
    return read_data({key: value for key, value in whole.items() if value is not None}, 0).get_triggers()[0]


def hook(**trigger):
    return make(event=None, webhook={"verify": {"scheme": "none"}, "id": "{{ item.headers['x-id'] }}"}, **trigger)


def test_an_item_has_an_id_a_key_and_inputs():
    trigger = hook(key="{{ item.body.customer }}", inputs={"order": "{{ item.body }}", "n": "at {{ trigger.at }}"})
    item = {"headers": {"x-id": "d1"}, "body": {"customer": 5, "lines": [1, {"a": None}]}}
    assert map_item(trigger, item, FACTS, id="from the scheme") == Mapped(
        "d1", "5", {"order": {"customer": 5, "lines": [1, {"a": None}]}, "n": "at 2026-01-01T00:00:00Z"}
    )


def test_the_source_gives_the_id_where_no_template_does():
    trigger = make(
        inputs={"i": "{{ trigger.id }}", "k": "{{ trigger.key }}", "by": "{{ trigger.name }}"}, key="{{ item.k }}"
    )
    assert map_item(trigger, {"k": "a"}, {}, id="e1") == Mapped("e1", "a", {"i": "e1", "k": "a", "by": "t"})


def test_what_is_in_an_item_is_never_a_template():
    """X02: what looks like one arrives as it is, in inputs, keys and ids alike."""
    evil = "{{ secrets.KEY }}{% for x in y %}{{ 7 * 7 }}"
    trigger = hook(
        key="{{ item.body }}", inputs={"a": "{{ item.body }}", "b": "<{{ item.body }}>", "c": ["{{ item }}"]}
    )
    item = {"headers": {"x-id": evil}, "body": evil}
    assert map_item(trigger, item, {}) == Mapped(evil, evil, {"a": evil, "b": f"<{evil}>", "c": [item]})


@pytest.mark.parametrize(
    ("condition", "passes"),
    [
        ("item.a == 1", True),
        ("item.a == 2", False),
        ("trigger.at == '2026-01-01T00:00:00Z' && trigger.name == 't'", True),
        ("has(item.b)", False),
        ({"type": "jsonpath", "query": "$.a", "operator": "==", "value": 1}, True),
        ({"type": "jsonpath", "query": "$.b", "operator": "exists"}, False),
        ({"type": "schema_validation", "schema": {"required": ["a"]}}, True),
        ({"type": "schema_validation", "schema": {"required": ["a"]}, "invert": True}, False),
        ({"type": "composite", "operator": "AND", "conditions": ["item.a == 1", "item.a == 2"]}, False),
        ({"type": "composite", "operator": "OR", "conditions": ["item.zz == 1", "item.a == 1"]}, True),
        ({"type": "composite", "operator": "AND", "conditions": ["item.zz == 1", "item.a == 2"]}, False),
        ({"type": "composite", "operator": "NOT", "conditions": ["item.a == 2"]}, True),
    ],
)
def test_a_filter_decides_which_items_pass(condition, passes):
    found = map_item(make(filter=condition), {"a": 1}, FACTS)
    assert found == (Mapped("", "", {}) if passes else Filtered())


@pytest.mark.parametrize(
    ("part", "trigger"),
    [
        ("filter", {"filter": "item.b == 1"}),
        ("filter", {"filter": "item.a"}),
        ("filter", {"filter": {"type": "composite", "operator": "OR", "conditions": ["item.b == 1", "item.a == 2"]}}),
        ("key", {"key": "{{ item.b }}"}),
        ("key", {"key": "{{ item.list }}"}),
        ("key", {"key": "{{ item.none }}"}),
        ("key", {"key": "{{ item.empty }}"}),
        ("key", {"key": "{{ item.long }}"}),
        ("key", {"key": "{{ item.yes }}"}),
        ("inputs", {"inputs": {"x": [{"y": "{{ item.b.c }}"}]}}),
        ("inputs", {"inputs": {"x": "{{ item.a / 0 }}"}}),
    ],
)
def test_an_item_that_cannot_be_mapped_is_poison_and_says_where(part, trigger):
    item = {"a": 1, "list": [], "none": None, "empty": "", "long": "x" * 501, "yes": True}
    found = map_item(make(**trigger), item, {})
    assert isinstance(found, Poison)
    assert found.part == part
    assert found.message


def test_an_id_that_cannot_be_made_is_poison():
    assert broken(map_item(hook(), {"headers": {}, "body": 1}, {}, id="d1")) == "id"


def test_one_budget_is_for_all_of_an_item():
    inputs = {f"k{number}": "{{ item.text }}" for number in range(30)}
    item = {"text": "x" * 10_000}
    assert isinstance(map_item(make(inputs=inputs), item, {}), Mapped)
    found = map_item(make(inputs=inputs), item, {}, budget=Budget(10_000, 100_000))
    assert isinstance(found, Poison)
    assert "100,000" in found.message
    whole = map_item(make(filter="item.list.all(x, x > 0)"), {"list": [1] * 1000}, {}, budget=Budget(100))
    assert isinstance(whole, Poison)


def test_an_item_nested_without_end_is_poison_and_harms_nobody():
    item: dict = {}
    for _ in range(5000):
        item = {"a": item}
    assert isinstance(map_item(make(filter="item.a.b == 1"), item, {}), Poison)
    assert isinstance(map_item(make(inputs={"x": "-{{ item }}-"}), item, {}), Poison)
    schema = {"type": "schema_validation", "schema": {"type": "object"}}
    assert isinstance(map_item(make(filter=schema), item, {}), Poison | Mapped)


def test_an_item_of_a_window_waits_for_its_inputs():
    trigger = make(
        batch={"items": 3, "within": 5},
        key="{{ item.k }}",
        inputs={"all": "{{ items }}", "n": "{{ trigger.items | length }}"},
    )
    assert map_item(trigger, {"k": "a"}, {}, id="1") == Mapped("1", "a", None)
    assert map_window(trigger, [{"k": "a"}, {"k": "b"}], {}) == {"all": [{"k": "a"}, {"k": "b"}], "n": 2}
    last = make(debounce={"quiet": 1, "keep": "last"}, inputs={"all": "{{ items }}", "one": "{{ item.k }}"})
    assert map_window(last, [{"k": "a"}, {"k": "b"}], {}) == {"all": [{"k": "b"}], "one": "b"}
    assert broken(map_window(make(inputs={"x": "{{ item.k }}"}), [{}], {})) == "inputs"


SCHEDULED = {"event": None, "schedule": {"every": 60}}


@pytest.mark.parametrize(
    "about", [{}, {"batch": {"items": 3, "within": 5}}, {"debounce": {"quiet": 1, "keep": "last"}}, SCHEDULED]
)
def test_what_a_trigger_says_that_templates_read_is_there_when_they_are_filled_in(about):
    """And `perdure triggers test` gives no more and no less."""
    facts = list_facts(make(**about))
    trigger = make(**about, inputs={name: f"{{{{ trigger.{name} }}}}" for name in facts})
    if "schedule" in about:
        moment = facts_of(Moment(60, 60.0, 0, 120), get_zone("UTC"), 3, 0.0)
        real = map_moment(trigger, moment)
        assert isinstance(real, dict)
        assert try_moment(trigger, 0.0, 0.0)["inputs"] == {**real, "number": 1}
        assert (real["id"], real["last_success"]) == ("60.000", "1970-01-01T00:00:00+00:00")
    else:
        found = map_item(trigger, {"a": 1}, FACTS, id="i")
        assert isinstance(found, Mapped)
        assert try_item(trigger, {"a": 1}, 1_767_225_600.0, "i")["inputs"] == found.inputs
        many = {**FACTS, "number": 7, "id": "i", "key": ""}
        real = found.inputs if found.inputs is not None else map_window(trigger, [{"a": 1}], many)
    assert isinstance(real, dict)
    assert set(real) == set(facts)


def test_a_moment_has_facts_and_no_item():
    trigger = make(
        event=None, schedule={"every": 60}, inputs={"day": "{{ trigger.at }}", "since": "{{ trigger.previous }}"}
    )
    assert map_moment(trigger, {"at": "b", "previous": "a"}) == {"day": "b", "since": "a"}
    assert broken(map_moment(trigger, {"at": "b"})) == "inputs"


def test_a_secret_never_becomes_an_input_even_unchecked():
    import msgspec

    trigger = msgspec.structs.replace(make(), inputs={"a": {"b": "x{{ secrets.KEY }}"}})
    assert broken(map_item(trigger, {}, {})) == "inputs"


def test_what_is_fired_by_hand_stands_between_two_moments():
    inputs = {"at": "{{ trigger.at }}", "since": "{{ trigger.previous }}", "until": "{{ trigger.next }}"}
    trigger = make(event=None, schedule={"cron": "30 2 * * *", "timezone": "Europe/Oslo"}, inputs=inputs)
    noon = datetime(2026, 3, 28, 11, tzinfo=UTC).timestamp()
    assert fill_inputs(trigger, {"at": "now"}, noon) == {
        "at": "now",
        "since": "2026-03-28T02:30:00+01:00",
        "until": "2026-03-29T03:00:00+02:00",
    }
    of_moments = {name: f"{{{{ trigger.{name} }}}}" for name in ("number", "id", "last_success")}
    by_hand = make(event=None, schedule={"every": 60}, inputs=of_moments)
    assert fill_inputs(by_hand, {}, noon, 0.0) == {
        "number": None,
        "id": None,
        "last_success": "1970-01-01T00:00:00+00:00",
    }


def test_who_fires_by_hand_is_told_which_inputs_to_give():
    of_items = {"file": "{{ item.path }}", "at": "{{ trigger.at }}", "size": "{{ item.size }}"}
    several = fill_inputs(make(inputs=of_items), {}, 0.0)
    assert isinstance(several, Poison)
    assert several.message == (
        "its inputs file, size cannot be made by hand without an item; give them, as in -i file=VALUE"
    )
    one = fill_inputs(make(inputs=of_items), {"size": 1}, 0.0)
    assert isinstance(one, Poison)
    assert one.message == "its input file cannot be made by hand without an item; give it, as in -i file=VALUE"
    of_moments = make(event=None, schedule={"every": 60}, inputs={"n": "{{ trigger.number + 1 }}"})
    scheduled = fill_inputs(of_moments, {}, 0.0)
    assert isinstance(scheduled, Poison)
    assert scheduled.message.startswith("its input n cannot be made by hand (")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (
            {"k": ""},
            'gives nothing; change its template, or give a value for such items: {{ … | default("none", true) }}',
        ),
        (
            {"k": None},
            'gives nothing; change its template, or give a value for such items: {{ … | default("none", true) }}',
        ),
        ({"k": ["secret"]}, "gives a list; change its template"),
    ],
)
def test_a_key_that_is_none_says_what_to_do_and_not_what_is_in_the_item(item, said):
    item = {"headers": {"x-id": "1"}, **item}
    poison = map_item(hook(key="{{ item.k }}"), item, {})
    assert isinstance(poison, Poison)
    assert poison.message.endswith(said)
    mended = hook(key='{{ item.k | default("none", true) }}')
    assert item["k"] or getattr(map_item(mended, item, {}), "key", "") == "none"
