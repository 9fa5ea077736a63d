"""`transform`: a value made from earlier outputs by templates alone, by a jq program, or by a pipeline of steps.

`value` is trivial: the coordinator has it rendered already. jq and pipelines take a worker, because they run code and
may take long.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from perdure.nodes import http
from perdure.nodes.registry import Answer, Call, Done, Failed, NodeType, Path, has_template
from perdure.outcomes import Failure
from perdure.pipeline import Means, PipelineError, check_steps, run_pipeline
from perdure.sandbox import jq as jqs

WAYS = ("value", "jq", "pipeline")

_jq = jqs.Jq()


def _answer(call: Call) -> Answer:
    config = call.config if isinstance(call.config, dict) else {}
    if "value" in config:
        return Done(config["value"])
    given = ", ".join(sorted(config)) or "nothing"
    return Failed("bad_config", f"transform {call.node} needs `value`, `jq` or `pipeline`; it has {given}")


def _needs_worker(config: Any) -> bool:
    return not isinstance(config, dict) or "jq" in config or "pipeline" in config


async def handle(config: Any, ctx: Any) -> Any:
    if "value" in config:
        return config["value"]
    value = config["input"] if "input" in config else await ctx.load_inputs()
    jq = partial(_run_jq, ctx)
    try:
        if "jq" in config:
            return await jq(config["jq"], value)
        means = Means(jq=jq, http=_make_caller(ctx), in_thread=ctx.run_in_thread)
        return await run_pipeline(config["pipeline"], value, means)
    except PipelineError as error:
        raise Failure(error.code, error.message, retryable=error.retryable) from None


async def _run_jq(ctx: Any, program: str, value: Any) -> Any:
    call, began, ended = jqs.Call(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def run() -> Any:
        began.set()
        try:
            return _jq.call(program, value, jqs.SECONDS, call, ctx.tenant)
        finally:
            loop.call_soon_threadsafe(ended.set)

    try:
        return await ctx.run_in_thread(run)
    except asyncio.CancelledError:
        call.end()
        if began.is_set():  # its thread must not outlive the attempt: with the process dead, it returns at once
            await ended.wait()
        raise
    except jqs.JqError as error:
        raise PipelineError(f"jq: {error.message}", error.code, retryable=error.retryable) from None


def _make_caller(ctx: Any) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
    """Make calls as the `http` node does, each call of a pipeline with an idempotency key of its own."""
    made = 0

    async def call(config: dict[str, Any]) -> dict[str, Any]:
        nonlocal made
        made += 1
        return await http.call(config, ctx.key(f"http_request/{made}"))

    return call


async def _close() -> None:
    _jq.close()  # kills, which takes no time worth a thread


def _check(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    given = [way for way in WAYS if way in config]
    if len(given) != 1:
        yield (), f"a transform has exactly one of {', '.join(WAYS)}"
    if "input" in config and "value" in config:
        yield ("input",), "`input` is for jq and pipeline; `value` needs none"
    if isinstance(config.get("jq"), str):
        try:
            jqs.check_program(config["jq"])
        except jqs.JqError as error:
            yield ("jq",), error.message
    if "pipeline" in config and not has_template(config["pipeline"]):
        for path, message in check_steps(config["pipeline"], has_template):
            yield ("pipeline", *path), message


TYPE = NodeType(
    name="transform",
    urls=(("pipeline", "*", "url"),),
    description="Gives `value`, rendered, or what `jq` or a `pipeline` makes of `input`.",
    config_schema={
        "type": "object",
        "properties": {
            "value": {"description": "any value with templates in it"},
            "jq": {"description": "a jq program that gives one value", "type": "string", "minLength": 1},
            "pipeline": {"description": "steps over a table, see docs/reference/pipeline.md", "type": "array"},
            "input": {"description": "what jq or the pipeline starts from; the inputs by node when it is left out"},
        },
        "additionalProperties": False,
    },
    capabilities=frozenset({"code", "effect", "network"}),  # a pipeline may POST
    example={
        "type": "transform",
        "config": {"jq": "[.[] | select(.price < 100) | .name]", "input": "{{ fetch.body }}"},
    },
    check=_check,
    answer=_answer,
    ref_keys=("value",),
    on_worker=_needs_worker,
    handler=handle,
    inputs_on_demand=True,
    close=_close,
)
