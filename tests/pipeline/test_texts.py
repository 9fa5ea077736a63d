"""Steps that read something out of text."""

import pytest

from perdure.pipeline.errors import PipelineError
from perdure.pipeline.texts import parse_date, regex_extract

ROWS = [{"t": "order 12 of 2024"}, {"t": "nothing"}, {"t": None}]


def test_named_groups_become_fields():
    step = {"field": "t", "pattern": r"order (?P<number>\d+) of (?P<year>\d+)"}
    assert regex_extract(ROWS, step) == [
        {"t": "order 12 of 2024", "number": "12", "year": "2024"},
        {"t": "nothing", "number": None, "year": None},
        {"t": None, "number": None, "year": None},
    ]


def test_the_first_group_or_the_whole_match_goes_into_a_field():
    assert [row["n"] for row in regex_extract(ROWS, {"field": "t", "pattern": r"(\d+) of", "into": "n"})] == [
        "12",
        None,
        None,
    ]
    assert [row["t"] for row in regex_extract(ROWS, {"field": "t", "pattern": r"\d+"})] == ["12", None, None]


def test_all_matches_make_a_list():
    step = {"field": "t", "pattern": r"\d+", "all": True, "into": "all"}
    assert [row["all"] for row in regex_extract(ROWS, step)] == [["12", "2024"], [], []]
    assert regex_extract("a1b2", {"pattern": r"(?P<l>[a-z])(?P<d>\d)", "all": True}) == [
        {"l": "a", "d": "1"},
        {"l": "b", "d": "2"},
    ]


def test_without_a_field_the_input_is_the_text():
    assert regex_extract("é12", {"pattern": r"\d+"}) == "12"
    with pytest.raises(PipelineError, match="must be text"):
        regex_extract(["x"], {"pattern": "x"})


def test_what_is_no_text_is_an_error():
    with pytest.raises(PipelineError, match="row 0: field 't' is a number"):
        regex_extract([{"t": 1}], {"field": "t", "pattern": "x"})


def test_a_whole_table_has_one_budget():
    rows = [{"t": "a" * 10_000}] * 500
    with pytest.raises(PipelineError, match="too long"):
        regex_extract(rows, {"field": "t", "pattern": "(a|aa){1,20}b"})
    assert len(regex_extract(rows, {"field": "t", "pattern": "a+b"})) == 500


@pytest.mark.parametrize(
    ("raw", "step", "expected"),
    [
        ("2024-05-01", {}, "2024-05-01T00:00:00Z"),
        ("2024-05-01T10:00:00Z", {}, "2024-05-01T10:00:00Z"),
        ("2024-05-01T10:00:00+02:00", {}, "2024-05-01T08:00:00Z"),
        ("2024-05-01T10:00:00.25", {}, "2024-05-01T10:00:00.250000Z"),
        ("2024-07-01 10:00", {"timezone": "Europe/Oslo"}, "2024-07-01T08:00:00Z"),
        ("01.05.2024", {"format": "%d.%m.%Y"}, "2024-05-01T00:00:00Z"),
        ("May 1, 2024", {"format": "%B %d, %Y"}, "2024-05-01T00:00:00Z"),
        (1714557600, {}, "2024-05-01T10:00:00Z"),
        (0.5, {}, "1970-01-01T00:00:00.500000Z"),
        ("2024-05-01T10:00:00Z", {"as": "epoch"}, 1714557600.0),
        (None, {}, None),
        ("not a date", {"on_error": "null"}, None),
        ([1], {"on_error": "null"}, None),
    ],
)
def test_dates_are_read_and_written_in_utc(raw, step, expected):
    rows = parse_date([{"d": raw, "x": 1}], {"field": "d", "into": "at", **step})
    assert rows == [{"d": raw, "x": 1, "at": expected}]


@pytest.mark.parametrize(
    "raw", ["not a date", "2024-13-01", True, [1], 1e300, -1e300, "9" * 500, "0001-01-01T00:00:00+14:00"]
)
def test_what_is_no_date_is_an_error_that_does_not_quote_it(raw):
    with pytest.raises(PipelineError, match="row 0: field 'd' is no such date"):
        parse_date([{"d": raw}], {"field": "d"})


@pytest.mark.parametrize("zone", ["Nowhere/City", "../../etc/passwd", "America", "/etc/localtime"])
def test_a_time_zone_that_is_none_is_refused(zone):
    with pytest.raises(PipelineError, match="no time zone"):
        parse_date([{"d": "2024-05-01"}], {"field": "d", "timezone": zone})
