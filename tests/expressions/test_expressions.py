"""Expressions: Jinja's syntax over plain data, with a short list of filters and tests."""

import subprocess
import sys

import pytest

from perdure.expressions.errors import TemplateError
from perdure.expressions.filters import FILTERS, TESTS
from tests.expressions.helpers import completed, show


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("7 / 2", 3.5),
        ("7 // 2", 3),
        ("7 % 4", 3),
        ("2 ** 10", 1024),
        ("-a.x", -1),
        ("+a.x", 1),
        ("'a' + 'b'", "ab"),
        ("[1] + [2]", [1, 2]),
        ("1 ~ 'a' ~ none ~ true", "1atrue"),
        ("a.x == 1 and not false", True),
        ("a.x > 1 or 'x'", "x"),
        ("1 < a.x + 1 <= 2", True),
        ("'o' in inputs.city", True),
        ("'x' in a", True),
        ("9 not in inputs.list", True),
        ("a.x in (1, 2)", True),
        ("'yes' if inputs.yes else 'no'", "yes"),
        ("'yes' if not inputs.yes", None),
        ("(1, 2)", [1, 2]),
        ("{'k': [1, {'n': none}]}", {"k": [1, {"n": None}]}),
        ("inputs.list[-1]", 2),
        ("inputs.list[inputs.list[1]]", 1),
        ("inputs.list[1:]", [1, 2]),
        ("inputs.city[:2]", "Ro"),
        ("a['x']", 1),
        ("[1, 2][0]", 1),
        ("{'k': 5}.k", 5),
        ("'a\\nb'", "a\nb"),
        ("true", True),
        ("none", None),
    ],
)
def test_expressions_compute_plain_data(expression, expected):
    value = show("{{ " + expression + " }}")
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(-3) | abs", 3),
        ("a.nope | default('z')", "z"),
        ("a.nope | default", ""),
        ("'' | default('z')", ""),
        ("'' | default('z', true)", "z"),
        ("inputs.list | first", 3),
        ("[] | first | default(0)", 0),
        ("'1.5' | float", 1.5),
        ("'12' | int", 12),
        ("3.9 | int", 3),
        ("'x' | int(7)", 7),
        ("{'k': 1} | items", [["k", 1]]),
        ("inputs.list | join('-')", "3-1-2"),
        ("a.rows | join(', ', attribute='n')", "1, 2"),
        ("{'k': 1, 'j': 2} | keys", ["k", "j"]),
        ("inputs.list | last", 2),
        ("inputs.list | length", 3),
        ("'ab' | list", ["a", "b"]),
        ("'Ab' | lower", "ab"),
        ("inputs.list | max", 3),
        ("a.rows | max(attribute='n')", {"n": 2}),
        ("inputs.list | min", 1),
        ("'aXa' | replace('X', '-')", "a-a"),
        ("'aaa' | replace('a', 'b', 2)", "bba"),
        ("inputs.list | reverse", [2, 1, 3]),
        ("'abc' | reverse", "cba"),
        ("2.567 | round(1)", 2.6),
        ("2.1 | round(method='ceil')", 3.0),
        ("inputs.list | sort", [1, 2, 3]),
        ("inputs.list | sort(reverse=true)", [3, 2, 1]),
        ("a.rows | sort(attribute='n', reverse=true)", [{"n": 2}, {"n": 1}]),
        ("1 | string", "1"),
        ("inputs.list | sum", 6),
        ("a.rows | sum(attribute='n')", 3),
        ("'a b' | title", "A B"),
        ("{'b': [1, none], 'a': '<'} | tojson", '{"b":[1,null],"a":"<"}'),
        ("' a ' | trim", "a"),
        ("words | unique", ["b", "a"]),
        ("[{'n': 1}, {'error': 'x'}, 3] | unwrap('n')", [1, {"error": "x"}, 3]),
        ("[{'n': 1}, {'n': 1}] | unique", [{"n": 1}]),
        ("inputs.city | upper", "ROME"),
        ("{'k': 1} | values", [1]),
        ("words | unique | sort | join | upper", "AB"),
    ],
)
def test_filters(expression, expected):
    value = show("{{ " + expression + " }}")
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a.x is defined", True),
        ("a.nope is defined", False),
        ("a.nope is not defined", True),
        ("a.nope.deeper is undefined", True),
        ("none is none", True),
        ("inputs.yes is boolean", True),
        ("'x' is string", True),
        ("1 is number", True),
        ("true is number", False),
        ("1 is integer", True),
        ("1.0 is float", True),
        ("a is mapping", True),
        ("words is sequence", True),
        ("true is true", True),
        ("true is false", False),
        ("3 is odd", True),
        ("4 is even", True),
        ("6 is divisibleby(3)", True),
        ("1 is eq(1)", True),
        ("1 is equalto(2)", False),
        ("1 is ne(2)", True),
        ("1 is lt(2)", True),
        ("1 is gt(2)", False),
        ("2 is ge(2)", True),
        ("2 is le(1)", False),
        ("1 is in([1])", True),
    ],
)
def test_tests(expression, expected):
    assert show("{{ " + expression + " }}") is expected


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("1 + 'a'", "'+' cannot be used between a number and text"),
        ("'a' * 3", "'*' cannot be used between text and a number"),
        ("[1] * 3", "'*' cannot be used"),
        ("'%s' % 1", "'%' cannot be used"),
        ("true + 1", "between a bool and a number"),
        ("1 / 0", "divides by zero"),
        ("1 % 0", "divides by zero"),
        ("2 ** 64", "beyond 64 bits"),
        ("0.0 - 10 ** 400", "beyond 64 bits"),
        ("1e308 * 10", "not a finite number"),
        ("(-8) ** 0.5", "not a finite number"),
        ("1 < 'a'", "'<' cannot be used"),
        ("1 in 2", "'in' cannot be used"),
        ("a.x()", "nothing can be called"),
        ("inputs.city.upper()", "nothing can be called"),
        ("range(3)", "nothing can be called"),
        ("'x' | shout", "there is no filter 'shout'"),
        ("'x' is shouted", "there is no test 'shouted'"),
        ("'x' | upper(1)", "cannot be used like this"),
        ("'x' | replace('a')", "cannot be used like this"),
        ("'x' | replace(*a)", "not part of expressions"),
        ("'x' | int", "no such number"),
        ("'inf' | float", "no such number"),
        ("1 | upper", "upper needs text"),
        ("[1, 'a'] | sort", "all numbers or all text"),
        ("[{}] | max", "all numbers or all text"),
        ("['a'] | sum", "sum needs numbers"),
        ("a.rows | sum(attribute='m')", "is missing"),
        ("1 | length", "length needs"),
        ("1 | round(999)", "precision"),
        ("{1: 2}", "keys of an object must be text"),
        ("{[]: 2}", "keys of an object must be text"),
        ("a[1.5]", "needs a name or an integer"),
        ("words[::0]", "step that is not 0"),
        ("'\\q'", "no escape"),
        ("3 is divisibleby(0)", "divides by zero"),
        ("secrets.k | upper", "a secret can only stand alone"),
        ("'a' ~ secrets.k", "a secret can only stand alone"),
        ("secrets", "a secret is written"),
        ("secrets.a.b", "a secret is written"),
        ("99999999999999999999999", "beyond 64 bits"),
    ],
)
def test_what_cannot_be_computed_says_why(expression, says):
    with pytest.raises(TemplateError) as caught:
        show("{{ " + expression + " }}")
    assert says in caught.value.message


