"""What cannot become a graph is refused where it is written, and the message says what to write instead."""

# Much of it a type checker would refuse as well; those who have none get these messages.
# mypy: disable-error-code="arg-type, call-arg, call-overload"

from __future__ import annotations

import asyncio
import copy
import functools
import math
import operator
from typing import Any

import pytest

import perdure
from perdure.errors import PerdureError
from tests.sdk.tasks import echo, fetch, grow, headlines, join


def refusal(body, **inputs: Any) -> str:
    """The message a workflow function is refused with."""

    @perdure.workflow
    def refused(city: str, n: int = 1):
        return body(fetch(city), city)

    with pytest.raises(perdure.BuildError) as caught:
        refused.definition()
    assert caught.value.code == "build_error"
    return caught.value.message


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda h: bool(h), ["fetch has no value", "`if`", "perdure.branch(fetch", "when="]),
        (lambda h: 1 if h["ok"] else 2, ["fetch.ok has no value", "perdure.branch"]),
        (lambda h: h and 1, ["& | ~"]),
        (lambda h: not h, ["& | ~"]),
        (lambda h: [x + 1 for x in h], ["looped over", "perdure.map(task, fetch)"]),
        (lambda h: list(h), ["perdure.map"]),
        (lambda h: dict(**h), ["called", "a task"]),  # **h asks for keys()
        (lambda h: print(*h), ["perdure.map"]),
        (lambda h: len(h), ["no length", 'perdure.expr(f"{fetch} | length")']),
        (lambda h: "x" in h, ["`in`", "perdure.cel"]),
        (lambda h: asyncio.run(_await(h)), ["awaited", "without await"]),
        (lambda h: h(), ["cannot be called", "a task"]),
        (lambda h: h.upper(), ["fetch.upper has no value", "cannot be called"]),
        (lambda h: h + 1, ["calculated", "perdure.expr"]),
        (lambda h: "a" + h, ["calculated"]),
        (lambda h: -h, ["calculated"]),
        (lambda h: h % 2, ["calculated"]),
        (lambda h: int(h), ["calculated"]),
        (lambda h: range(h), ["calculated"]),
        (lambda h: round(h, 2), ["calculated"]),
        (lambda h: operator.setitem(h, "a", 1), ["cannot be changed"]),
        (lambda h: operator.delitem(h, "a"), ["cannot be changed"]),
        (lambda h: h[1:3], ["a name or a whole number", 'perdure.expr(f"{fetch}[1:3]")']),
        (lambda h: h[h], ["a name or a whole number"]),
        (lambda h: f"{h:.2f}", ["formatted with '.2f'", "in a task"]),
        (lambda h: echo(f"{h!r}"), ["!r", "in a task"]),
        (lambda h: echo(f"{h}".upper()), ["changed afterwards", "in a task"]),
        (lambda h: echo(f"{h}".lower()), ["changed afterwards"]),
        (lambda h: echo(f"{h}".title()), ["changed afterwards"]),
        (lambda h: echo(f"{h}"[1:]), ["changed afterwards"]),
        (lambda h: {h: 1}, ["a key of", "make it a value"]),
        (lambda h: echo({f"{h}": 1}), ["a key of", "make it a value"]),
        (lambda h: echo({1: 2}), ["keys are strings"]),
        (lambda h: echo(h > 1), ["is a condition", "when="]),
        (lambda h: bool(h > 1), ["a condition has no value", "perdure.branch"]),
        (lambda h: 1 < h < 3, ["(a < b) & (b < c)"]),
        (lambda h: (h == 1) or (h == 2), ["& | ~"]),
        (lambda h: h in [1, 2], ["a condition has no value"]),
        (lambda h: sorted([h, h]), ["a condition has no value"]),
        (lambda h: h == {1}, ["a value of type set cannot be written into a condition"]),
        (lambda h: echo(object()), ["argument 'value' of echo", "of type object", "give plain data"]),
        (lambda h: echo(math.nan), ["argument 'value' of echo is nan"]),
        (lambda h: echo({"a": [math.inf]}), ["argument 'value' of echo['a'][0] is inf"]),
        (lambda h: fetch(), ["fetch(city: 'str')", "missing a required argument: 'city'"]),
        (lambda h: fetch("a", town=1), ["unexpected keyword argument 'town'"]),
        (lambda h: fetch(citty="a"), ["unexpected keyword argument 'citty', missing", "did you mean 'city'?"]),
        (lambda h: fetch.options(retries=3)("a"), ["no option 'retries'", "did you mean 'retry'"]),
        (lambda h: perdure.approval(aprovers=["ann"]), ["no option 'aprovers'", "did you mean 'approvers'"]),
        (lambda h: perdure.approval(titel="Pay?"), ["no option 'titel'", "did you mean 'title'"]),
        (lambda h: echo.options(id="fetch")(1), ["id 'fetch' is taken"]),
        (lambda h: echo.options(after="fetch")(1), ["after= takes what a call gave", "got str"]),
        (lambda h: echo.options(when=3)(1), ["expected a condition, got int", "an ordinary `if`"]),
        (lambda h: perdure.branch("x", {"true": lambda: echo(1)}), ["got str", "an ordinary `if`"]),
        (lambda h: perdure.branch(h, {}), ["has no cases"]),
        (lambda h: perdure.branch(h, {h > 1: echo(1)}), ["a function without arguments", "lambda"]),
        (
            lambda h: perdure.branch(h, {f"output.x == '{h}'": lambda: echo(1)}),
            ["inside quotes", "leave the quotes out"],
        ),
        (lambda h: perdure.branch(h, {h[-1] > 1: lambda: echo(1)}), ["cannot count from the end"]),
        (lambda h: perdure.loop(lambda: 1, while_="true", max_iterations=2), ["makes no node"]),
        (
            lambda h: perdure.loop(lambda: echo(1), while_="true", max_iterations=2, on_exhausted="x"),
            ["'fail' or 'stop'"],
        ),
        (lambda h: perdure.map(echo, {"a": 1}), ["goes over a list", "got dict"]),
        (lambda h: perdure.map(lambda x: join(echo(x)), h), ["one call", "2 calls", "into a workflow"]),
        (lambda h: perdure.map(lambda x: x, h), ["one call", "0 calls"]),
        (lambda h: perdure.map(lambda x: echo(x)["a"], h), ["one call"]),
        (lambda h: perdure.map(lambda x: echo.options(when=h > 1)(x), h), ["when= has no meaning"]),
        (lambda h: perdure.map(lambda x: perdure.branch(x, {"true": lambda: echo(x)}), h), ["cannot branch"]),
        (lambda h: perdure.first(h), ["two or more"]),
        (lambda h: perdure.map(lambda x: perdure.first(h, echo(x)), h), ["is one call of a task"]),
        (
            lambda h: perdure.map(lambda x: perdure.loop(lambda: echo(x), while_="true", max_iterations=2), h),
            ["cannot loop"],
        ),
        (lambda h: perdure.wait(), ["needs seconds, until, signal or event"]),
        (lambda h: perdure.secret("a b"), ["the name of a secret"]),
        (lambda h: perdure.run(echo), ["inside a workflow function"]),
        (lambda h: setattr(h, "x", 1), []),
    ],
)
def test_a_handle_refuses_what_needs_a_value(use, words):
    @perdure.workflow
    def refused(city: str):
        return use(fetch(city))

    with pytest.raises((perdure.BuildError, AttributeError)) as caught:
        refused.definition()
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message


