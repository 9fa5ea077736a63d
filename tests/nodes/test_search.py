"""`search` in the real engine: the best first, words alone, and a bound on everything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.expressions.json_schema import check as misfits
from perdure.nodes import search
from perdure.outcomes import Failure
from tests.engine.helpers import finish, output_of, running, workflow

DOCUMENTS = [
    {"id": "a", "title": "Refunds", "body": "How we refund an order within a week", "secret": "lamp"},
    {"id": "b", "title": "Lamps", "body": "Our lamps and their bulbs"},
    {"id": "c", "title": "Refunding lamps", "body": "A lamp that is broken is refunded at once"},
]


class Context:
    cancelled = False


def look(query, documents=DOCUMENTS, **more):
    limit = {"limit": more.pop("limit")} if "limit" in more else {}
    found = search.search({"query": query, "in": {"documents": documents, **more}, **limit}, Context())
    assert misfits(search.TYPE.output_schema, found) == []
    return found


async def test_documents_of_a_run_are_found_the_best_first(tmp_path):
    place = {"documents": "{{ inputs.documents }}", "text": ["title", "body"], "id": "id"}
    node = {"id": "find", "type": "search", "config": {"query": "{{ inputs.q }}", "in": place, "limit": 2}}
    async with running(tmp_path) as engine:
        inputs = {"q": "please refund my lamp", "documents": DOCUMENTS}
        found = output_of(await finish(engine, workflow(node), inputs=inputs), "find")
    assert ([hit["id"] for hit in found["hits"]], found["total"]) == (["c", "b"], 3)
    assert found["hits"][0]["document"] == DOCUMENTS[2]
    assert "broken" in found["hits"][0]["snippet"]
    assert found["hits"][0]["score"] > found["hits"][1]["score"] > 0


def test_only_named_fields_are_searched_and_without_an_id_the_position_is_it():
    assert [hit["id"] for hit in look("lamp", text=["title", "body"])["hits"]] == [1, 2]
    assert {hit["id"] for hit in look("lamp")["hits"]} == {0, 1, 2}
    assert [hit["id"] for hit in look("alpha", ["beta", "the alpha"])["hits"]] == [1]


@given(st.text(max_size=60))
def test_no_text_is_an_operator_of_the_index(text):
    look(text)


@pytest.mark.parametrize(
    "query", ['lamp" OR "x', "lamp AND nothing", "NEAR(lamp)", "title:lamp", "lamp*", "-lamp", '"', "lamp\\0"]
)
def test_what_looks_like_an_operator_is_words(query):
    assert len(look(query)["hits"]) == (0 if query == '"' else 3)


def test_too_much_is_refused_before_it_is_read():
    with pytest.raises(Failure, match="50,000 are searched"):
        look("x", [""] * 50_001)
    with pytest.raises(Failure, match="more than"):
        look("x", ["x" * 1_000_000] * 21)


def test_a_search_that_takes_too_long_ends(monkeypatch):
    monkeypatch.setattr(search, "SECONDS", -1.0)
    with pytest.raises(Failure) as caught:
        look("word", [f"word {number}" for number in range(5_000)])
    assert caught.value.code == "search_timeout"
