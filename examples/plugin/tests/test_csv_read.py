"""The node type in the real engine, in virtual time."""

import pytest
from perdure_csv import CSV_READ

from perdure.testing import assert_run, run


def csv_read(**config):
    return run({"name": "t", "nodes": [{"id": "a", "type": "csv_read", "config": config}]}, real=True)


def test_rows_become_objects_with_types():
    found = csv_read(text="item,price,sold\nlamp,9.5,true\ndesk,,FALSE\n", types={"price": "number", "sold": "boolean"})
    rows = [{"item": "lamp", "price": 9.5, "sold": True}, {"item": "desk", "price": None, "sold": False}]
    assert_run(
        found, state="completed", outputs={"a": {"columns": ["item", "price", "sold"], "rows": rows, "count": 2}}
    )


def test_columns_can_be_named_and_the_delimiter_chosen():
    found = csv_read(text="1;2\n\n3;4\n", delimiter=";", columns=["x", "y"], types={"x": "integer"})
    assert found.outputs["a"]["rows"] == [{"x": 1, "y": "2"}, {"x": 3, "y": "4"}]


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"text": "a\nx\n", "types": {"a": "integer"}}, "bad_value"),
        ({"text": "a\n1\n", "types": {"b": "integer"}}, "missing_column"),
    ],
)
def test_what_is_wrong_is_not_tried_again(config, code):
    assert_run(csv_read(**config), state="failed", error=code, attempts={"a": 1})


def test_the_type_says_what_it_needs():
    assert CSV_READ.config_schema["required"] == ["text"]