async def _await(handle):
    return await handle


def test_values_of_loops_maps_and_branches_are_refused_where_they_mean_nothing():
    kept: list[Any] = []

    def keep(value: Any) -> Any:
        kept.append(value)
        return echo(value)

    def leak_loop(found, city):
        perdure.loop(lambda loop: keep(loop.iteration), while_="output > 2", max_iterations=3)
        return echo(kept[0])

    def leak_item(found, city):
        perdure.map(keep, [1])
        return echo(kept[1])

    def leak_branch(found, city):
        value = perdure.branch(found, {found["x"] > 1: lambda: echo(1)})
        return perdure.branch(value, {value == 2: lambda: echo(2)})

    def leak_output(found, city):
        echo.options(compensator=keep)(1)
        return echo(kept[2])

    assert "known only inside its body" in refusal(leak_loop)
    assert "known only inside that map" in refusal(leak_item)
    assert "perdure.transform(value)" in refusal(leak_branch)
    assert "known only inside it" in refusal(leak_output)


def test_a_handle_belongs_to_one_workflow():
    kept: list[Any] = []

    @perdure.workflow
    def first(city: str):
        kept.extend([city, f"{city}"])
        return echo(city)

    first.definition()
    with pytest.raises(perdure.BuildError, match="belongs to another workflow than refused"):
        perdure.workflow(_make("refused", lambda: echo(kept[0]))).definition()
    with pytest.raises(perdure.BuildError, match="of another workflow than refused"):
        perdure.workflow(_make("refused", lambda: echo(kept[1]))).definition()
    with pytest.raises(perdure.BuildError, match="belongs to another workflow"):
        perdure.workflow(_make("refused", lambda: echo.options(when=kept[0] == 1)(1))).definition()


