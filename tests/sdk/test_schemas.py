"""Annotations: the schema each gives, and what JSON is turned back into."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypedDict, Union

import msgspec
import pytest

import perdure
from perdure.outcomes import Failure
from perdure.sdk.annotations import convert_value, hints_of, needs_conversion, schema_of
from tests.sdk.tasks import Order, Weather, describe, measure

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


class Colour(enum.Enum):
    RED = "red"


class Strange:
    pass


class Model:
    """In the manner of pydantic."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object", "properties": {"name": {"type": "string"}}}

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        if not isinstance(value, dict):
            raise ValueError("expected an object")
        return cls(value["name"])

    def model_dump(self, mode: str, by_alias: bool) -> dict[str, Any]:
        return {"name": self.name}


class Tagged(TypedDict, total=False):
    at: datetime.date


class Tree(msgspec.Struct):
    left: Optional[Tree] = None  # noqa: UP045


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (dict, {"type": "object"}),
        (list, {"type": "array"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Optional[str], {"type": ["string", "null"]}),  # noqa: UP045
        (Union[int, str], {"type": ["integer", "string"]}),  # noqa: UP007
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Colour, {"title": "Colour", "enum": ["red"]}),
        (Annotated[int, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1}),
        (
            Weather,
            {
                "title": "Weather",
                "type": "object",
                "properties": {"city": {"type": "string"}, "degrees": {"type": "number"}},
                "required": ["city", "degrees"],
            },
        ),
        (Model, {"type": "object", "properties": {"name": {"type": "string"}}}),
        (list[Strange], {"type": "array", "items": {"title": "Strange"}}),
        (Any, None),
        (Strange, None),
        (object, None),
        ("no such thing", None),
        (Weather | Order, None),
    ],
)
def test_an_annotation_gives_a_schema_or_none(annotation, schema):
    assert schema_of(annotation) == schema


def test_a_schema_that_names_itself_stays_a_reference():
    schema = schema_of(Tree)
    assert schema is not None
    assert schema["$ref"] == "#/$defs/Tree"


def test_annotations_that_cannot_be_evaluated_are_left_out_and_the_others_kept():
    def function(a: int, b: Unknown, c: list[Unknown]) -> str:
        return ""

    assert hints_of(function) == {"a": int, "return": str}

    @perdure.workflow
    def partly(a: int, b: Unknown):
        return perdure.transform([a, b])

    assert partly.definition()["inputs"]["properties"] == {"a": {"type": "integer"}, "b": {}}


@pytest.mark.parametrize(
    ("annotation", "converted"),
    [
        (int, False),
        (Any, False),
        (list[dict[str, int]], False),
        (str | None, False),
        (Literal["a"], False),
        (Sequence[str], False),
        (Strange, False),
        (Annotated[str, "x"], False),
        (Weather, True),
        (Order | None, True),
        (list[Order], True),
        (Sequence[Order], True),
        (dict[str, Weather], True),
        (Annotated[Weather, "x"], True),
        (set[int], True),
        (tuple[int, str], True),
        (datetime.datetime, True),
        (Colour, True),
        (Decimal, True),
        (uuid.UUID, True),
        (bytes, True),
        (Model, True),
        (Tagged, True),
    ],
)
def test_only_what_json_cannot_say_is_converted(annotation, converted):
    assert needs_conversion(annotation) is converted


def test_values_come_back_as_what_their_annotation_says():
    moment = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    assert convert_value({"city": "x", "degrees": 1}, Weather, "") == Weather("x", 1)
    assert convert_value("2030-01-01T00:00:00Z", datetime.datetime, "") == moment
    assert convert_value(["red"], list[Colour], "") == [Colour.RED]
    assert convert_value({"name": "m"}, Model, "").name == "m"
    with pytest.raises(Failure, match="argument 'x': expected an object"):
        convert_value(3, Model, "argument 'x'")


def test_data_classes_and_structs_pass_between_tasks():
    @perdure.workflow
    def typed(city: str) -> str:
        weather = measure(city)
        return describe(weather, Order(id=f"{weather.city}-1"))

    run = perdure.run(typed, city="Oslo", db=":memory:")
    assert run.result() == "Oslo 21.5 Oslo-1"
    assert run.nodes["measure"]["output"] == {"city": "Oslo", "degrees": 21.5}


def test_an_argument_that_cannot_be_converted_fails_the_task_and_is_not_tried_again():
    @perdure.workflow
    def wrong():
        return describe({"city": 3})  # type: ignore[arg-type]

    run = perdure.run(wrong, db=":memory:")
    assert run.error is not None
    assert (run.state, run.error["code"], run.nodes["describe"]["attempt"]) == ("failed", "bad_arguments", 1)
    assert "argument 'weather'" in run.error["message"]


def test_an_output_that_is_not_what_the_annotation_says_fails_the_task():
    @perdure.task(retry=1)
    def lies() -> int:
        return "three"  # type: ignore[return-value]

    run = perdure.run(lies, db=":memory:")
    assert run.error is not None
    assert run.state == "failed"
    assert "integer" in run.error["message"]
    quiet = perdure.run(perdure.task(output_schema=False)(lies.fn), db=":memory:")
    assert quiet.outputs == {"result": "three"}


def test_the_result_of_a_run_is_converted_to_what_the_workflow_returns():
    @dataclasses.dataclass
    class Report:
        weather: Weather
        at: datetime.date

    @perdure.workflow
    def report(city: str):
        return Report(measure(city), datetime.date(2030, 1, 2))

    report.function.__annotations__["return"] = Report
    run = perdure.run(report, city="Oslo", db=":memory:")
    assert run.outputs == {"weather": {"city": "Oslo", "degrees": 21.5}, "at": "2030-01-02"}
    assert run.result() == Report(Weather("Oslo", 21.5), datetime.date(2030, 1, 2))


def test_values_known_while_building_are_written_as_json():
    @perdure.task
    def show(a: Any, b: Any, c: Any, d: Any) -> Any:
        return [a, b, c, d]

    @perdure.workflow
    def literal():
        return show(datetime.date(2030, 1, 2), {Colour.RED}, (1, 2), Model("m"))

    assert perdure.run(literal, db=":memory:").result() == ["2030-01-02", ["red"], [1, 2], {"name": "m"}]
