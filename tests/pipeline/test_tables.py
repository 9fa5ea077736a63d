"""Steps that turn one table into another."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.errors import PipelineError
from perdure.pipeline.table_rows import MAX_ROWS, sort_key
from perdure.pipeline.tables import groupby, join, table_filter, table_select, table_sort, top_k

FLIGHTS = [
    {"airline": "Delta", "price": 299, "from": {"code": "NYC"}},
    {"airline": "United", "price": 310.5, "from": {"code": "EWR"}},
    {"airline": "Delta", "price": 250, "from": {"code": "NYC"}},
    {"airline": "Avio", "price": None, "from": {}},
]


def prices(table):
    return [row.get("price") for row in table]


def test_rows_are_sorted_by_a_field_and_those_without_a_value_come_last():
    assert prices(table_sort(FLIGHTS, {"field": "price"})) == [250, 299, 310.5, None]
    assert prices(table_sort(FLIGHTS, {"field": "price", "order": "desc"})) == [310.5, 299, 250, None]
    assert prices(table_sort(FLIGHTS, {"field": "from.code"})) == [310.5, 299, 250, None]


def test_rows_are_sorted_by_several_fields():
    by = [{"field": "airline", "order": "desc"}, "price"]
    assert prices(table_sort(FLIGHTS, {"field": by})) == [310.5, 250, 299, None]


def test_sorting_is_stable_both_ways():
    table = [{"k": 1, "n": n} for n in range(5)]
    assert [row["n"] for row in table_sort(table, {"field": "k"})] == [0, 1, 2, 3, 4]
    assert [row["n"] for row in table_sort(table, {"field": "k", "order": "desc"})] == [0, 1, 2, 3, 4]


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(-5, 5), st.text(max_size=2), st.just([1]))
TABLES = st.lists(st.fixed_dictionaries({}, optional={"v": VALUES, "g": VALUES}), max_size=12)


@given(TABLES, st.sampled_from(["asc", "desc"]), st.integers(0, 15))
def test_the_top_k_are_the_first_k_of_the_sorted_table(table, order, k):
    before = copy.deepcopy(table)
    ordered = table_sort(table, {"field": "v", "order": order})
    assert sorted(map(repr, ordered)) == sorted(map(repr, table))
    best = top_k(table, {"field": "v", "order": order, "k": k})
    assert [sort_key(row.get("v")) for row in best] == [sort_key(row.get("v")) for row in ordered[:k]]
    assert table == before


def test_the_top_k_without_a_field_are_the_first():
    assert prices(top_k(FLIGHTS, {"k": 2})) == [299, 310.5]
    assert top_k(FLIGHTS, {"k": 0}) == []


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ({"field": "price", "operator": "<", "value": 300}, [299, 250]),
        ({"field": "airline", "value": "Delta"}, [299, 250]),
        ({"field": "airline", "operator": "!=", "value": "Delta"}, [310.5, None]),
        ({"field": "price", "operator": "!=", "value": 299}, [310.5, 250]),  # null equals nothing and differs from nothing
        ({"field": "price", "operator": "==", "value": None}, [None]),
        ({"field": "price", "operator": "!=", "value": None}, [299, 310.5, 250]),
        ({"field": "from.code", "operator": "exists"}, [299, 310.5, 250]),
        ({"field": "from.code", "operator": "exists", "value": False}, [None]),
        ({"field": "from.code", "operator": "in", "value": ["NYC", "LAX"]}, [299, 250]),
        ({"field": "airline", "operator": "matches", "value": "^[DA]"}, [299, 250, None]),
        ({"field": "airline", "operator": "contains", "value": "elt"}, [299, 250]),
        ([{"field": "airline", "value": "Delta"}, {"field": "price", "operator": ">", "value": 260}], [299]),
        ({"any": [{"field": "price", "value": 250}, {"field": "price", "value": 299}]}, [299, 250]),
        ({"all": []}, [299, 310.5, 250, None]),
        ({"not": {"field": "airline", "value": "Delta"}}, [310.5, None]),
    ],
)  # fmt: skip
def test_rows_are_kept_when_the_condition_holds(condition, kept):
    assert prices(table_filter(FLIGHTS, {"condition": condition})) == kept


def test_a_row_that_cannot_be_compared_is_an_error_that_names_it_and_not_its_value():
    with pytest.raises(PipelineError, match="row 1: '<' cannot be used between text and a number") as caught:
        table_filter([{"p": 1}, {"p": "s3cret"}], {"condition": {"field": "p", "operator": "<", "value": 3}})
    assert "s3cret" not in str(caught.value)


def test_fields_are_selected_and_named_anew():
    assert table_select(FLIGHTS[:1], {"fields": ["price", "nope"]}) == [{"price": 299, "nope": None}]
    assert table_select(FLIGHTS[:1], {"fields": {"code": "from.code", "p": "price"}}) == [{"code": "NYC", "p": 299}]
    assert table_select([{"a.b": 1, "a": {"b": 2}}], {"fields": ["a.b"]}) == [{"a.b": 1}]


def test_groups_come_in_order_of_appearance_with_a_count():
    assert groupby(FLIGHTS, {"by": "airline"}) == [
        {"airline": "Delta", "count": 2},
        {"airline": "United", "count": 1},
        {"airline": "Avio", "count": 1},
    ]


def test_aggregates_leave_out_nulls():
    names = ("count", "count_distinct", "sum", "avg", "min", "max", "first", "last", "list")
    step = {"by": [], "aggregates": {name: {"function": name, "field": "price"} for name in names}}
    assert groupby([*FLIGHTS, {"price": 250.0}], step) == [
        {
            "count": 4,
            "count_distinct": 3,
            "sum": 1109.5,
            "avg": 277.375,
            "min": 250,
            "max": 310.5,
            "first": 299,
            "last": 250.0,
            "list": [299, 310.5, 250, 250.0],
        }
    ]
    empty = groupby([{"price": None}], step)[0]
    assert (empty["sum"], empty["avg"], empty["min"], empty["first"]) == (0, None, None, None)
    assert groupby([], step) == []


def test_one_and_true_are_different_groups_and_one_and_one_point_zero_are_not():
    table = [
        {"k": 1},
        {"k": True},
        {"k": 1.0},
        {"k": "1"},
        {"k": [1]},
        {"k": [1]},
        {"k": {"a": 1}},
        {"k": {"a": 1}},
        {},
    ]
    assert [row["count"] for row in groupby(table, {"by": "k"})] == [2, 1, 1, 2, 2, 1]


@pytest.mark.parametrize(
    ("function", "values", "why"),
    [
        ("sum", [1, "x"], "no number"),
        ("avg", [True], "no number"),
        ("min", [1, "x"], "several types"),
        ("sum", [1e308, 1e308], "too large for a number"),
    ],
)
def test_an_aggregate_that_has_no_meaning_is_an_error(function, values, why):
    step = {"by": [], "aggregates": {"x": {"function": function, "field": "v"}}}
    with pytest.raises(PipelineError, match=why):
        groupby([{"v": value} for value in values], step)


CUSTOMERS = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}, {"id": None, "name": "?"}]
ORDERS = [
    {"id": 10, "customer": 1, "total": 5},
    {"id": 11, "customer": 1.0, "total": 6},
    {"id": 12, "customer": 9, "total": 7},
    {"id": 13, "customer": None, "total": 8},
]


def joined(how, on=None):
    return join(CUSTOMERS, {"with": ORDERS, "on": on or {"id": "customer"}, "how": how})


def test_tables_are_joined_on_equal_fields_and_null_equals_nothing():
    inner = joined("inner")
    assert inner == [
        {"id": 1, "name": "Ann", "id_right": 10, "customer": 1, "total": 5},
        {"id": 1, "name": "Ann", "id_right": 11, "customer": 1.0, "total": 6},
    ]
    assert joined("left") == [*inner, CUSTOMERS[1], CUSTOMERS[2]]
    right = [
        {"id_right": 12, "customer": 9, "total": 7},
        {"id_right": 13, "customer": None, "total": 8},
    ]
    assert joined("right") == inner + right
    assert joined("outer") == [*inner, CUSTOMERS[1], CUSTOMERS[2], *right]


def test_fields_that_are_joined_on_under_one_name_appear_once():
    left, right = [{"k": 1, "v": "a"}], [{"k": 1, "v": "b", "w": 3}]
    assert join(left, {"with": right, "on": "k"}) == [{"k": 1, "v": "a", "v_right": "b", "w": 3}]
    assert join(left, {"with": right, "on": ["k"], "suffix": "_2"})[0]["v_2"] == "b"
    assert join(left, {"with": right, "on": ["k", "v"]}) == []


@pytest.mark.slow
def test_a_join_that_explodes_is_stopped():
    many = [{"k": 1}] * 2000
    with pytest.raises(PipelineError, match="200,000 are allowed"):
        join(many, {"with": many, "on": "k"})


@pytest.mark.parametrize("value", [1, "x", None, [1], [{}, []], [{}, None]])
def test_what_is_no_table_is_refused(value):
    for step in (table_sort, top_k, table_filter, table_select, groupby):
        with pytest.raises(PipelineError, match="a list of objects"):
            step(value, {"field": "a", "k": 1, "condition": {"all": []}, "fields": ["a"], "by": "a"})


def test_one_object_is_a_table_of_one_row():
    assert table_select({"a": 1, "b": 2}, {"fields": ["a"]}) == [{"a": 1}]


def test_a_table_that_is_too_long_is_refused():
    with pytest.raises(PipelineError, match="200,000 are allowed"):
        table_sort([{}] * (MAX_ROWS + 1), {"field": "a"})
