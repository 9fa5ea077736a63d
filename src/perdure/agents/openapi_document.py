"""OpenAPI documents (3.0 and 3.1) as agents use them: which operations there are, what each takes, and how a call of one is written.

A document is a stranger's text. It can make an agent call nothing but the origin of its profile; what is not understood is left out,
and never guessed. This file reads and writes data, and calls nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from perdure import weight
from perdure.budget import Budget, OverBudget
from perdure.egress.errors import EgressRefused
from perdure.egress.urls import parse
from perdure.expressions.json_schema import find_mistake
from perdure.llms.profile_rows import Effect, Profile
from perdure.model.labels import Label
from perdure.plain_text import clean_line, cut

LARGEST_DOCUMENT = 2 * 1024 * 1024
MOST_OPERATIONS = 200
"""How many one agent is told of, of one profile."""
MOST_STEPS = 1_000_000
"""How many values are looked at, each as often as operations refer to it: about two seconds of a thread."""
LONGEST_LINE = 400
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_ID = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
_OWN_HEADERS = frozenset(
    {"accept", "content-type", "authorization", "host", "content-length", "connection", "cookie", "upgrade"}
)
_OWN_HEADERS |= {"transfer-encoding", "idempotency-key", "accept-encoding", "te", "trailer", "proxy-authorization"}
_SCHEMA = "#/components/schemas/"
_MOST_REFERENCES = 20
_NUMBERED = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


class BadDocument(Exception):
    """Why a document is of no use."""


class _LeftOut(Exception):
    """Why one operation cannot be called."""


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    place: Literal["path", "query", "header"]
    is_exploded: bool = True
    is_deep: bool = False


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    method: str
    path: str
    summary: str
    parameters: tuple[Parameter, ...]
    schema: dict[str, Any]
    """The JSON Schema of a call: `{params, body}`."""
    effect: Effect
    body: Literal["", "json", "form"] = ""


class Api(msgspec.Struct, frozen=True, omit_defaults=True):
    """A profile with its document as it was when the agent began."""

    profile: str
    spec: str
    sha256: str
    origin: str
    base: str
    """What paths begin with, without a slash at its end."""
    operations: tuple[Operation, ...]
    returns: Label = Label("untrusted", "private")
    is_pinned: bool = False
    """Whether a person vouches for what the document says."""

    def find_operation(self, id: str) -> Operation | None:
        return next((one for one in self.operations if one.id == id), None)


def read_document(name: str, profile: Profile, data: bytes) -> Api:
    """The operations that may be called. It may take time. Raises BadDocument."""
    digest = hashlib.sha256(data).hexdigest()
    if profile.sha256 and digest != profile.sha256:
        raise BadDocument(f"it has changed: its sha256 is {digest}, and the operator's file says {profile.sha256}")
    if len(data) > LARGEST_DOCUMENT or weight.is_heavy(data):
        raise BadDocument(f"it is too large; {LARGEST_DOCUMENT:,} bytes are allowed")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadDocument("it is not JSON") from None
    if not isinstance(document, dict) or not str(document.get("openapi", "")).startswith("3."):
        raise BadDocument("it is no OpenAPI document of version 3")
    base = _base_of(profile, document)
    try:
        operations = list(islice(_operations(profile, _Document(document)), MOST_OPERATIONS + 1))
    except OverBudget:
        raise BadDocument(
            f"its schemas have more than {MOST_STEPS:,} parts, counted for each operation that refers to them; allow fewer in "
            "`operations` of the profile"
        ) from None
    if not operations:
        raise BadDocument("it has no operation that can be called, or the profile allows none of them")
    if len(operations) > MOST_OPERATIONS:
        raise BadDocument(
            f"it has more than {MOST_OPERATIONS} operations that can be called, and an agent is told of no more; allow fewer in "
            "`operations` of the profile"
        )
    origin = str(profile.url).rstrip("/")
    return Api(name, profile.spec, digest, origin, base, tuple(operations), profile.label, bool(profile.sha256))


def _base_of(profile: Profile, document: dict[str, Any]) -> str:
    """The path that the operations are below: that of the first server at the profile's origin."""
    servers = document.get("servers") or [{"url": "/"}]
    spec = parse(profile.spec)
    for server in servers if isinstance(servers, list) else ():
        url = server.get("url") if isinstance(server, dict) else None
        if not isinstance(url, str) or "{" in url:
            continue
        try:
            found = spec.join(url)
        except EgressRefused:
            continue
        is_of_spec = "://" not in url and not url.startswith("//")
        if (found.origin == profile.url.origin or is_of_spec) and not found.query:
            return found.path.rstrip("/")
    raise BadDocument(f"none of its servers is at {profile.origin}, the origin of the profile")


