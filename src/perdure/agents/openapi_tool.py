"""`openapi_action` as a tool: what it takes, what a model is told of it, and what a call of it may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure import llms
from perdure.agents.openapi_document import Api, BadValue, Operation, tell, write_call
from perdure.agents.tool import Effect, Tool
from perdure.errors import SettingsInvalid
from perdure.llms.profile_rows import Profile
from perdure.llms.structured import find_problems
from perdure.model.labels import Label, join
from perdure.plain_text import cut
from perdure.spelling import suggest

NAME = "openapi_action"
LONGEST_TOLD = 32 * 1024
_STRANGE = Label("untrusted", "private")
_WORST: tuple[Effect, ...] = ("read", "write", "send")
_HOW = "Calls an operation of an HTTP API. Name the api and the operation_id, and give its params and body by name."


def read_openapi(profiles: tuple[str, ...], approve: Any) -> Tool:
    """The tool, before the documents of its profiles are read: what it may do and give at most."""
    rows = [_find_profile(name) for name in profiles]
    effects = [effect for row in rows for effect in _effects(row)]
    return Tool(
        name=NAME,
        kind="openapi",
        description=_HOW,
        schema=_schema(profiles),
        effect=max(effects, key=_WORST.index, default="send"),
        returns=join(_STRANGE if row is None else row.label for row in rows),
        approve=approve,
        profiles=profiles,
    )


def _find_profile(name: str) -> Profile | None:
    try:
        return llms.get_models().find_profile(name)
    except SettingsInvalid:  # no mistake of the workflow: the operator is told, once
        return None


def find_unknown(name: str) -> str | None:
    """What is wrong with the name of a profile, as far as this process knows."""
    try:
        known = tuple(llms.get_models().profiles)
    except SettingsInvalid:
        return None
    if name in known:
        return None
    hint = suggest(name, known) if known else "it names none: [profiles.weather] with origin and spec"
    return f"there is no profile {cut(ascii(name), 80)} in the operator's file (setting agents_file); {hint}"


def _effects(row: Profile | None) -> list[Effect]:
    return list(row.operations.values()) if row is not None and row.operations else ["send"]


def _schema(profiles: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["operation_id"],
        "properties": {
            "api": {"type": "string", "enum": list(profiles)},
            "openapi_url": {
                "type": "string",
                "maxLength": 2_000,
                "description": "instead of api: where its document is",
            },
            "operation_id": {"type": "string", "maxLength": 200},
            "params": {"type": "object"},
            "body": {},
            "auth_profile": {"type": "string", "enum": list(profiles)},
        },
        "additionalProperties": False,
    }


def offer(tool: Tool, apis: Mapping[str, Api]) -> Tool:
    """The tool with what the documents of its profiles say."""
    if tool.kind != "openapi":
        return tool
    found = tuple(apis[name] for name in tool.profiles)
    lines = [_HOW]
    for api in found:
        lines += [f"{api.profile} ({api.spec}):", *(f"- {line}" for line in tell(api))]
    return msgspec.structs.replace(tool, description=cut("\n".join(lines), LONGEST_TOLD), apis=found)


def _meant(tool: Tool, arguments: Mapping[str, Any]) -> tuple[Api | None, str]:
    """The API that a call means, or what is wrong."""
    name, url, profile = (arguments.get(key) for key in ("api", "openapi_url", "auth_profile"))
    if (name is None) == (url is None):
        return None, "it takes one of api and openapi_url"
    found = [
        api
        for api in tool.apis
        if name in (None, api.profile) and url in (None, api.spec) and profile in (None, api.profile)
    ]
    if not found:
        listed = "; ".join(f"{api.profile} is {api.spec}" for api in tool.apis)
        return None, f"no API of this agent is meant by that: {listed}"
    if len(found) > 1:
        return None, "several APIs have this document; name the auth_profile"
    return found[0], ""


def find_misuse_of_api(tool: Tool, arguments: dict[str, Any]) -> str | None:
    """What is wrong with a call, in words for the model."""
    api, problem = _meant(tool, arguments)
    if api is None:
        return problem
    operation = api.find_operation(arguments["operation_id"])
    if operation is None:
        known = tuple(one.id for one in api.operations)
        return f"{api.profile} has no operation {cut(ascii(arguments['operation_id']), 100)}; {suggest(arguments['operation_id'], known)}"
    given = _given(arguments)
    if problems := find_problems(operation.schema, given):
        return "; ".join(cut(one, 300) for one in problems[:5])
    try:
        write_call(api, operation, given.get("params") or {}, given.get("body"), has_body="body" in given)
    except BadValue as error:
        return str(error)
    return None


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: arguments[key] for key in ("params", "body") if key in arguments}


def bind_openapi(tool: Tool, arguments: dict[str, Any]) -> tuple[Tool, Any]:
    """The call that it comes to: of one API, with the effect of its operation."""
    api, _ = _meant(tool, arguments)
    assert api is not None
    operation = api.find_operation(arguments["operation_id"])
    assert isinstance(operation, Operation)
    safe = operation.method in ("GET", "HEAD")
    bound = msgspec.structs.replace(
        tool, apis=(api,), effect=operation.effect, idempotent=safe, returns=api.returns, description="", schema={}
    )
    return bound, {"operation_id": operation.id, **_given(arguments)}
