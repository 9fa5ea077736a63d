"""`function` in the real engine: code of a workflow, in a sandbox."""

import pytest

from perdure.model import compile_definition
from perdure.nodes import builtin, function
from perdure.nodes.config_checks import check_configs
from perdure.outcomes import Failure
from perdure.sandbox import python
from tests.engine.helpers import finish, output_of, running, workflow

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
async def _closed():
    yield
    await function._close()
    python.configure(512)


async def run(body, value=None, **more):
    return await function.compute({"code": f"def main(input):\n    {body}\n", **more}, value)


async def test_a_value_goes_in_and_a_value_comes_out(tmp_path):
    code = "def main(input):\n    return {'n': len(input), 'last': input[-1]}\n"
    node = {"id": "score", "type": "function", "config": {"code": code, "input": "{{ inputs.words }}"}}
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(node), inputs={"words": ["a", "grüße {{ x }}"]})
        assert output_of(state, "score") == {"n": 2, "last": "grüße {{ x }}"}
    assert function._sandbox is None  # the worker closed it


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("return 1 / 0", "function_error", "ZeroDivisionError"),
        ("return open('/etc/passwd').read()", "function_error", "raised"),
        ("import os\n    return os.environ['HOME']", "function_error", "raised"),
        ("import socket", "function_error", "raised"),
        ("while True: pass", "function_timeout", "timeout_ms"),
        ("return 'x' * 100_000_000", "function_memory", "max_memory_mb"),
        ("return float('nan')", "function_error", "no JSON"),
        ("return {1, 2}", "function_error", "raised"),
        ("return 'x' * 9_000_000", "function_error", "8,388,608 characters"),
    ],
)
async def test_code_has_no_way_out_and_an_end(body, code, said):
    with pytest.raises(Failure) as caught:
        await run(body, timeout_ms=500, max_memory_mb=64)
    assert (caught.value.code, said in caught.value.message) == (code, True), caught.value.message


async def test_data_in_an_error_stays_out_of_it():
    with pytest.raises(Failure) as caught:
        await run("raise ValueError(input)", "very private")
    assert "private" not in caught.value.message


async def test_the_operator_says_how_much_memory_there_is():
    python.configure(32)
    with pytest.raises(Failure, match="this deployment allows 32"):
        await run("return 1", max_memory_mb=64)


def test_code_that_cannot_be_it_is_refused_before_it_runs():
    for code, said in (
        ("def run(input): pass", "no function main(input)"),
        ("def main(): pass", "must take one argument"),
        ("def main(input): return eval(input)", "uses eval"),
        ("def main(input): return {{ inputs.x }}", "holds no templates"),
    ):
        compiled = compile_definition(workflow({"id": "f", "type": "function", "config": {"code": code}}))
        assert said in " ".join(problem.message for problem in check_configs(compiled.ir, builtin())), code
