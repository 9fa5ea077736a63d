"""`llm`: asks a language model, and gives what it said as text or as data that fits a schema.

It owns what a config means and what an answer becomes. Which models there are is the operator's to say
(`perdure.llms.operator_file`); how one is asked, and what is kept of it, is in `perdure.llms`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from perdure import egress, llms
from perdure.errors import SettingsInvalid
from perdure.expressions.json_schema import find_mistake
from perdure.expressions.leaves import has_leaf
from perdure.llms.calls import failure
from perdure.llms.durable import Said, Talk, image_part
from perdure.llms.exact_cache import ExactCache
from perdure.llms.operator_file import Found
from perdure.llms.port import LlmError, Message, Params, Part, Prefix, Request, Text, Usage
from perdure.model.money import MILLIONTHS, Budget
from perdure.nodes.registry import NodeType, Path, has_template
from perdure.outcomes import Failure

DEFAULT_SECONDS = 600.0
MAX_IMAGES = 10
MAX_IMAGE = 5 * 1024 * 1024
MAX_MESSAGES = 1000
BYTES = "$bytes"
_SECRET = re.compile(r"\{\{-?\s*+secrets\b")
_SHOWN_TO_MODEL = (
    "system",
    "instructions",
    "prompt",
    "messages",
    "examples",
    "images",
    "schema",
    "labels",
    "input",
    "asked",
)


async def handle(config: Any, ctx: Any) -> Any:
    said = await converse(config, ctx, await make_request(config, ctx), config.get("schema"), config.get("repairs", 2))
    return {
        "result": said.data if said.has_data else said.text,
        "text": said.text,
        "data": said.data,
        "finish": said.finish,
        "model": said.model,
        "usage": usage_data(said.usage),
        "mended": said.mended,
        "cached": said.is_cached,
    }


async def converse(config: dict[str, Any], ctx: Any, request: Request, schema: Any, repairs: int) -> Said:
    """Ask the models that the config names. Raises Failure."""
    check_sealed(config, ctx)
    max_usd = config.get("max_usd")
    limit = None if max_usd is None else Budget(usd=round(max_usd * MILLIONTHS))
    talk = Talk(ctx, find_models(config, ctx.tenant), limit, _open_cache(config, ctx))
    request = msgspec.structs.replace(request, schema=schema)
    try:
        async with asyncio.timeout(DEFAULT_SECONDS if ctx.timeout_seconds is None else None):
            return await talk.converse(request, repairs=repairs)
    except TimeoutError:
        message = (
            f"{config['model']} has not answered in {DEFAULT_SECONDS:g} s; timeout_seconds of the node allows more"
        )
        raise Failure("llm:timeout", message) from None


def check_sealed(config: dict[str, Any], ctx: Any) -> None:
    """Refuse to show a sensitive field to a model, unless the node says that it may. Raises Failure."""
    if ctx.was_sealed and not (config.get("allow_sensitive") and ctx.is_sealing):
        message = (
            f"{ctx.node} would show a sensitive field to a model; if it may, say allow_sensitive: true, and name what the node "
            "gives under `sensitive`, so that nothing of it is kept in the open"
        )
        raise Failure("sensitive_in_prompt", message, retryable=False)


def _open_cache(config: dict[str, Any], ctx: Any) -> ExactCache | None:
    """Where answers are found again. What is sealed is not kept in the open."""
    ttl = (config.get("cache") or {}).get("ttl_seconds")
    if ttl is None or ctx.answers is None or ctx.is_sealing or ctx.was_sealed or not ctx.memory.get("workflow"):
        return None
    return ExactCache(ctx.answers, f"{ctx.memory['workflow']}/{ctx.node}", ttl)


def find_models(config: dict[str, Any], tenant: str) -> list[Found]:
    """The model and those that stand in for it. Raises Failure."""
    try:
        models = llms.get_models()
        return [models.get(name, tenant) for name in (config["model"], *(config.get("fallback") or ()))]
    except LlmError as error:
        raise failure(error) from None
    except SettingsInvalid as error:
        raise Failure("llm:unknown_model", error.message, not_done=True) from None


async def make_request(config: dict[str, Any], ctx: Any) -> Request:
    messages = [_message(one) for one in config.get("messages") or ()]
    parts: list[Part] = [await _image(one, ctx) for one in config.get("images") or ()]
    if config.get("prompt") is not None:
        parts.append(Text(config["prompt"]))
    if parts:
        messages.append(Message("user", tuple(parts)))
    return Request(
        model=config["model"],
        prefix=Prefix(system=config.get("system") or "", examples=tuple(map(_message, config.get("examples") or ()))),
        messages=tuple(messages),
        params=msgspec.convert(config.get("params") or {}, Params),
    )


def _message(one: dict[str, Any]) -> Message:
    return Message(one["role"], (Text(one["content"]),))


async def _image(one: Any, ctx: Any) -> Part:
    if isinstance(one, str):
        data = bytes(await ctx.get_blob(one))
        encoded = base64.b64encode(data).decode()
    else:
        try:
            encoded = one[BYTES]
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise Failure("bad_config", f"an image's {BYTES} is not base64", retryable=False) from None
    if len(data) > MAX_IMAGE:
        message = f"an image has {len(data):,} bytes, and {MAX_IMAGE:,} are allowed"
        raise Failure("bad_config", message, retryable=False)
    return image_part(data, encoded)


def usage_data(usage: Usage) -> dict[str, Any]:
    """What was used, as people and programs see it: money in dollars."""
    found = {name: getattr(usage, name) for name in ("input", "cached", "written", "output", "reasoning", "calls")}
    return {**found, "usd": usage.usd / 1_000_000 if usage.priced else None}


# -- checks ------------------------------------------------------------------------------------------------------------


def check_shown(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Secrets where a model would read them."""
    for key in _SHOWN_TO_MODEL:
        if has_leaf(config.get(key), lambda leaf: isinstance(leaf, str) and _SECRET.search(leaf)):
            yield (
                (key,),
                "a secret is shown to no model: its provider would have it, and could be talked into saying it",
            )


