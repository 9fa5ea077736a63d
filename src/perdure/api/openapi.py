"""The OpenAPI document, made from the endpoints themselves. This file must not know what they do."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, get_args

import msgspec

from perdure.api.endpoints import Endpoint
from perdure.api.schemas.general_schemas import ProblemDetails

_REF = "#/components/schemas/{name}"
_PROBLEM = "application/problem+json"
_DESCRIPTION = (
    "Perdure, a durable workflow engine. Errors are `application/problem+json` with a stable `code`. Lists take `limit` and "
    "`cursor` and give `{items, next_cursor}`. Ids stand in a path as they are; nothing in them needs escaping."
)

_TEXT = {"type": "string"}
_EVENT = {
    "type": "object",
    "description": "One server-sent event: `data` is an event as GET /runs/{run_id}/events shows it, as JSON.",
    "properties": {"id": _TEXT, "event": _TEXT, "data": _TEXT, "retry": {"type": "integer"}},
}

_LAST_ID = {False: "^[0-9]{0,15}$", True: "^([0-9]{1,10}[.][0-9]{1,15})?$"}
"""How events of a run are named, and chunks of a node."""

_SIGNED = {
    "webhook-id": "The id of this message; the same one again is answered as the first.",
    "webhook-timestamp": "When it was signed, in seconds since 1970; at most five minutes ago.",
    "webhook-signature": "`v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`; several with spaces between them.",
}

PATH_PARAMETERS: dict[str, str] = {
    "run_id": "Which run.",
    "node": "Which node, by its id in the definition.",
    "name": "The name of a workflow, a trigger or a node type.",
    "number": "Which item, by its number.",
    "hook": "The last part of the address of a webhook.",
    "alias": "A name for a version.",
    "workflow": "The name of a workflow.",
    "key": "The key of a session.",
    "approval_id": "Which approval.",
    "scope": "`tenant`, or `workflow:` with its name.",
    "dead_letter_id": "Which dead letter.",
    "key_id": "Which key.",
    "session_id": "Which session.",
    "hash": "`sha256:…`, with or without `cas://` before it.",
    "token": "The token of a link.",
}


def make_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    endpoints = [one for one in endpoints if one.template != "/openapi.json"]
    components = _components(endpoints)
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.template, {})[endpoint.method.lower()] = _operation(endpoint, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Perdure", "version": version("perdure"), "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": {name: components[name] for name in sorted(components)},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key (`perdure_…`) or a JWT. A server without authentication listens on loopback only.",
                }
            },
        },
        "security": [{"bearer": []}],
    }


def _components(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    types: list[Any] = [ProblemDetails]
    for endpoint in endpoints:
        answers = [one for one in endpoint.answers.values() if one is not None and not isinstance(one, str)]
        types += [one for answer in answers for one in get_args(answer) or (answer,)]
        types += [one for one in (endpoint.body, endpoint.signed) if one is not None]
    _, components = msgspec.json.schema_components(dict.fromkeys(types), ref_template=_REF)
    return dict(components)


def _operation(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    text = inspect.getdoc(endpoint.handler) or endpoint.name
    summary, _, rest = text.partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.tag],
        "summary": " ".join(summary.split()),
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint), *_header_parameters(endpoint)],
        "responses": {
            **{str(status): _answer(status, content) for status, content in endpoint.answers.items()},
            "4XX": {"description": "It was refused", "content": {_PROBLEM: {"schema": _ref("ProblemDetails")}}},
            "5XX": {"description": "It did not work", "content": {_PROBLEM: {"schema": _ref("ProblemDetails")}}},
        },
    }
    if endpoint.lists:
        operation["responses"]["304"] = {"description": "It is as `If-None-Match` says"}
    if rest:
        operation["description"] = rest
    if endpoint.permission is None:
        operation["security"] = []
    else:
        operation["x-permission"] = str(endpoint.permission)
    if (body := endpoint.body or endpoint.signed) is not None:
        content = {"application/json": {"schema": _ref(body.__name__)}}
        operation["requestBody"] = {"required": endpoint.needs_body, "content": content}
    elif endpoint.sends:
        content = {kind: {"schema": _sent(kind)} for kind in endpoint.sends}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _sent(kind: str) -> dict[str, Any]:
    """The schema of a body that its handler reads itself. A definition has none: whatever is wrong with it is reported
    as a problem of the definition."""
    return {"description": "A definition."} if kind == "application/json" else {"type": "string"}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(name=name)}


def _answer(status: int, content: Any) -> dict[str, Any]:
    if content is None:
        return {"description": "Nothing more to say"}
    if isinstance(content, str):
        found: dict[str, Any] = {content: {"schema": _EVENT if "event-stream" in content else _TEXT}}
        if status >= 400:  # a page for people; errors before the page is reached are problem details as everywhere
            found[_PROBLEM] = {"schema": _ref("ProblemDetails")}
        return {"description": "As it is", "content": found}
    if kinds := get_args(content):  # which of them depends on what was asked
        schema = {"anyOf": [_ref(one.__name__) for one in kinds]}
        return {"description": "Done", "content": {"application/json": {"schema": schema}}}
    if content is Any:  # whatever a user's workflow gave
        return {"description": "A JSON value", "content": {"application/json": {"schema": {}}}}
    return {
        "description": inspect.getdoc(content)
        if isinstance(content.__doc__, str) and "(" not in content.__doc__
        else "Done",
        "content": {"application/json": {"schema": _ref(content.__name__)}},
    }


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PATH_PARAMETERS[name],
            "schema": {"type": "string", "minLength": 1, "maxLength": 1000},
        }
        for name in endpoint.path_names
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([endpoint.query], ref_template=_REF)
    schema = components[endpoint.query.__name__]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, **_plain(one)}
        for name, one in schema.get("properties", {}).items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a query parameter, without null: a parameter is absent, never null."""
    schema = dict(schema)
    description = schema.pop("description", None)
    if "anyOf" in schema:
        kinds = [one for one in schema.pop("anyOf") if one != {"type": "null"}]
        schema |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if schema.get("default", ...) in (None, []):
        schema.pop("default")
    described = {} if description is None else {"description": description}
    return {**described, "schema": schema}


def _header_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    headers = []
    if endpoint.method == "POST" and endpoint.permission is not None:
        headers.append(
            _header(
                "Idempotency-Key",
                "The same key again gives what it gave the first time (starting and rerunning runs); elsewhere it is accepted, because asking "
                "twice changes nothing.",
                {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            )
        )
    if endpoint.lists:
        headers.append(
            _header(
                "If-None-Match",
                "The `ETag` of an answer: 304 if it would be the same.",
                {"type": "string", "pattern": "^[\\t -~\\x80-\\xff]*$"},  # one that is no tag is none that is known
            )
        )
    if endpoint.signed is not None:
        headers += [_header(name, said, {"type": "string", "pattern": "^[!-~ ]*$"}) for name, said in _SIGNED.items()]
    if "text/event-stream" in endpoint.answers.values():
        of_chunks = endpoint.template.endswith("/chunks")
        headers.append(
            _header("Last-Event-ID", "Go on after this event.", {"type": "string", "pattern": _LAST_ID[of_chunks]})
        )
    return headers


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}