def _make(name, body):
    def function():
        return body()

    function.__name__ = name
    return function


@pytest.mark.parametrize(
    ("decorate", "words"),
    [
        (lambda: perdure.task(3), "for functions and classes, got int"),
        (lambda: perdure.task(echo), "echo is a task already"),
        (lambda: perdure.task(functools.partial(print)), "for functions and classes, got partial"),
        (lambda: perdure.task(dict), "class dict has no __call__"),
        (lambda: perdure.task(_positional), "cannot be given by name"),
        (lambda: perdure.task(timeuot=3)(_plain), "no option 'timeuot'; did you mean 'timeout'"),
        (lambda: perdure.task(when="true")(_plain), "it belongs to one call: task.options(when=…)(…)"),
        (lambda: perdure.workflow(_coroutine), "_coroutine is async"),
        (lambda: perdure.workflow(echo), "echo is a task"),
        (lambda: perdure.workflow(3), "for functions, got int"),
        (lambda: perdure.workflow(_many), "inputs are named"),
        (lambda: perdure.workflow(nmae="x")(_plain), "no option 'nmae'; did you mean 'name'"),
        (lambda: perdure.branch(1, {}), "inside a function decorated with @perdure.workflow"),
        (lambda: perdure.map(echo, []), "inside a function decorated with @perdure.workflow"),
        (lambda: perdure.approval("x"), "inside a function decorated with @perdure.workflow"),
    ],
)
def test_what_is_decorated_wrongly_is_refused_at_once(decorate, words):
    with pytest.raises(perdure.BuildError) as caught:
        decorate()
    assert words in caught.value.message


def _positional(a, /):
    return a


def _plain():
    return 1


async def _coroutine():
    return 1


def _many(*cities):
    return cities


def test_a_method_is_no_task():
    class Service:
        @perdure.task
        def call(self) -> int:
            return 1

    with pytest.raises(perdure.BuildError, match="call is a method"):
        Service().call()


def test_a_workflow_is_not_called_like_a_function():
    @perdure.workflow
    def alone(city: str):
        return fetch(city)

    with pytest.raises(perdure.BuildError, match=r"perdure.run\(alone, …\)"):
        alone("Oslo")


def test_a_workflow_that_calls_itself_is_refused():
    @perdure.workflow
    def again(n: int):
        return again(n)

    with pytest.raises(perdure.BuildError, match="again calls itself"):
        again.definition()


def test_two_children_of_one_name_are_refused():
    one = perdure.workflow(_make("child", lambda: echo(1)))
    two = perdure.workflow(_make("child", lambda: echo(2)))

    @perdure.workflow
    def parent():
        return [one(), two()]

    with pytest.raises(perdure.BuildError, match="two different workflows are called child"):
        parent.definition()


def test_a_handle_can_be_shown_and_copied_without_harm():
    @perdure.workflow
    def shown(city: str):
        found = fetch(city)["a"]
        assert repr(found) == "<perdure handle fetch.a>"
        assert repr(found > 1) == "<perdure condition fetch.a > 1>"
        assert not hasattr(found, "_private")
        return copy.deepcopy([copy.copy(found)])

    assert shown.definition()["outputs"] == {"result": ["{{ fetch.a }}"]}


def test_problems_the_compiler_finds_are_all_told_at_once():
    @perdure.workflow(name="bad name")
    def bad(city: str):
        return fetch.options(timeout=-1, queue="a b", retry={"max_attempts": "x"})(city)

    with pytest.raises(PerdureError) as caught:
        perdure.run(bad, city="x", db=":memory:")
    codes = {problem.code for problem in caught.value.problems}  # type: ignore[attr-defined]
    assert len(caught.value.problems) == 4  # type: ignore[attr-defined]
    assert codes == {"invalid_name", "wrong_value", "wrong_type"}
    assert all("fetch" in problem.message for problem in caught.value.problems[1:])  # type: ignore[attr-defined]


def test_the_guides_traps_are_refused():
    @perdure.workflow
    def trap(city: str):
        news = headlines(city)
        return [grow(line) for line in news]

    with pytest.raises(perdure.BuildError, match=r"perdure.map\(task, headlines\)"):
        trap.definition()
