"""Whole pipelines: steps in order, checks before anything runs."""

import pytest

from perdure.pipeline import Means, PipelineError, check_steps, run_pipeline
from perdure.pipeline.steps import MAX_STEPS, NAMES

FLIGHTS = {
    "results": {"flights": [{"a": "x", "price": 300}, {"a": "y", "price": 200}, {"a": "z", "price": 100}, {"a": "w"}]}
}


class Lent:
    """What a node lends a pipeline, recorded."""

    def __init__(self, body=None):
        self.body = FLIGHTS if body is None else body
        self.calls = []
        self.threads = []

    async def http(self, config):
        self.calls.append(config)
        return {"status": 200, "headers": {}, "body": self.body}

    async def jq(self, program, value):
        assert program == ".results.flights"
        return value["results"]["flights"]

    async def in_thread(self, function, *args):
        self.threads.append(function.__name__)
        return function(*args)

    def means(self):
        return Means(jq=self.jq, http=self.http, in_thread=self.in_thread)


async def test_the_pipeline_of_the_documents_gives_the_three_cheapest_flights():
    lent = Lent(FLIGHTS["results"]["flights"])
    steps: list = [
        {"step": "http_request", "url": "api.flights.com/search", "params": {"origin": "NYC", "dest": "LAX"}},
        {"step": "table_sort", "field": "price", "order": "asc"},
        {"step": "top_k", "k": 3},
    ]
    assert list(check_steps(steps)) == []
    result = await run_pipeline(steps, None, lent.means())
    assert [row["price"] for row in result] == [100, 200, 300]
    assert lent.calls == [{"url": "https://api.flights.com/search", "query": {"origin": "NYC", "dest": "LAX"}}]
    assert lent.threads == ["table_sort", "top_k"]  # never on the event loop


async def test_a_pipeline_filters_groups_and_reshapes():
    steps: list = [
        {"step": "jq_transform", "program": ".results.flights"},
        {"step": "table_filter", "condition": {"field": "price", "operator": ">", "value": 100}},
        {"step": "groupby", "by": "a", "aggregates": {"total": {"function": "sum", "field": "price"}}},
        {"step": "table_select", "fields": {"name": "a", "total": "total"}},
    ]
    result = await run_pipeline(steps, FLIGHTS, Lent().means())
    assert result == [{"name": "x", "total": 300}, {"name": "y", "total": 200}]


async def test_an_answer_can_be_entered_by_a_path():
    lent = Lent()
    request = {"step": "http_request", "url": "https://x.example", "path": "results.flights"}
    assert len(await run_pipeline([request], None, lent.means())) == 4
    with pytest.raises(PipelineError, match=r"step 1, http_request: the answer has no 'results\.nope'"):
        await run_pipeline([{**request, "path": "results.nope"}], None, lent.means())


async def test_an_error_names_its_step():
    steps: list = [
        {"step": "top_k", "k": 1},
        {"step": "table_filter", "condition": {"field": "x", "operator": "<", "value": 1}},
    ]
    with pytest.raises(PipelineError, match="step 2, table_filter: row 0"):
        await run_pipeline(steps, [{"x": "a"}], Lent().means())


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"step": "table_sortt"}, "did you mean 'table_sort'?"),
        ({}, "needs `step`"),
        ("table_sort", "needs `step`"),
        ({"step": "table_sort"}, "field"),
        ({"step": "table_sort", "field": "a", "order": "up"}, "order"),
        ({"step": "table_sort", "field": "a", "fild": 1}, "fild"),
        ({"step": "top_k", "k": -1}, "k"),
        ({"step": "top_k", "k": True}, "k"),
        ({"step": "groupby", "by": "a", "aggregates": {"x": {"function": "median"}}}, "median"),
        ({"step": "groupby", "by": "a", "aggregates": {"x": {"function": "sum"}}}, "needs a `field`"),
        ({"step": "join", "on": "a"}, "with"),
        ({"step": "join", "with": [], "on": "a", "how": "cross"}, "how"),
        ({"step": "regex_extract", "pattern": "("}, "missing )"),
        ({"step": "regex_extract", "pattern": "(?=a)"}, "RE2"),
        ({"step": "table_filter", "condition": {"field": "a", "all": []}}, "exactly one"),
        ({"step": "table_filter", "condition": {"operator": "<"}}, "exactly one"),
        ({"step": "table_filter", "condition": {"field": "a", "operator": "~"}}, "operator"),
        ({"step": "table_filter", "condition": {"field": "a", "operator": "matches", "value": "("}}, "missing )"),
        ({"step": "table_filter", "condition": "a > 1"}, "condition"),
        ({"step": "parse_date", "field": "d", "as": "unix"}, "as"),
        ({"step": "http_request"}, "url"),
        ({"step": "jq_transform"}, "program"),
    ],
)
def test_a_step_that_is_wrong_is_found_before_anything_runs(step, why):
    found = list(check_steps([{"step": "top_k", "k": 1}, step]))
    assert found
    assert found[0][0][0] == 1
    assert why in found[0][1]


async def test_a_wrong_pipeline_does_not_begin():
    lent = Lent()
    steps = [{"step": "http_request", "url": "https://x.example"}, {"step": "nope"}]
    with pytest.raises(PipelineError, match=r"pipeline\[1\]: a step needs") as caught:
        await run_pipeline(steps, None, lent.means())
    assert caught.value.code == "bad_config"
    assert lent.calls == []


@pytest.mark.parametrize("steps", [None, [], {}, "x", [{"step": "top_k", "k": 1}] * (MAX_STEPS + 1)])
def test_a_pipeline_is_a_list_of_some_steps(steps):
    assert len(list(check_steps(steps))) == 1


def test_deep_conditions_are_refused():
    condition: dict = {"field": "a"}
    for _ in range(30):
        condition = {"not": condition}
    assert "20 deep" in str(list(check_steps([{"step": "table_filter", "condition": condition}])))


def test_what_is_known_only_later_is_not_held_against_a_step():
    def is_open(value):
        return isinstance(value, str) and "{{" in value

    steps = [{"step": "top_k", "k": "{{ inputs.k }}"}, {"step": "join", "with": "{{ a.rows }}", "on": "id"}]
    assert list(check_steps(steps, is_open)) == []
    assert [path for path, _ in check_steps([{"step": "top_k", "kk": "{{ inputs.k }}"}], is_open)] == [(0, "kk"), (0,)]
    assert len(list(check_steps(steps))) == 2


def test_there_are_ten_steps():
    assert sorted(NAMES) == sorted(
        "table_sort table_filter table_select top_k groupby join jq_transform regex_extract parse_date http_request".split()
    )