class _Document:
    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.is_old = str(data["openapi"]).startswith("3.0")
        self._budget = Budget(MOST_STEPS)

    def follow(self, value: Any) -> Any:
        """What a value refers to inside the document, if it refers to something. Raises _LeftOut."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(value, dict) or "$ref" not in value:
                return value
            value = self._at(value["$ref"])
        raise _LeftOut("references that go in circles")

    def _at(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise _LeftOut("a reference to another document")
        found: Any = self.data
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise _LeftOut(f"a reference to nothing: {cut(reference, 100)}")
            found = found[name]
        return found

    def schema(self, value: Any, defs: dict[str, Any]) -> Any:
        """A schema as JSON Schema, with what it refers to in `defs`. Raises _LeftOut and OverBudget."""
        self._budget.spend(1)
        self._budget.read(value)
        if isinstance(value, list):
            return [self.schema(one, defs) for one in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            reference = value["$ref"]
            name = reference.removeprefix(_SCHEMA) if isinstance(reference, str) else ""
            if not isinstance(reference, str) or not reference.startswith(_SCHEMA) or "/" in name or "%" in name:
                raise _LeftOut("a schema that refers to something else than components/schemas")
            if name not in defs:
                defs[name] = True  # it may refer to itself
                defs[name] = self.schema(self._at(reference), defs)
            return {"$ref": f"#/$defs/{name}"}
        found = {
            key: self._keyword(key, one, defs)
            for key, one in value.items()
            if key not in ("example", "xml", "discriminator")
        }
        return _without_nullable(found) if self.is_old else found

    def _keyword(self, key: str, value: Any, defs: dict[str, Any]) -> Any:
        if key in ("enum", "const", "default", "examples", "required"):
            self._budget.read(value)
            return value
        if key in ("properties", "patternProperties", "$defs", "definitions") and isinstance(value, dict):
            return {name: self.schema(one, defs) for name, one in value.items()}
        return self.schema(value, defs)


def _without_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """What 3.0 says in words of its own, as JSON Schema says it."""
    for name, bound in _NUMBERED.items():
        if isinstance(schema.get(name), bool):
            if schema.pop(name) and bound in schema:
                schema[name] = schema.pop(bound)
    if schema.pop("nullable", False) is True:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema


def _operations(profile: Profile, document: _Document) -> Iterator[Operation]:
    paths = document.data.get("paths")
    rows = [
        (path, method, item, item[method])
        for path, item in (paths.items() if isinstance(paths, dict) else ())
        if isinstance(path, str) and path.startswith("/") and isinstance(item, dict)
        for method in _METHODS
        if isinstance(item.get(method), dict)
    ]
    ids = Counter(id for row in rows if isinstance(id := row[3].get("operationId"), str))
    for path, method, item, operation in rows:
        id = operation.get("operationId")
        if not isinstance(id, str) or not _ID.fullmatch(id) or ids[id] > 1:
            continue
        effect = profile.effect_of(id, method.upper())
        if effect is None:
            continue
        try:
            yield _read(profile, document, id, method.upper(), path, item, operation, effect)
        except (_LeftOut, RecursionError):
            continue


def _read(
    profile: Profile, document: _Document, id: str, method: str, path: str, item: Any, operation: Any, effect: Effect
) -> Operation:
    if "servers" in item or "servers" in operation or "$ref" in item:
        raise _LeftOut("servers of its own")
    defs: dict[str, Any] = {}
    found: dict[tuple[str, str], tuple[Parameter, Any, bool]] = {}
    for one in [*_listed(item.get("parameters")), *_listed(operation.get("parameters"))]:
        row = document.follow(one)
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise _LeftOut("a parameter without a name")
        key = (row["name"], str(row.get("in")))
        if key[1] == "header" and row["name"].lower() in ("accept", "content-type", "authorization"):
            continue  # so the specification wants it
        parameter = _parameter(profile, row)
        schema = row.get("schema", True)
        found[key] = (
            parameter,
            document.schema(schema, defs),
            row.get("required") is True or parameter.place == "path",
        )
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        raise _LeftOut("two parameters of one name")
    placed = {name for name, place in found if place == "path"}
    if set(re.findall(r"\{([^{}]*)\}", path)) != placed:
        raise _LeftOut("a path whose parameters are not described")
    params = {
        "type": "object",
        "properties": {name: schema for (name, _), (_, schema, _) in found.items()},
        "required": [name for (name, _), (_, _, is_required) in found.items() if is_required],
        "additionalProperties": False,
    }
    kind, body, is_required = _body(document, operation.get("requestBody"), defs)
    properties = {"params": params} | ({"body": body} if kind else {})
    required = ["params"] * bool(params["required"]) + ["body"] * is_required
    whole = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if defs:
        whole["$defs"] = defs
    if find_mistake(whole) is not None:
        raise _LeftOut("a schema that cannot be checked")
    summary = clean_line(str(operation.get("summary") or operation.get("description") or ""))
    parameters = tuple(parameter for parameter, _, _ in found.values())
    return Operation(id, method, path, cut(summary, 200), parameters, whole, effect, kind)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list | None):
        raise _LeftOut("parameters that are no list")
    return value or []


def _parameter(profile: Profile, row: dict[str, Any]) -> Parameter:
    place = row.get("in")
    name = row["name"]
    if place not in ("path", "query", "header"):
        raise _LeftOut(f"a parameter in {place}")
    if "content" in row:
        raise _LeftOut("a parameter with a media type")
    usual = "form" if place == "query" else "simple"
    style = row.get("style", usual)
    if style not in (usual, "deepObject") or (style == "deepObject" and place != "query"):
        raise _LeftOut(f"a parameter of style {style}")
    if place == "header":
        taken = _OWN_HEADERS | ({profile.auth.header} if profile.auth is not None else set())
        if not _HEADER.fullmatch(name) or name.lower() in taken:
            raise _LeftOut("a header that is set by others")
    exploded = row.get("explode", style in ("form", "deepObject"))
    return Parameter(name, place, bool(exploded), style == "deepObject")


def _body(document: _Document, given: Any, defs: dict[str, Any]) -> tuple[Literal["", "json", "form"], Any, bool]:
    """What a body is written as, its schema, and whether there has to be one."""
    row = document.follow(given)
    if not isinstance(row, dict):
        return "", None, False
    is_required = row.get("required") is True
    content = row.get("content")
    for media, one in content.items() if isinstance(content, dict) else ():
        name = str(media).partition(";")[0].strip().lower()
        schema = one.get("schema", True) if isinstance(one, dict) else True
        if name == "application/json" or name.endswith("+json"):
            return "json", document.schema(schema, defs), is_required
        if name == "application/x-www-form-urlencoded":
            return "form", document.schema(schema, defs), is_required
    if is_required:
        raise _LeftOut("a body of another kind")
    return "", None, False


# -- what a model is told ----------------------------------------------------------------------------------------------


def tell(api: Api) -> list[str]:
    """The operations, a line for each."""
    return [_line(one) for one in api.operations]


def _line(operation: Operation) -> str:
    properties = operation.schema["properties"]
    params = properties["params"]
    named = [
        f"{name}{'' if name in params['required'] else '?'}: {_kind(schema)}"
        for name, schema in params["properties"].items()
    ]
    if operation.body:
        named.append(f"body{'' if 'body' in operation.schema['required'] else '?'}: {_kind(properties['body'])}")
    return cut(clean_line(f"{operation.id}({', '.join(named)}) {operation.summary}".strip()), LONGEST_LINE)


def _kind(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return "|".join(cut(str(one), 30) for one in schema["enum"][:8])
    if isinstance(schema.get("properties"), dict):
        return "{" + ", ".join(list(schema["properties"])[:12]) + "}"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    kind = schema.get("type", "any")
    return "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)


# -- a call ------------------------------------------------------------------------------------------------------------


class BadValue(Exception):
    """Why a value cannot be written where its parameter stands."""


def write_call(api: Api, operation: Operation, params: dict[str, Any], body: Any, *, has_body: bool) -> dict[str, Any]:
    """A call as the config of an http node. The values fit the schema. Raises BadValue."""
    path, headers, query = operation.path, {}, []
    for parameter in operation.parameters:
        if parameter.name not in params:
            continue
        value = params[parameter.name]
        if parameter.place == "path":
            path = path.replace("{" + parameter.name + "}", _segment(parameter, value))
        elif parameter.place == "header":
            text = _simple(parameter, value)
            if not text.isascii() or not text.isprintable():
                raise BadValue(f"{parameter.name} has characters that headers cannot have")
            headers[parameter.name] = text
        else:
            query += _query(parameter, value)
    config: dict[str, Any] = {"url": f"{api.origin}{api.base}{path}", "method": operation.method, "headers": headers}
    if query:
        config["url"] += "?" + "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in query)
    if has_body and operation.body:
        config[operation.body] = body
    if operation.body == "form" and has_body and not isinstance(body, dict):
        raise BadValue("a form is an object")
    return config | {"follow_redirects": False}


def _segment(parameter: Parameter, value: Any) -> str:
    text = _simple(parameter, value)
    if text in ("", ".", ".."):
        raise BadValue(f"{parameter.name} is a part of the path, and {text!r} would change which path it is")
    return quote(text, safe=",=")


def _simple(parameter: Parameter, value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_plain(parameter, one) for one in value)
    if isinstance(value, dict):
        mark = "=" if parameter.is_exploded else ","
        return ",".join(f"{name}{mark}{_plain(parameter, one)}" for name, one in value.items())
    return _plain(parameter, value)


def _query(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    name = parameter.name
    if value is None:
        return []
    if isinstance(value, dict):
        if parameter.is_deep:
            return [(f"{name}[{key}]", _plain(parameter, one)) for key, one in value.items()]
        if parameter.is_exploded:
            return [(key, _plain(parameter, one)) for key, one in value.items()]
    if isinstance(value, list) and parameter.is_exploded:
        return [(name, _plain(parameter, one)) for one in value]
    return [(name, _simple(parameter, value))]


def _plain(parameter: Parameter, value: Any) -> str:
    if isinstance(value, dict | list):
        raise BadValue(f"{parameter.name} is nested deeper than can be written there")
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
