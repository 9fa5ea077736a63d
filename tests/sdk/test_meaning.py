"""A random workflow gives what the same program gives as plain Python: what runs, what is skipped, what arrives where."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perdure


@perdure.task
def add(a: Any, b: Any) -> int:
    return (a or 0) + (b or 0) + 1


# A program is a list of statements; each makes one more value, named by its place. Values from around can be read inside.
places = st.integers(0, 30)
calls = st.tuples(st.just("add"), places, places)


def statements(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.tuples(st.just("branch"), places, st.integers(0, 12), inner, st.none() | inner)
    loops = st.tuples(st.just("loop"), places, st.integers(1, 3))
    maps = st.tuples(st.just("map"), places, places)
    return st.lists(calls | branches | loops | maps, min_size=1, max_size=4)


programs = st.recursive(st.lists(calls, min_size=1, max_size=3), statements, max_leaves=8)


def pick(values: list[Any], place: int) -> Any:
    return values[place % len(values)]


def repeat(step: Any, times: int) -> Any:
    return perdure.loop(lambda loop: add(loop.previous, step), while_=f"loop.iteration < {times}", max_iterations=10)


def for_each(items: list[Any], each: Any) -> Any:
    return perdure.map(lambda item: add(item, each), items)


def build(program: list[Any], around: list[Any]) -> Any:
    values = list(around)
    for statement in program:
        match statement:
            case ("add", a, b):
                values.append(add(pick(values, a), pick(values, b)))
            case ("branch", on, limit, way, other):
                known = list(values)
                decided = perdure.transform(pick(values, on))
                default = None if other is None else lambda other=other, known=known: build(other, known)
                ways = {
                    perdure.cel(f"{decided} != null && {decided} > {limit}"): lambda way=way, known=known: build(
                        way, known
                    )
                }
                values.append(perdure.branch(decided, ways, default=default))
            case ("loop", a, times):
                values.append(repeat(pick(values, a), times))
            case ("map", a, b):
                many = for_each([pick(values, a), 2], pick(values, b))
                values.append(add(many[0], many[1]))
    return values[-1]


def evaluate(program: list[Any], around: list[Any]) -> Any:
    def plus(a: Any, b: Any) -> int:
        return (a or 0) + (b or 0) + 1

    values = list(around)
    for statement in program:
        match statement:
            case ("add", a, b):
                values.append(plus(pick(values, a), pick(values, b)))
            case ("branch", on, limit, way, other):
                decided = pick(values, on)
                if decided is not None and decided > limit:
                    values.append(evaluate(way, values))
                else:
                    values.append(None if other is None else evaluate(other, values))
            case ("loop", a, times):
                previous = None
                for _ in range(times):
                    previous = plus(previous, pick(values, a))
                values.append(previous)
            case ("map", a, b):
                first, second = (plus(item, pick(values, b)) for item in (pick(values, a), 2))
                values.append(plus(first, second))
    return values[-1]


@pytest.mark.slow
@settings(max_examples=60)
@given(program=programs, start=st.integers(0, 6))
def test_a_random_workflow_gives_what_plain_python_gives(program, start):
    @perdure.workflow
    def generated(n: int, m: int = 3):
        return add.options(id="last")(build(program, [n, m]), 0)

    assert generated.compiled.errors == ()
    run = perdure.run(generated, n=start, db=":memory:")
    assert run.result() == (evaluate(program, [start, 3]) or 0) + 1, generated.to_yaml()
