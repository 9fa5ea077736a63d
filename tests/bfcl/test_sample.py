"""A sample of BFCL: functions that people wrote, and calls of them, through the wire formats and the search. `make bfcl` has all."""

import pytest

from perdure.agents import tool as agents_tool
from perdure.agents.tool_search import search_tools
from tests.bfcl.functions import read_sample, schema_of
from tests.bfcl.judging import recall, through_the_wire


@pytest.mark.slow
async def test_functions_and_calls_arrive_as_they_were_sent():
    questions = read_sample()
    count, wrong = await through_the_wire(questions)
    assert wrong == []
    assert count == 4 * len(questions) >= 160


@pytest.mark.slow
def test_people_find_functions_by_their_own_words():
    few, many, known = recall(read_sample())
    assert known >= 90
    assert (few, many) > (0.85, 0.9)


def test_types_of_other_languages_are_those_of_json_schema():
    given = {
        "type": "dict",
        "properties": {
            "a": {"type": "float"},
            "b": {"type": "any"},
            "c": {"type": "tuple", "items": {"type": "String"}},
        },
    }
    assert schema_of(given) == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {}, "c": {"type": "array", "items": {"type": "string"}}},
    }


@pytest.mark.parametrize("words", ["weather", "get current weather", "celsius"])
def test_a_name_of_several_words_and_the_values_of_a_parameter_are_found(words):
    schema = {"type": "object", "properties": {"unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}}
    tools = [
        agents_tool.Tool("getCurrentWeather", "function", schema=schema, effect="read"),
        agents_tool.Tool("send_mail", "function", description="Sends a mail.", effect="send"),
    ]
    assert [row["name"] for row in search_tools(tools, words)] == ["getCurrentWeather"]