def warn_models(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Names that are no model here. Workers may have another file, so it is a warning."""
    try:
        models = llms.get_models()
    except SettingsInvalid:  # no mistake of the workflow: the operator is told, once
        return
    names = [(("model",), config.get("model"))]
    names += [(("fallback", number), one) for number, one in enumerate(config.get("fallback") or ())]  # type: ignore[misc]
    for path, name in names:
        if isinstance(name, str) and not has_template(name) and (problem := models.find_problem(name)) is not None:
            yield path, problem


def _check(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    if config.get("prompt") is None and not config.get("messages"):
        yield (), "an llm node needs a 'prompt', or 'messages'"
    messages = config.get("messages")
    if isinstance(messages, list) and messages and config.get("prompt") is None and not config.get("images"):
        last = messages[-1]
        if isinstance(last, dict) and last.get("role") == "assistant":
            yield ("messages",), "the last message is the model's own; end with one of role user, or add a 'prompt'"
    schema = config.get("schema")
    if schema is not None and not has_leaf(schema, has_template) and (mistake := find_mistake(schema)) is not None:
        yield ("schema",), mistake


_MESSAGES = {
    "type": "array",
    "maxItems": MAX_MESSAGES,
    "items": {
        "type": "object",
        "required": ["role", "content"],
        "properties": {"role": {"enum": ["user", "assistant"]}, "content": {"type": "string"}},
        "additionalProperties": False,
    },
}
MODEL_KEYS: dict[str, Any] = {
    "model": {
        "type": "string",
        "minLength": 1,
        "maxLength": 300,
        "description": "a name of the operator's file, or provider/model",
    },
    "fallback": {
        "type": "array",
        "maxItems": 5,
        "items": {"type": "string", "minLength": 1},
        "description": "models that are asked when this one is overloaded, limited, silent, or cannot read so much",
    },
    "params": {
        "type": "object",
        "properties": {
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "top_p": {"type": "number", "minimum": 0, "maximum": 1},
            "max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 10_000_000},
            "seed": {"type": "integer"},
            "reasoning": {"enum": ["low", "medium", "high"]},
            "stop": {"type": "array", "maxItems": 4, "items": {"type": "string", "minLength": 1}},
        },
        "additionalProperties": False,
    },
    "repairs": {
        "type": "integer",
        "minimum": 0,
        "maximum": 10,
        "default": 2,
        "description": "how often the model is told what is wrong with its answer, and asked again",
    },
    "max_usd": {
        "type": "number",
        "minimum": 0,
        "maximum": 1_000_000,
        "description": "the most that the node may spend, in dollars",
    },
    "cache": {
        "type": "object",
        "required": ["ttl_seconds"],
        "properties": {"ttl_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 31_536_000}},
        "additionalProperties": False,
        "description": "answers are used again for so long where exactly the same is asked",
    },
    "allow_sensitive": {
        "type": "boolean",
        "default": False,
        "description": "whether the model may read sensitive fields",
    },
}
USAGE = {
    "type": "object",
    "properties": {
        **{name: {"type": "integer"} for name in ("input", "cached", "written", "output", "reasoning", "calls")},
        "usd": {"type": ["number", "null"], "description": "dollars; null if nobody has said what the model costs"},
    },
}

TYPE = NodeType(
    name="llm",
    description="Asks a language model, and gives what it said: text, or data that fits a schema.",
    config_schema={
        "type": "object",
        "required": ["model"],
        "properties": {
            **MODEL_KEYS,
            "system": {"type": ["string", "null"], "description": "what the model is told before everything else"},
            "prompt": {"type": ["string", "null"]},
            "messages": {**_MESSAGES, "description": "what was said before the prompt"},
            "examples": {**_MESSAGES, "description": "said before all messages, the same in every run"},
            "images": {
                "type": "array",
                "maxItems": MAX_IMAGES,
                "description": f"blobs (cas://…), or {{{BYTES}: base64}} as an http node gives them",
                "items": {
                    "type": ["string", "object"],
                    "required": [BYTES],
                    "properties": {BYTES: {"type": "string"}},
                    "additionalProperties": False,
                },
            },
            "schema": {"type": ["object", "boolean"], "description": "a JSON Schema that the answer fits"},
        },
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "required": ["result", "text", "data", "finish", "model", "usage", "mended", "cached"],
        "properties": {
            "result": {"description": "the data, or the text where there is no schema"},
            "text": {"type": "string"},
            "data": {"description": "null without a schema"},
            "finish": {"enum": ["stop", "calls", "length"]},
            "model": {"type": "string", "description": "as its provider names it"},
            "usage": USAGE,
            "mended": {"type": "boolean", "description": "whether something around the JSON was taken away"},
            "cached": {"type": "boolean", "description": "whether it was said before, to exactly the same request"},
        },
    },
    capabilities=frozenset({"network", "model"}),
    aliases=("llm_service",),
    example={
        "type": "llm",
        "config": {
            "model": "fast",
            "system": "You summarise tickets.",
            "prompt": "{{ inputs.ticket }}",
            "schema": {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}},
        },
        "timeout_seconds": 120,
        "retry": {"max_attempts": 4},
    },
    check=_check,
    check_written=check_shown,
    warn=warn_models,
    handler=handle,
    close=egress.close,
)
