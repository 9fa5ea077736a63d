"""Node type `task`: finding functions and calling them."""

import pytest

from perdure import functions, nodes
from tests.runtime.harness import call, make_task, working

HERE = "tests.runtime.functions"


@pytest.mark.parametrize(
    ("function", "args", "output"),
    [
        (f"{HERE}:add", {"a": 1, "b": 2}, 3),
        (f"{HERE}:add", {"a": 1}, 2),
        (f"{HERE}:add_async", {"a": 1}, 2),
        (f"{HERE}:callable_object", {"x": 4}, 8),
        (f"{HERE}:Holder.held", {"x": 4}, 104),
        (f"{HERE}:about", {}, ["r1", 1, "r1/n/do/x"]),
        (f"{HERE}:about_annotated", {"extra": 5}, ["r1", 5]),
        ("tests.named", {"x": 4}, -4),
        ("builtins:dict", {"x": 4}, {"x": 4}),
    ],
)
async def test_a_function_is_called_with_its_arguments_by_name(function, args, output):
    functions.resolve(f"{HERE}:add")
    async with working() as h:
        result = await h.do(call(function, args=args))
    assert (result.kind, result.output) == ("completed", output), result.message


async def test_an_action_is_a_registered_name():
    functions.resolve(f"{HERE}:add")
    async with working() as h:
        result = await h.do(make_task(type="task", config={"action": "tests.named", "args": {"x": 1}}))
    assert result.output == -1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("nowhere.at_all:f", "importing module 'nowhere.at_all' failed with ModuleNotFoundError"),
        (f"{HERE}:nothing", f"module '{HERE}' has no 'nothing'"),
        (f"{HERE}:not_callable", "is a int; expected something callable"),
        ("unregistered", "is not registered; name it as 'module:name'"),
        (":f", "is not registered"),
    ],
)
async def test_a_function_that_cannot_be_found_is_not_looked_for_again(function, words):
    async with working() as h:
        result = await h.do(call(function))
    assert (result.kind, result.code, result.retryable) == ("failed", "function_not_found", False)
    assert words in result.message


@pytest.mark.parametrize(
    ("config", "code", "words"),
    [
        ({"args": {}}, "bad_config", "config.function"),
        ({"function": f"{HERE}:add", "args": [1]}, "bad_config", "'args' must be an object"),
        ({"function": f"{HERE}:add", "args": {}}, "bad_arguments", "missing a required argument: 'a'"),
        ({"function": f"{HERE}:add", "args": {"a": 1, "c": 2}}, "bad_arguments", "unexpected keyword argument 'c'"),
    ],
)
async def test_a_call_that_cannot_be_made_is_not_retried(config, code, words):
    async with working() as h:
        result = await h.do(make_task(type="task", config=config))
    assert (result.code, result.retryable) == (code, False)
    assert words in result.message


def test_a_name_is_registered_for_one_function_only():
    functions.register("tests.same", len)
    functions.register("tests.same", len)
    with pytest.raises(ValueError, match=r"taken by builtins:len.*builtins:max"):
        functions.register("tests.same", max)
    assert "tests.same" in functions.names()


def test_every_built_in_type_is_in_the_registry():
    registry = nodes.builtin()
    assert registry.names() == sorted(nodes.BUILTIN)
    assert registry.find("task") is not None
