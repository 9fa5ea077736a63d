"""`function`: a few lines of Python that stand in the workflow, run in a sandbox: a value goes in, a value comes out.

The interpreter has no files, network, clock or environment, and runs in a process of its own within limits of time and
memory, as conditions in Python do (`perdure.sandbox`). A function of a module is a `task`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure import weight
from perdure.capacity import SANDBOX_MEMORY_MB
from perdure.expressions.at_hand import Lost
from perdure.expressions.python_code import MAX_ARGUMENTS, MAX_CODE, Job, check
from perdure.nodes.registry import NodeType, Path
from perdure.outcomes import Failure
from perdure.sandbox.python import Sandbox, SandboxUnavailable
from perdure.threads import aside

TIMEOUT_MS = 2_000
MAX_MEMORY_MB = 64
LONGEST_MS = 30_000

_sandbox: Sandbox | None = None


async def handle(config: Any, ctx: Any) -> Any:
    value = config["input"] if "input" in config else await ctx.load_inputs()
    return await compute(config, value, ctx.tenant)


async def compute(config: dict[str, Any], value: Any, tenant: str = "default") -> Any:
    """What the code makes of a value. Tenants take turns. Raises Failure."""
    arguments = await aside(tenant, msgspec.json.encode, [value])
    if len(arguments) > MAX_ARGUMENTS:
        message = (
            f"the input has {len(arguments):,} bytes, and {MAX_ARGUMENTS:,} are allowed; let an earlier node reduce it"
        )
        raise Failure("function_error", message, retryable=False)
    job = Job(
        config["code"], arguments, config.get("timeout_ms", TIMEOUT_MS), config.get("max_memory_mb", MAX_MEMORY_MB)
    )
    try:
        found = await _open().run_main(job, tenant)
    except SandboxUnavailable as error:
        raise Failure("sandbox_unavailable", error.message, not_done=True) from None
    if isinstance(found, Lost):
        raise _failure(found)
    return await aside(tenant, _read, found)


def _read(text: str) -> Any:
    data = text.encode("utf-8", "surrogatepass")
    if weight.is_heavy(data):
        raise Failure("function_error", f"what main gave is not read: {weight.WHY}", retryable=False)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Failure(
            "function_error", "what main gave is no JSON; NaN and infinity are none", retryable=False
        ) from None


def _failure(lost: Lost) -> Failure:
    again = lost.code == "sandbox_unavailable"
    match lost.code:
        case "condition_timeout":
            return Failure("function_timeout", lost.message, retryable=again)
        case "condition_memory":
            return Failure("function_memory", lost.message, retryable=again)
        case "condition_crashed":
            return Failure("function_crashed", lost.message, retryable=again)
        case "sandbox_unavailable":
            return Failure("sandbox_unavailable", lost.message, retryable=again)
        case _:
            return Failure("function_error", lost.message, retryable=again)


def _open() -> Sandbox:
    global _sandbox  # noqa: PLW0603  its processes are those of the whole process
    if _sandbox is None:
        _sandbox = Sandbox()
    return _sandbox


async def _close() -> None:
    global _sandbox
    if _sandbox is not None:
        closed, _sandbox = _sandbox, None
        await closed.close()


def _check(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    code = config["code"]
    if "{{" in code:
        yield ("code",), "code holds no templates: what they gave would be run; pass it as 'input'"
    elif (problem := check(code, "main", ("input",))) is not None:
        yield ("code",), problem


TYPE = NodeType(
    name="function",
    description="Runs a few lines of Python in a sandbox: main(input) gives the output.",
    config_schema={
        "type": "object",
        "required": ["code"],
        "properties": {
            "code": {"type": "string", "minLength": 1, "maxLength": MAX_CODE, "description": "it defines main(input)"},
            "input": {"description": "what main is called with; the inputs by node when it is left out"},
            "timeout_ms": {"type": "integer", "minimum": 1, "maximum": LONGEST_MS, "default": TIMEOUT_MS},
            "max_memory_mb": {
                "type": "integer",
                "minimum": 1,
                "maximum": SANDBOX_MEMORY_MB,
                "default": MAX_MEMORY_MB,
            },
        },
        "additionalProperties": False,
    },
    output_schema={"description": "what main returned"},
    capabilities=frozenset({"code"}),
    example={
        "type": "function",
        "config": {"code": "def main(input):\n    return {'n': len(input)}\n", "input": "{{ inputs.words }}"},
    },
    raw_keys=("code",),
    unknown_hint="a function of a module is type: task",
    check=_check,
    handler=handle,
    inputs_on_demand=True,
    close=_close,
)
