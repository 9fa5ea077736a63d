"""Classes as tasks: one object for all attempts of a process."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest

import perdure
from perdure.sdk.errors import BuildError


@dataclasses.dataclass
class Point:
    x: int


class Adder:
    """Counts its calls, and has its arguments converted as functions have."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, ctx: perdure.Context, point: Point, by: int = 1) -> list[int]:
        self.calls += 1
        return [point.x + by, self.calls, ctx.attempt]


add = perdure.task(Adder)


@perdure.task(name="tests.doubled")
class Doubler:
    async def __call__(self, value: int) -> int:
        return 2 * value


@perdure.workflow
def adding(x: int):
    start: Any = {"x": x}
    first = add(start)
    second = add.options(id="second")(cast(Any, {"x": first[0]}), by=10)
    return {
        "first": first,
        "second": second,
        "doubled": cast(Any, Doubler)(second[0]),
    }  # for mypy it is still the class


def test_nodes_of_one_class_share_an_object_and_arguments_become_what_annotations_say():
    run = perdure.run(adding, x=1, db=":memory:")
    assert run.outputs == {"first": [2, 1, 1], "second": [12, 2, 1], "doubled": 24}, run.error


def test_a_class_is_known_by_its_place_and_its_name():
    assert [node["config"]["function"] for node in adding.definition()["nodes"]] == [
        f"{__name__}:Adder",
        f"{__name__}:Adder",
        f"{__name__}:Doubler",
    ]


def test_outside_of_a_workflow_one_makes_the_object_oneself():
    with pytest.raises(BuildError, match=r"make an object of Adder\.fn"):
        add(Point(1))
    assert isinstance(add.fn(), Adder)


def test_a_class_without_a_call_is_no_task():
    with pytest.raises(BuildError, match="class Point has no __call__"):
        perdure.task(Point)
