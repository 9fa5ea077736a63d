"""Models of pydantic, dates, paths and numpy's scalars: the same JSON wherever they are given, and the same schema."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import pydantic
import pytest

import perdure
import perdure.testing
from perdure.errors import PerdureError
from perdure.plain import NotData, to_data
from perdure.sdk.annotations import lift_definitions, schema_of
from perdure.testing.definitions import InputsInvalid

MEMORY = ":memory:"


class Line(pydantic.BaseModel):
    article: str
    count: int = pydantic.Field(ge=1)


class Order(pydantic.BaseModel):
    number: int = pydantic.Field(alias="orderNumber")
    day: datetime.date
    lines: list[Line]


class Scalar:
    """As numpy's are."""

    dtype = "int64"
    shape = ()

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        return self.value


class Array:
    dtype = "int64"
    shape = (2,)

    def tolist(self) -> list[int]:
        return [1, 2]


@perdure.task
def total(order: Order) -> int:
    assert isinstance(order, Order)
    return sum(line.count for line in order.lines)


@perdure.task
def confirm(order: Order) -> Order:
    return order


@perdure.task
def weekday(day: datetime.date) -> str:
    return day.strftime("%A")


@perdure.workflow
def ordering(order: Order) -> dict[str, Any]:
    return {"total": total(order), "order": confirm(order)}


@perdure.workflow
def nightly(day: datetime.date) -> str:
    return weekday(day)


ORDER = Order(orderNumber=7, day=datetime.date(2026, 5, 17), lines=[Line(article="lamp", count=2)])
DATA = {"orderNumber": 7, "day": "2026-05-17", "lines": [{"article": "lamp", "count": 2}]}
DAY = datetime.date(2026, 5, 17)


def test_a_model_is_an_input_as_it_is():
    run = perdure.run(ordering, order=ORDER, db=MEMORY)
    assert run.state == "completed", run.error
    assert run.outputs == {"total": 2, "order": DATA}
    assert run.inputs == {"order": DATA}


def test_the_schema_of_an_input_is_that_of_the_model_with_the_models_it_holds():
    schema = ordering.definition()["inputs"]
    assert schema["properties"]["order"]["properties"]["lines"]["items"] == {"$ref": "#/$defs/Line"}
    assert schema["$defs"]["Line"]["properties"]["count"]["minimum"] == 1
    wrong = {**DATA, "lines": [{"article": "lamp", "count": 0}]}
    with pytest.raises(PerdureError, match="count"):
        perdure.run(ordering, inputs={"order": wrong}, db=MEMORY)


@pytest.mark.parametrize(("flow", "inputs"), [(ordering, {"order": ORDER}), (nightly, {"day": DAY})])
def test_tests_take_the_inputs_that_runs_take(flow, inputs):
    found = perdure.testing.run(flow, inputs=inputs, real=True)
    assert found.outputs == perdure.run(flow, inputs=inputs, db=MEMORY).outputs


def test_a_task_is_tested_as_it_is_run():
    found = perdure.testing.run(total, inputs={"order": ORDER}, real=True)
    assert found.outputs == perdure.run(total, order=ORDER, db=MEMORY).outputs == {"result": 2}
    assert total.options(retry=7).definition()["nodes"][0]["retry"] == 7


def test_inputs_that_are_no_data_say_so_and_how_they_become_data():
    for call, error in ((perdure.run, PerdureError), (perdure.testing.run, InputsInvalid)):
        with pytest.raises(error, match=r"not JSON: something in it is of type .*Array; give \.tolist\(\)"):
            call(nightly, inputs={"day": Array()})


class Stamp(datetime.datetime):
    """As that of pandas."""


def test_scalars_of_numpy_paths_and_dates_of_others_are_data():
    assert to_data({"n": Scalar(3), "p": Path("a") / "b"}) == {"n": 3, "p": "a/b"}
    assert to_data(Stamp(2026, 5, 17)) == "2026-05-17T00:00:00"
    with pytest.raises(NotData, match=r"plain data, a data class, a msgspec\.Struct or a pydantic model"):
        to_data(object())


@perdure.task
def measured(kind: str) -> Any:
    kinds = {"scalar": {"n": Scalar(3), "p": Path("a/b")}, "array": {"a": Array()}, "nan": {"a": Scalar(math.nan)}}
    return kinds[kind]


@pytest.mark.slow
def test_an_output_may_hold_scalars_of_numpy_and_paths_and_others_say_what_to_do():
    assert perdure.run(measured, kind="scalar", db=MEMORY).result() == {"n": 3, "p": "a/b"}
    for kind, words in (("array", "Array; give .tolist()"), ("nan", "$.a is not a number, or infinite")):
        error = perdure.run(measured, kind=kind, db=MEMORY).error
        assert error is not None
        assert words in error["message"]


def test_two_models_of_one_name_keep_their_own_definitions():
    def describe(kind: str) -> dict[str, Any]:
        return {"items": {"$ref": "#/$defs/Line"}, "$defs": {"Line": {"type": kind}}}

    lifted = lift_definitions(
        {"properties": {"a": describe("string"), "b": describe("integer"), "c": describe("string")}}
    )
    assert lifted == {
        "properties": {
            "a": {"items": {"$ref": "#/$defs/Line"}},
            "b": {"items": {"$ref": "#/$defs/Line_2"}},
            "c": {"items": {"$ref": "#/$defs/Line"}},
        },
        "$defs": {"Line": {"type": "string"}, "Line_2": {"type": "integer"}},
    }


def test_a_list_of_models_has_their_definitions_at_the_top():
    schema = schema_of(list[Order])
    assert schema is not None
    assert schema["items"]["properties"]["lines"]["items"] == {"$ref": "#/$defs/Line"}
    assert "Line" in schema["$defs"]