def test_the_lists_of_filters_and_tests_are_what_the_documents_say():
    assert set(FILTERS) == set(
        "abs d default first float int items join keys last length list lower map max min replace reverse round slashes sort string "
        "sum title tojson trim unique unwrap upper values".split()
    )
    assert set(TESTS) == set(
        "boolean defined divisibleby eq even false float ge gt in integer le lt mapping ne none number odd sequence string "
        "true undefined".split()
    )


def test_numbers_that_only_look_equal_stay_what_they_are():
    assert show("{{ a }}", completed(1.0)) == 1.0
    assert type(show("{{ a + 0 }}", completed(1.0))) is float
    assert show("{{ a }}!", completed(1.0)) == "1.0!"
    assert show("{{ a + 1 }}", completed(2**53)) == 2**53 + 1


@pytest.mark.slow
def test_plain_paths_need_no_template_engine():
    code = (
        "import sys; from perdure.expressions.templates import render; from perdure.expressions.namespace import Run, Namespace\n"
        "render(['{{ inputs.a[0][\"b\"] }}', 'x {{ run.id }}'], Namespace(Run('r', 'w', {'a': [{'b': 1}]})))\n"
        "assert 'jinja2' not in sys.modules and 'cel_expr_python' not in sys.modules\n"
        "render('{{ inputs.a | length }}', Namespace(Run('r', 'w', {'a': []})))\n"
        "assert 'jinja2' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
