"""The bombs of the threat list, each kind of input in one table: they end in a clear error, soon, and leave no trace."""

import gc
import re
import time

import pytest

from perdure.expressions.errors import TemplateError
from perdure.expressions.templates import render
from perdure.expressions.verdicts import check, evaluate
from perdure.model import compile_text
from perdure.model.references import BadExpression, find_in_template
from perdure.sandbox.jq import Jq, JqError
from tests.expressions.helpers import NODES, RUN, ask, ask_about, namespace
from tests.expressions.test_patterns import EVIL
from tests.expressions.test_patterns import TEXTS as LONG
from tests.fuzz.running import resident_mb

pytestmark = pytest.mark.slow

SECONDS = 1.0
GROWTH_MB = 50
OPAQUE = re.compile(r"Traceback|<class|object at 0x|internal", re.IGNORECASE)


def template(text):
    """The problem the definition gets, or the error of the node."""
    try:
        find_in_template(text, NODES)
        render(text, namespace())
    except (BadExpression, TemplateError) as error:
        return str(error)
    return None


def cel(expression, output=None):
    try:
        verdict = evaluate(ask(expression, output), RUN)
    except BadExpression as error:  # the compiler's own problem
        return str(error)
    return check(expression) or (verdict.error and verdict.error.message)


def jsonpath(query, output, operator="exists"):
    question = ask_about({"type": "jsonpath", "query": query, "operator": operator, "value": None}, output)
    assert question.condition is not None
    verdict = evaluate(question, RUN)
    return check(question.condition) or (verdict.error and verdict.error.message)


def pattern(text, subject):
    question = ask_about({"type": "jsonpath", "query": "$.s", "operator": "matches", "value": text}, {"s": subject})
    assert question.condition is not None
    verdict = evaluate(question, RUN)
    return check(question.condition) or (verdict.error and verdict.error.message) or f"answered: {verdict.value}"


def text(data, format):
    result = compile_text(data, format=format)
    return "; ".join(problem.message for problem in result.errors)


ROWS = {"rows": [{"i": i, "s": "a" * 40} for i in range(2000)]}
NUMBERS = {"l": list(range(300)), "s": "a" * 5000}
LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)

