"""JSONPath conditions: queries, operators, limits."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonpath_rfc9535 import JSONPathEnvironment

from perdure.expressions import jsonpath
from perdure.expressions.jsonpath import JsonPathError, compile_query
from perdure.expressions.verdicts import check, evaluate
from tests.attack.watchdog import judge
from tests.expressions.helpers import RUN, ask_about

ORDER = {
    "status": "open",
    "total": 30,
    "tags": ["new", "gift"],
    "lines": [{"sku": "A", "price": 10, "ok": True}, {"sku": "B", "price": 20, "ok": False}],
    "flags": [True, True],
    "nothing": None,
    "empty": [],
    "address": {"city": "Rome"},
}


def verdict(query, operator, value=..., output=ORDER):
    spec = {"type": "jsonpath", "query": query, "operator": operator}
    if value is not ...:
        spec["value"] = value
    return evaluate(ask_about(spec, output), RUN)


@pytest.mark.parametrize(
    ("query", "operator", "value", "expected"),
    [
        ("$.status", "==", "open", True),
        ("$.status", "!=", "open", False),
        ("$.total", "==", 30.0, True),
        ("$.total", "==", "30", False),
        ("$.total", ">", 29, True),
        ("$.total", ">=", 30, True),
        ("$.total", "<", 30, False),
        ("$.total", "<=", 30, True),
        ("$.status", "<", "p", True),
        ("$.nothing", "==", None, True),
        ("$.flags[0]", "==", 1, False),
        ("$.address", "==", {"city": "Rome"}, True),
        ("$.tags", "==", ["new", "gift"], True),
        ("$.status", "in", ["open", "held"], True),
        ("$.status", "not_in", ["open", "held"], False),
        ("$.total", "in", [True, 30], True),
        ("$.status", "in", "an open door", True),
        ("$.tags", "contains", "gift", True),
        ("$.tags", "contains", "x", False),
        ("$.status", "contains", "pe", True),
        ("$.address", "contains", "city", True),
        ("$.lines[*].sku", "contains", "B", True),
        ("$.lines[*].sku", "contains", "C", False),
        ("$.status", "exists", ..., True),
        ("$.missing", "exists", ..., False),
        ("$.nothing", "exists", ..., True),
        ("$.missing", "exists", False, True),
        ("$.lines[?@.price > 15]", "exists", ..., True),
        ("$.status", "matches", "^o.*n$", True),
        ("$.status", "matches", "pe", True),
        ("$.status", "matches", "^pe", False),
        ("$.lines[*]", "count_gt", 1, True),
        ("$.lines[*]", "count_lt", 2, False),
        ("$.lines", "count_gt", 1, True),
        ("$.empty", "count_lt", 1, True),
        ("$.missing[*]", "count_lt", 1, True),
        ("$.lines[*].price", "sum_gt", 29.5, True),
        ("$.lines[*].price", "sum_lt", 30, False),
        ("$.missing[*]", "sum_lt", 1, True),
        ("$.lines[*].ok", "any", ..., True),
        ("$.lines[*].ok", "all", ..., False),
        ("$.flags", "all", ..., True),
        ("$.lines[*].sku", "any", "A", True),
        ("$.lines[*].sku", "all", "A", False),
        ("$.empty", "all", ..., True),
        ("$.empty", "any", ..., False),
        ("$.empty", "all", None, True),
        ("$..price", "count_gt", 1, True),
        ("$.lines.length()", "==", 2, True),
        ("$.status.length()", ">", 3, True),
        ("$.address.length()", "<=", 1, True),
        ("$.lines[?@.price > 15].length()", "==", 1, True),
        ("$.lines[?@.price > 99].length()", "==", 0, True),
        ("$.lines[?search(@.sku, '[AB]')]", "count_gt", 1, True),
        ("$.lines[?match(@.sku, 'A')].price", "==", 10, True),
        ("$.lines[?count(@.*) > 2 && length(@.sku) == 1]", "count_gt", 1, True),
        ("$.lines[?value(@..sku) == 'B'].price", "==", 20, True),
    ],
)
def test_operators_say_what_they_mean(query, operator, value, expected):
    answer = verdict(query, operator, value)
    assert answer.error is None, answer.error
    assert answer.value is expected


@pytest.mark.parametrize(
    ("query", "operator", "value", "why"),
    [
        ("$.missing", "==", 1, "selects nothing"),
        ("$.missing.length()", "<", 3, "selects nothing"),
        ("$.missing", "count_gt", 0, "selects nothing"),
        ("$.total.length()", ">", 1, "no length"),
        ("$.lines[*].price", ">", 5, "selects 2 values"),
        ("$.status", ">", 5, "between text and a number"),
        ("$.flags[0]", ">", 0, "between a bool and a number"),
        ("$.total", "contains", 3, "'contains' cannot be used"),
        ("$.total", "matches", "3", "'matches' cannot be used"),
        ("$.lines[*].sku", "sum_gt", 0, "no number"),
        ("$.status", "sum_gt", 0, "no list"),
        ("$.tags", "any", ..., "need true or false"),
    ],
)
def test_what_cannot_be_evaluated_is_an_error_and_never_false(query, operator, value, why):
    answer = verdict(query, operator, value)
    assert answer.value is None
    assert answer.error is not None
    assert answer.error.code == "condition_error"
    assert why in answer.error.message


def test_any_is_decided_by_one_that_is_true_and_all_by_one_that_is_false_whatever_the_others_are():
    output = {"mixed": ["x", True, False]}
    assert verdict("$.mixed", "any", output=output).value is True
    assert verdict("$.mixed", "all", output=output).value is False


def test_the_journal_learns_what_was_selected():
    assert verdict("$.total", ">", 3).seen == {"$.total": 30}
    assert verdict("$.lines[*].price", "sum_gt", 3).seen == {"$.lines[*].price": 30.0}
    assert verdict("$.lines.length()", ">", 3).seen == {"$.lines.length()": 2}
    assert verdict("$.tags", "contains", "x").seen == {"$.tags": '["new","gift"]'}


@pytest.mark.parametrize(
    ("query", "operator", "value", "why"),
    [
        ("$.a[", "==", 1, "query '$.a['"),
        ("$.a[?nope(@)]", "==", 1, "nope"),
        ("$.a[?search(@.s, @.p)]", "exists", ..., "in quotes"),
        ("$.a[?search(@.s, '(')]", "exists", ..., "missing )"),
        ("$.a[?search(@.s, '(?=a)')]", "exists", ..., "RE2"),
        ("$..a..b", "exists", ..., "more than once"),
        ("$" + "[?" * 40 + "@" + "]" * 40, "exists", ..., "nested"),
        ("$." + "a" * 3000, "exists", ..., "2,000 are allowed"),
        ("$.a", "count_gt", "3", "a number"),
        ("$.a", "in", 3, "a list"),
        ("$.a", "matches", "(", "missing )"),
        ("$.a", "matches", 3, "a pattern"),
        ("$.a", "exists", 3, "true or false"),
        ("$.a.length()", "exists", ..., "on a length"),
        ("$.a.length()", ">", "x", "with a number"),
        ("$['\ud800']", "exists", ..., "Unicode"),
    ],
)
def test_mistakes_are_found_before_there_is_any_data(query, operator, value, why):
    spec = {"query": query, "operator": operator} | ({} if value is ... else {"value": value})
    message = jsonpath.check(spec)
    assert message is not None
    assert why in message


def test_a_sound_condition_has_no_mistakes():
    question = ask_about({"type": "jsonpath", "query": "$.a[?@.b > 1].length()", "operator": ">", "value": 0})
    assert question.condition is not None
    assert check(question.condition) is None


# -- against the library -----------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "c", "é", "x y"])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0]), st.sampled_from("abz"))
DATA = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)
NAMES = st.sampled_from([".a", ".b", "['c']", "['x y']", "[0]", "[-1]", "[1:]", "[::-1]", "[*]", ".*", "['a','b']"])
LITERALS = st.sampled_from(["1", "0.5", "'a'", "true", "null", "-2"])
PATHS = st.sampled_from(["@", "@.a", "@.b[0]", "@['c']"])
SIDES = st.one_of(PATHS, LITERALS, st.sampled_from(["length(@.a)", "count(@.*)", "value(@.a)", "$.a", "$[0]"]))
TESTS = st.recursive(
    st.one_of(
        st.builds("{} {} {}".format, SIDES, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), SIDES),
        PATHS,
        st.sampled_from(["@.*", "@..a", "$.b[*]", "@[?@ > 0]"]),
    ),
    lambda inner: st.one_of(
        st.builds("({}) && ({})".format, inner, inner),
        st.builds("({}) || ({})".format, inner, inner),
        st.builds("!({})".format, inner),
    ),
    max_leaves=4,
)
STEPS = st.one_of(NAMES, st.builds("[?{}]".format, TESTS))
QUERIES = st.builds(
    lambda steps, deep, last: "$" + "".join(steps) + (f"..{last}" if deep else ""),
    st.lists(STEPS, max_size=3),
    st.booleans(),
    st.sampled_from(["a", "*", "[0]", "[?@.a]"]),
)
LIBRARY = JSONPathEnvironment()


def has_no_bool_beside_numbers(value):
    """The library compares [1] and [true] as Python does."""
    return "true" not in json.dumps(value) and "false" not in json.dumps(value)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(QUERIES.filter(lambda query: query.count("..") < 2), DATA)
def test_what_is_selected_is_what_the_library_selects_in_the_same_order(query, data):
    expected = LIBRARY.find(query, data).values()
    found = compile_query(query).select(data)
    if has_no_bool_beside_numbers(data):
        assert [json.dumps(one) for one in found] == [json.dumps(one) for one in expected]
    else:
        assert len(found) <= 400


def test_in_a_filter_inside_a_filter_the_root_is_still_the_document():
    data: dict = {"limit": 2, "groups": [{"rows": [{"n": 1}, {"n": 3}]}, {"rows": [{"n": 1}]}]}
    assert compile_query("$.groups[?@.rows[?@.n > $.limit]]").select(data) == [data["groups"][0]]


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_name_in_quotes_is_found_whatever_is_in_it(name, other):
    data = {name: 1, other: 2} if other != name else {name: 1}
    quoted = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
    assert compile_query(f"$[{quoted}]").select(data) == [1]


# -- limits ------------------------------------------------------------------------------------------------------------

ROWS = {"rows": [{"i": i, "s": "a" * 30 + "!"} for i in range(1000)]}


def spent(query, data):
    """Processor seconds, and the error if there was one."""
    begin = time.process_time()
    try:
        compile_query(query).select(data)
        why = ""
    except JsonPathError as error:
        why = str(error)
    return time.process_time() - begin, why


@pytest.mark.parametrize(
    ("query", "data", "why"),
    [
        ("$.rows[?search(@.s, '(a|aa)+$')]", ROWS, ""),
        ("$.rows[?search(@.s, '(a+)+$')]", ROWS, ""),
        ("$.rows[?count($..*) > 3]", ROWS, "too much data"),
        ("$.rows[?count($.rows[?count($.rows[*]) > 3]) > 3]", ROWS, "too much data"),
        ("$..[?@..[?@..i]]", ROWS, "more than once"),
        ("$..*", {"a": [[0] * 100_000]}, "too much data"),
        ("$[*]", [0] * 50_000, "20,000 are allowed"),
        ("$" + "[*,*,*,*]" * 12, [[[[[[1]]]]]], ""),
        ("$" + "[*,*,*,*]" * 12, [[[[[[[[[[[[1]]]]]]]]]]]], "too much data"),
        ("$..*", __import__("functools").reduce(lambda inner, _: [inner], range(5000), 1), ""),
        ("$[?@.x == $.y]", {"x": [[0] * 3000] * 1000, "y": [0] * 3000}, ""),
        ("$[?" + "!" * 900 + "@.a]", [{"a": 1}], ""),
    ],
)
def test_no_query_takes_long(query, data, why):
    seconds, message = spent(query, data)
    assert why in message
    judge(seconds, 0.25, query)  # 0.1 and a busy machine
