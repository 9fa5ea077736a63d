"""Regular expressions: RE2 only, short, and never slow (X06)."""

import contextlib

import pytest

from perdure.budget import OverBudget
from perdure.expressions.json_schema import SchemaInvalid, fits
from perdure.expressions.operators import Incomparable, compare, equal
from perdure.expressions.patterns import MAX_PATTERN, PatternError, compile_pattern
from tests.attack.watchdog import taking_at_most

# Patterns that take exponential or polynomial time where an engine backtracks, and some that are merely huge.
EVIL = [
    r"(a+)+$", r"(a*)*$", r"(a|a)*$", r"(a|aa)+$", r"(a|a?)+$", r"([a-zA-Z]+)*$", r"(.*a){20}$", r"(.*)*$",
    r"(x+x+)+y", r"((a+)+)+$", r"((((a+)+)+)+)+$", r"(a?){100}a{100}", r"(a?){30}a{30}", r"^(a+)+b$", r"(a+a+)+b",
    r"(\w+\s?)+$", r"^(\d+)+$", r"(\d+)*\d+x", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"([a-z]+)+[A-Z]", r"(.*?,){50}P",
    r"(.*,){20}P", r"^(.+)+$", r"(.+)+x", r"\s+$", r"^\s*(\s*)*x", r"(a|b|ab)*c", r"(ab|a)*c", r"(aa|a)*c",
    r"((a{1,30}){1,30})", r"(a{1,50}){1,20}b", r"[a-z]{1,500}z", r"(.{0,50}){0,20}b$", r".{1000}", r"(.{1,100}){1,10}x",
    r"[01]*1[01]{30}x", r"(a|b)*a(a|b){20}$", r"[a-q][^u-z]{13}x", r".*.*.*.*.*.*=x", r"(.)(.)(.)(.)(.)(.)(.)(.)x",
    r"\p{L}{1,200}!", r"(\p{L}|\p{N}){1,100}$", r"[\pL\pN\pS]{30}x", r"((((a{10}){10}){10}){10})", r"(a{1000}){1000}",
    r"\b(\w+\s?)+\b!", r"([\s\S]*)*\z", r"(?i)(k|[^\x00-\x7f]){50}", r"(<[^>]*>)*x", r"(\S+\s*)+@", r"^(?:.?)+x",
    r"(?:a{0,9}){0,9}(?:a{0,9}){0,9}b", r"(a|ä|å)+$", r"((ab)*c?)*d", r"(?:(?:(?:a?)+)+)+b",
]  # fmt: skip
TEXTS = ["a" * 100_000 + "!", "ab" * 50_000, "01" * 50_000, "é" * 50_000, "a," * 50_000, " " * 100_000 + "x"]


def test_there_are_enough_evil_patterns():
    assert len(set(EVIL)) >= 50


@pytest.mark.parametrize("pattern", EVIL)
def test_an_evil_pattern_over_100_kb_is_quick_or_refused(pattern):
    for text in TEXTS:
        refused = False
        with taking_at_most(0.15):  # 0.05 on a machine with nothing else to do
            try:
                compiled = compile_pattern(pattern)
                compiled.is_found_in(text)
                compiled.is_all_of(text)
            except PatternError:
                refused = True
        # What merely backtracks elsewhere is answered; what is large is refused.
        assert not refused or "{" in pattern or pattern.startswith("(.)(.)")


@pytest.mark.parametrize("pattern", EVIL)
def test_an_evil_pattern_in_a_schema_is_quick_or_refused(pattern):
    for text in TEXTS[:2]:
        with taking_at_most(0.3), contextlib.suppress(SchemaInvalid):
            fits({"type": "string", "pattern": pattern}, text[:20_000])


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing )"),
        ("[", "missing ]"),
        ("*", "no argument"),
        ("(?=a)", "RE2 syntax"),
        (r"(a)\1", "RE2 syntax"),
        ("a" * (MAX_PATTERN + 1), "1,000 are allowed"),
        ("\ud800", "Unicode"),
    ],
)
def test_a_pattern_that_cannot_be_used_says_why(pattern, why):
    with pytest.raises(PatternError, match=why.replace(")", r"\)").replace("]", r"\]")):
        compile_pattern(pattern)


def test_a_pattern_is_found_anywhere_or_is_all_of_a_text():
    assert compile_pattern("b").is_found_in("abc")
    assert not compile_pattern("^b").is_found_in("abc")
    assert compile_pattern("a.c").is_all_of("abc")
    assert not compile_pattern("b").is_all_of("abc")
    with pytest.raises(PatternError, match="Unicode"):
        compile_pattern("a").is_found_in("\ud800")


def test_equality_is_that_of_json():
    assert equal(1, 1.0)
    assert not equal(1, True)
    assert not equal(0, False)
    assert not equal([1], [True])
    assert equal({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]})
    assert not equal({"a": 1}, {"a": 1, "b": 2})
    assert not equal([1, 2], [1])
    assert not equal("1", 1)
    assert not equal(None, False)


@pytest.mark.slow
def test_a_comparison_of_too_much_has_an_end():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    other: list = []
    for _ in range(100_000):
        other = [other]
    assert equal(deep, other)
    with pytest.raises(OverBudget, match="too much"):
        compare("in", [[0] * 1000] * 1000, [[[0] * 1000] * 1000])


@pytest.mark.parametrize("operator", [">", ">=", "<", "<="])
def test_order_is_between_numbers_or_between_texts(operator):
    assert isinstance(compare(operator, 1, 2.5), bool)
    assert isinstance(compare(operator, "a", "b"), bool)
    pairs: list = [(1, "1"), (True, False), (None, 1), ([], []), ({}, {})]
    for left, right in pairs:
        with pytest.raises(Incomparable):
            compare(operator, left, right)
