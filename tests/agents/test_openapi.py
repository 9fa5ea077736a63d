"""`openapi_action`: a document of a stranger, and calls that go to the origin of the operator's profile and nowhere else."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest

from perdure import egress, llms
from perdure.agents.openapi_document import BadDocument, read_document
from perdure.agents.openapi_tool import bind_openapi, find_misuse_of_api, offer, read_openapi
from perdure.agents.transcript import read_turns
from perdure.egress.policy import Policy
from perdure.llms.operator_file import read_models
from perdure.llms.port import Result
from perdure.llms.profile_rows import Auth, Profile
from perdure.llms.scripted.scripted_model import ScriptedModel
from tests.agents.desk import DeskContext, fails, work
from tests.attack.marks import attack
from tests.attack.watchdog import taking_at_most
from tests.egress.server import PLAIN, Server, reply

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def parameter(name: str, place: str = "query", schema: Any = STRING, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema, **more}


def document(**more: Any) -> dict[str, Any]:
    city = {"$ref": "#/components/parameters/City"}
    return {
        "openapi": "3.0.3",
        "servers": [{"url": "https://elsewhere.example"}, {"url": "/v1"}],
        "paths": {
            "/weather": {
                "get": {
                    "operationId": "getCurrentWeather",
                    "summary": "The weather\x1b of a city",
                    "parameters": [city],
                },
                "post": {
                    "operationId": "report",
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Report"}}},
                    },
                },
            },
            "/cities/{id}": {
                "parameters": [parameter("id", "path", required=True)],
                "get": {
                    "operationId": "getCity",
                    "parameters": [parameter("tags", schema={"type": "array", "items": STRING})],
                },
                "delete": {"operationId": "removeCity"},
            },
        },
        "components": {
            "parameters": {"City": parameter("city", required=True)},
            "schemas": {
                "Report": {
                    "type": "object",
                    "required": ["text"],
                    "properties": {
                        "text": STRING,
                        "stars": {**INTEGER, "nullable": True},
                        "answers": {"$ref": "#/components/schemas/Report"},
                    },
                    "additionalProperties": False,
                }
            },
        },
        **more,
    }


class Service:
    """An API with its document."""

    def __init__(self, content: Any = None) -> None:
        self.content = json.dumps(document() if content is None else content).encode()
        self.answer: Any = lambda seen: reply(200, b'{"celsius": 21}', content_type="application/json")
        self.server = Server(self._answer)

    def _answer(self, seen: Any) -> bytes:
        if seen.target == "/openapi.json":
            return reply(200, self.content, content_type="application/json")
        return self.answer(seen)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    @property
    def calls(self) -> list[Any]:
        return [seen for seen in self.server.seen if seen.target != "/openapi.json"]

    def profile(self, **more: Any) -> Profile:
        more.setdefault("sha256", hashlib.sha256(self.content).hexdigest())
        return Profile(origin=self.origin, spec=f"{self.origin}/openapi.json", **more)


@pytest.fixture
async def service():
    egress.configure(Policy(), ssl_context=PLAIN)  # nothing but what a profile opens
    found = Service()
    await found.server.start()
    yield found
    await found.server.close()
    await egress.close()
    egress.configure(None)
    llms.configure(None)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setattr(DeskContext, "reveal_secret", lambda self, name: f"the {name}", raising=False)


AGENT: dict[str, Any] = {
    "model": "scripted",
    "prompt": "Do it.",
    "tools": [{"openapi_action": {"profiles": ["weather"]}}],
}


def action(**arguments: Any) -> dict[str, Any]:
    return {"name": "openapi_action", "arguments": arguments}


def asking(profile: Profile, *turns: list[dict[str, Any]], **more: Profile) -> ScriptedModel:
    rules: list[dict[str, Any]] = [{"when": {"turn": number}, "calls": calls} for number, calls in enumerate(turns, 1)]
    model = ScriptedModel([*rules, {"say": "done"}])
    model.models = msgspec.structs.replace(model.models, profiles={"weather": profile, **more})
    return model


def told_in(request: Any) -> list[str]:
    return [part.text for part in request.messages[-1].parts if isinstance(part, Result)]


async def test_the_call_of_the_reference_documents_reaches_the_service_with_its_key(service):
    profile = service.profile(auth=Auth(type="bearer", secret="WEATHER_KEY"))
    call = action(
        openapi_url=profile.spec, operation_id="getCurrentWeather", params={"city": "New York"}, auth_profile="weather"
    )
    with asking(profile, [call]) as model:
        _, journal = await work(AGENT)
    [seen] = service.calls
    assert (seen.method, seen.target, seen.headers["authorization"]) == (
        "GET",
        "/v1/weather?city=New%20York",
        "Bearer the WEATHER_KEY",
    )
    assert told_in(model.seen[1]) == ['{"status":200,"body":{"celsius":21}}']
    told = model.seen[0].prefix.tools[0].description
    assert "- getCurrentWeather(city: string) The weather\\x1b of a city" in told
    assert "- report(body: Report)" in told
    assert "removeCity(id: string)" in told
    assert str(read_turns(journal.steps)[0].label) == "user,public"  # a person vouches for the document
    assert str(read_turns(journal.steps)[1].label) == "untrusted,private"
    assert "the WEATHER_KEY" not in json.dumps(journal.steps)


async def test_a_document_that_nobody_vouches_for_makes_the_transcript_untrusted_from_the_beginning(service):
    with asking(service.profile(sha256="")) as model:
        _, journal = await work(AGENT)
    assert str(read_turns(journal.steps)[0].label) == "untrusted,public"
    assert journal.steps["prefix"]["told_by"] == ["document of weather"]
    assert len(model.seen) == 1


async def test_a_call_that_changes_something_is_asked_about_once_strangers_were_read_and_happens_once(service):
    asked = []

    def approve(ask: dict[str, Any]) -> Any:
        asked.append(ask["shown"])
        return {"decision": "approve", "decided_by": "ann", "comments": "", "data": None}

    first = action(api="weather", operation_id="getCity", params={"id": "a/b", "tags": ["x", "y z"]})
    second = action(api="weather", operation_id="report", body={"text": "hot", "stars": None})
    with asking(service.profile(), [first], [second]):
        await work(AGENT, approve)
    get, post = service.calls
    assert get.target == "/v1/cities/a%2Fb?tags=x&tags=y%20z"
    assert (post.method, json.loads(post.body)) == ("POST", {"text": "hot", "stars": None})
    assert post.headers["idempotency-key"].startswith("r1/agent/do/t2.0/")
    assert [(one["tool"], one["effect"]) for one in asked] == [("openapi_action", "send")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"operation_id": "getCity"}, "one of api and openapi_url"),
        ({"api": "weather", "openapi_url": "x", "operation_id": "getCity"}, "one of api and openapi_url"),
        (
            {"openapi_url": "https://evil.example/openapi.json", "operation_id": "getCity"},
            "no API of this agent is meant",
        ),
        ({"api": "other", "operation_id": "getCity"}, "do not fit"),
        ({"api": "weather", "operation_id": "getCitty"}, "did you mean 'getCity'?"),
        ({"api": "weather", "operation_id": "getCurrentWeather"}, '"params" is a required property'),
        ({"api": "weather", "operation_id": "getCurrentWeather", "params": {}}, '"city" is a required property'),
        ({"api": "weather", "operation_id": "getCurrentWeather", "params": {"city": 7}}, "is not of type"),
        ({"api": "weather", "operation_id": "getCurrentWeather", "params": {"city": "x", "evil": 1}}, "evil"),
        ({"api": "weather", "operation_id": "getCurrentWeather", "params": {"city": "x"}, "body": {}}, "body"),
        ({"api": "weather", "operation_id": "getCity", "params": {"id": ".."}}, "part of the path"),
        ({"api": "weather", "operation_id": "getCity", "params": {"id": ""}}, "part of the path"),
        ({"api": "weather", "operation_id": "report"}, '"body" is a required property'),
        ({"api": "weather", "operation_id": "report", "body": {"text": 1}}, "is not of type"),
        ({"api": "weather", "operation_id": "report", "body": {"text": "", "answers": {"stars": "x"}}}, "answers"),
    ],
)
async def test_a_call_that_does_not_fit_is_told_and_not_made(service, arguments, words):
    with asking(service.profile(), [action(**arguments)]) as model:
        await work(AGENT)
    assert service.calls == []
    assert words in told_in(model.seen[1])[0]


async def test_a_redirect_is_an_answer_and_the_key_follows_none(service):
    thief = Server(lambda seen: reply(200, b"mine"))
    await thief.start()
    service.answer = lambda seen: reply(302, b"", location=f"http://127.0.0.1:{thief.port}/")
    profile = service.profile(auth=Auth(type="header", name="X-Key", secret="K"))
    with asking(profile, [action(api="weather", operation_id="getCity", params={"id": "1"})]) as model:
        await work(AGENT)
    await thief.close()
    assert (thief.seen, service.calls[0].headers["x-key"]) == ([], "the K")
    assert json.loads(told_in(model.seen[1])[0])["status"] == 302


async def test_a_large_answer_is_a_handle_with_its_status(service):
    rows = [{"city": f"city {number}", "celsius": number} for number in range(200)]
    service.answer = lambda seen: reply(200, json.dumps(rows).encode(), content_type="application/json")
    calls = [action(api="weather", operation_id="getCity", params={"id": "1"})]
    part = [{"name": "read_handle", "arguments": {"handle": "h1.0", "path": "199"}}]
    with asking(service.profile(), calls, part) as model:
        await work(AGENT)
    shown = json.loads(told_in(model.seen[1])[0])
    assert (shown["status"], shown["handle"], shown["rows"]) == (200, "h1.0", 200)
    assert json.loads(told_in(model.seen[2])[0]) == {"city": "city 199", "celsius": 199}


async def test_a_document_that_has_changed_stops_the_agent_before_a_model_is_asked(service):
    with asking(service.profile(sha256="0" * 64)) as model:
        error, _ = await fails("openapi:bad_document", AGENT)
    assert ("it has changed" in error.message, model.seen) == (True, [])


async def test_an_agent_goes_on_with_the_document_that_it_began_with(service):
    """A second attempt fetches nothing: what the prefix has is what is used."""
    call = action(api="weather", operation_id="getCity", params={"id": "1"})
    with asking(service.profile(sha256=""), [call]):
        _, journal = await work(AGENT)
        service.content = b"{}"
        journal.steps = {"prefix": journal.steps["prefix"]}
        await work(AGENT, None, journal)
    assert sum(seen.target == "/openapi.json" for seen in service.server.seen) == 1


async def test_a_profile_of_another_tenant_is_none(service):
    with asking(service.profile(tenants=("other",))):
        await fails("openapi:unknown_profile", AGENT)


def test_the_operators_file_is_held_to_what_profiles_are():
    problems: list[str] = []
    rows = {
        "a": {"origin": "https://a.example/v1", "spec": "ftp://a.example", "sha256": "xyz"},
        "b": {
            "origin": "http://b.example",
            "spec": "https://b.example",
            "auth": {"type": "bearer", "secret": "sk-123 456"},
        },
        "c": {"origin": "https://c.example", "spec": "https://c.example", "operations": {"*": "everything"}},
        "d": {
            "origin": "https://d.example",
            "spec": "https://d.example",
            "returns": "holy",
            "auth": {"type": "header", "secret": "K"},
        },
    }
    read_models({"profiles": rows}, problems)
    told = "\n".join(problems)
    for words in (
        "without a path",
        "must begin with http",
        "64 digits",
        "travel in the open",
        "never the key itself",
        "everything",
        "'holy' is no label",
        "auth.name",
    ):
        assert words in told, words
    assert "sk-123" not in told


def test_the_key_of_a_profile_is_no_secret_of_workflows():
    rows = {
        "w": {
            "origin": "https://w.example",
            "spec": "https://w.example/d",
            "auth": {"type": "bearer", "secret": "W_KEY"},
        }
    }
    assert read_models({"profiles": rows}, []).find_owner_of("W_KEY") == "the profile w"


PROFILE = Profile(origin="https://api.example", spec="https://api.example/openapi.json")


def read(**more: Any) -> Any:
    return read_document("weather", PROFILE, json.dumps(document(**more)).encode())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"openapi: 3.0.0", "it is not JSON"),
        (b'{"swagger": "2.0"}', "no OpenAPI document of version 3"),
        (b"[" * 100_000, "it is"),
        (
            json.dumps(document(servers=[{"url": "https://evil.example"}])).encode(),
            "none of its servers is at https://api.example",
        ),
        (json.dumps(document(paths={})).encode(), "no operation that can be called"),
        (json.dumps(document(paths=[])).encode(), "no operation that can be called"),
        (b" " * 2_100_000, "too large"),
    ],
)
def test_a_document_of_no_use_is_refused_with_the_reason(data, words):
    with pytest.raises(BadDocument, match=words):
        read_document("weather", PROFILE, data)


@pytest.mark.parametrize(
    "operation",
    [
        {"parameters": [parameter("x", "cookie")]},
        {"parameters": [parameter("Authorization", "header"), parameter("Host", "header")]},
        {"parameters": [parameter("x", schema={"$ref": "https://evil.example/s.json"})]},
        {"parameters": [{"$ref": "other.json#/x"}]},
        {"parameters": [parameter("x", schema={"$ref": "#/components/schemas/None"})]},
        {"parameters": [parameter("x", schema={"type": "nothing"})]},
        {"parameters": [parameter("x", style="pipeDelimited")]},
        {"parameters": [parameter("x"), parameter("x", "header")]},
        {"servers": [{"url": "https://evil.example"}]},
        {"requestBody": {"required": True, "content": {"multipart/form-data": {}}}},
        {"parameters": 5},
        {"operationId": "report"},
        {"operationId": "a b"},
        {"operationId": 7},
    ],
)
def test_what_is_not_understood_of_a_document_is_left_out(operation):
    paths = {**document()["paths"], "/odd": {"get": {"operationId": "odd", **operation}}}
    assert {one.id for one in read(paths=paths).operations} <= {"getCurrentWeather", "report", "getCity", "removeCity"}


def many(operations, properties):
    schema = {"type": "object", "properties": {f"a{number}": STRING for number in range(properties)}}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Large"}}}}
    paths = {f"/p{n}": {"post": {"operationId": f"o{n}", "requestBody": body}} for n in range(operations)}
    return {"openapi": "3.1.0", "paths": paths, "components": {"schemas": {"Large": schema}}}


@attack("S03", "an OpenAPI document whose operations all refer to the same large schema")
@pytest.mark.slow
@pytest.mark.parametrize("operations", [200, 5_000, 9_000])
def test_what_a_document_refers_to_is_counted_as_often_as_it_is(operations):
    """Two megabytes took a thread of the worker for minutes, and more memory than it has."""
    with taking_at_most(4), pytest.raises(BadDocument, match="counted for each operation"):
        read_document("weather", PROFILE, json.dumps(many(operations, 20_000)).encode())


@attack("S03", "an OpenAPI document of many operations")
@pytest.mark.slow
def test_no_more_operations_are_read_than_an_agent_is_told_of():
    with taking_at_most(1), pytest.raises(BadDocument, match="more than 200 operations"):
        read_document("weather", PROFILE, json.dumps(many(12_000, 1)).encode())


def test_the_operator_says_which_operations_there_are_and_what_they_do():
    profile = msgspec.structs.replace(PROFILE, operations={"get*": "read", "report": "write"})
    api = read_document("weather", profile, json.dumps(document()).encode())
    assert {one.id: one.effect for one in api.operations} == {
        "getCurrentWeather": "read",
        "report": "write",
        "getCity": "read",
    }


def test_what_a_call_may_do_is_what_its_operation_does():
    tool = offer(read_openapi(("weather",), "tainted"), {"weather": read()})
    assert (tool.effect, str(tool.returns)) == ("send", "untrusted,private")  # nobody here knows the profile
    for name, effect, is_once in (("getCity", "read", False), ("removeCity", "send", True)):
        arguments = {"api": "weather", "operation_id": name, "params": {"id": "1"}}
        assert find_misuse_of_api(tool, arguments) is None
        bound, _ = bind_openapi(tool, arguments)
        assert (bound.effect, bound.is_once) == (effect, is_once)