TABLES: dict[str, list] = {
    # templates: no loops, no repetition, a bound on everything
    "X03": [
        (template, one)
        for one in (
            ["{{ 'a' * 1000000000 }}"], ["{{ [0] * 1000000000 }}"], ["{{ 9 ** 99 ** 99 }}"], ["{{ 10 ** 5000 }}"],
            ["{{ 'a'.center(2000000000) }}"], ["{{ '%1000000000d' % 1 }}"], ["{{ range(999999999) | list }}"],
            ["{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}"], ["{{ lipsum(n=99999) }}"],
            ["{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}"], ["{{ " + "-" * 5000 + "1 }}"], ["{{ " + "[" * 90 + "]" * 90 + " | length }}"],
            ["{{ a.text" + " ~ a.text" * 20_000 + " }}"], ["{{ 'a'.format(1) }}"], ["{{ a.rows | tojson | replace('1', a | tojson) | nope }}"],
            ["{{ " + "1 + " * 15_000 + "1 }}"], ["{{ a[" * 2000 + "0" + "]" * 2000 + " }}"], ["{{ 1" + " if 1 else 1" * 5000 + " }}"],
        )
    ],
    "X04": [
        (cel, one)
        for one in (
            ["output.l.all(a, output.l.all(b, output.l.all(c, a + b + c >= 0)))", NUMBERS],
            ["output.l.map(a, output.l.map(b, output.l.map(c, a))).size() > 0", NUMBERS],
            ["(" * 1000 + "true" + ")" * 1000], ["[" * 1000 + "]" * 1000 + " == []"], ["1" + "+1" * 20_000 + " > 0"],
            ["output.l" + ".map(x, x + x)" * 30 + " == []", NUMBERS], ["{" * 1000 + "}" * 1000 + " == {}"], ["size(" * 1000 + "[]" + ")" * 1000 + " > 0"],
            ["output.x" * 3000], ["x" * 200_000], ["'" + "a" * 30_000 + "' == ''"],
            ["output" + ".a" * 4000 + " == 1"], ["true ? " * 3000 + "true" + " : false" * 3000],
            ["output.l.all(a, output.l.all(b, output.s.matches('(a+)+$')))", NUMBERS],
        )
    ],
    "X05": [
        (jsonpath, one)
        for one in (
            ["$.rows[?count($..*) > 3]", ROWS], ["$.rows[?count($.rows[?count($.rows[*]) > 3]) > 3]", ROWS], ["$..[?@..[?@..i]]", ROWS],
            ["$..*", {"a": [[0] * 150_000]}], ["$[*]", [0] * 50_000], ["$" + "[*,*,*,*]" * 12, [[[[[[[[[[[[1]]]]]]]]]]]]],
            ["$[?" + "(" * 1000 + "@.a" + ")" * 1000 + "]", [1]], ["$" + ".a" * 2000, {}], ["$[?search(@.s, @.p)]", ROWS],
            ["$.rows[?search(@.s, '" + "(a?){60}" * 8 + "b')]", ROWS], ["$[?@.x == '" + "a" * 3000 + "']", [1]], ["$..a..b..c", {}],
            ["$[" + "0," * 1500 + "0]", [[1]]], ["$.rows[?@.s =~ '(a+)+$']", ROWS], ["$[99999999999999999999]", [1]],
        )
    ],
    "X06": [(pattern, [one, LONG[0]]) for one in EVIL],
    "X11": [
        (text, [one, "yaml"])
        for one in (
            LAUGHS, "a: &a [*a]", "a: !!python/object/apply:os.system ['id']", "!!python/name:os.system", "a: !!binary eA==",
            "<<: {a: 1}\nb: {<<: 1}\n---\nc: 1", "- " * 5000 + "1", "[" * 5000, "{" * 5000, "a: " + "9" * 5000, "a: .inf", "a: .nan",
            "? " * 3000, "a: '" + "x" * 11_000_000 + "'", "a: 1\na: 2", "\t- a", "%TAG ! tag:x,2000:\n--- !x 1", "a: \0", "&" * 1000,
            "a: *nope", "key: [" + "1," * 200_000 + "1]", "a: 1e999",
        )
    ],
    "X13": [
        (text, [one, "json"])
        for one in (
            "[" * 200_000, '{"a":' * 100_000, '{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1, "a": 2}', '{"a": 1e999}',
            '{"a": ' + "9" * 5000 + "}", '{"a": 99999999999999999999999}', '{"name": "\\ud800"}', '{"\\udfff": 1}', '{"name": "\\u0000"}',
            '{"name": "' + "x" * 70_000_000 + '"}', "[" + "1," * 1_500_000 + "1]", b'{"name": "\xff"}', b"\xff\xfe{\x00}\x00", "", "nul",
            '{"a": 1} {"b": 2}', '{"a": 01}', '{"a": "\t"}', "{'a': 1}", '{"a": 1,}', "[1" + ",[1" * 3000 + "]" * 3001,
        )
    ],
}  # fmt: skip


def test_there_are_enough_of_each():
    assert {name: len(table) >= 12 for name, table in TABLES.items()} == dict.fromkeys(TABLES, True)


@pytest.mark.parametrize("threat", TABLES)
def test_every_bomb_ends_in_a_clear_error_soon_and_small(threat):
    gc.collect()
    before = resident_mb()
    for attempt, arguments in TABLES[threat]:
        begin = time.process_time()
        message = attempt(*arguments)
        seconds = time.process_time() - begin
        shown = f"{threat} {str(arguments[0])[:60]!r}"
        assert message, f"{shown} was accepted"
        assert not OPAQUE.search(message), f"{shown}: {message[:200]}"
        assert len(message) < 5000, shown
        assert seconds < SECONDS, f"{shown} took {seconds:.2f} s"
    gc.collect()
    assert resident_mb() - before < GROWTH_MB


def test_bombs_of_jq_end_too():
    """The rest of them is in tests/sandbox; this is the one that needs no process to be refused."""
    jq = Jq()
    with pytest.raises(JqError, match="20,000 are allowed"):
        jq.call("." * 30_000, None)
    jq.close()
