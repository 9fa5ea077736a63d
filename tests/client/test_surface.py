"""The clients have everything the API has, and their types are those of its document."""

import ast
import inspect
import re
import ssl

import msgspec
import pytest

import perdure
from perdure.api.app import NOUNS
from perdure.client import (
    AsyncClient,
    Client,
    approvals,
    assets,
    audit,
    blobs,
    budgets,
    dead_letters,
    events,
    keys,
    run_lists,
    run_readings,
    runs,
    saved_views,
    sessions,
    system,
    tools,
    triggers,
    workflows,
)
from perdure.client.operations import AsyncNoun, Noun, listing, operation, streaming
from perdure.client.sockets import _checks
from tests.client import generate

SAMPLES = {
    "action": "cancel",
    "definition": {},
    "operations": [],
    "file": {},
    "data": b"",
    "roles": ["viewer"],
    "version": 1,
    "seq": 1,
}
NOT_FOR_PROGRAMS = ("/api/v1/links/", "/api/v1/hooks/", "/api/v1/session/", "/api/v1/ui/")
"""Pages for people, what other systems sign instead of showing a key, and the cookies of browsers."""


def described():
    """(noun, name, the function that describes the call)"""
    for module in (
        runs,
        run_lists,
        run_readings,
        workflows,
        approvals,
        dead_letters,
        assets,
        blobs,
        budgets,
        keys,
        saved_views,
        sessions,
        audit,
        tools,
        system,
        triggers,
        events,
    ):
        for noun in vars(module).values():
            if inspect.isclass(noun) and noun.__name__.endswith("Calls"):
                for name, found in vars(noun).items():
                    if isinstance(found, operation | listing | streaming):
                        yield noun.__name__, name, found


def sample(describe):
    """A call with something for each parameter that must be given."""
    needed = [
        name
        for name, parameter in list(inspect.signature(describe).parameters.items())[1:]
        if parameter.default is inspect.Parameter.empty
    ]
    return describe(None, *[SAMPLES.get(name, "approve" if name == "decision" else "x") for name in needed])


def endpoints():
    """(method, path) to the endpoint, of what programs use."""
    all_ = [endpoint for noun in NOUNS for endpoint in noun.endpoints if endpoint.path.startswith("/api/v1/")]
    known = [endpoint for endpoint in all_ if endpoint.method != "HEAD"]  # what a client asks for with `stat`
    by_name = {(endpoint.method, endpoint.template): endpoint for endpoint in known}
    return {name: one for name, one in by_name.items() if f"{name[1]}/".startswith(NOT_FOR_PROGRAMS) is False}


def reached(found):
    """The endpoint that an operation calls. `/dead-letters/requeue` also looks like `/dead-letters/{id}`: the fixed one is meant."""
    call = sample(found._describe)
    path = f"/api/v1{call.path}"
    fitting = [
        name
        for name in endpoints()
        if name[0] == call.method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", name[1]), path)
    ]
    assert fitting, f"{call.method} {path} is no operation of the API"
    return min(fitting, key=lambda one: one[1].count("{"))


def test_every_operation_of_the_api_is_an_operation_of_the_clients():
    with_a_name = {("PUT", "/api/v1/triggers/{name}")}  # what `triggers.apply` asks when it is given a name
    assert endpoints().keys() - {reached(found) for _, _, found in described()} == with_a_name


OTHERWISE = {
    "as": "as_",
    "with": "with_",
    "open": "opened",
    "object": "object_",
    "patch": "operations",
    "versions": "version",
    "input": "config",
    "description": "reason",
}
"""What a parameter is called in Python, where the API has another word or two."""


@pytest.mark.parametrize(("noun", "name", "found"), list(described()), ids=lambda value: str(value)[:30])
def test_whatever_the_api_takes_can_be_given(noun, name, found):
    endpoint = endpoints()[reached(found)]
    fields = [
        field.encode_name
        for kind in (endpoint.query, endpoint.body)
        if kind is not None
        for field in msgspec.structs.fields(kind)
    ]
    taken = set(inspect.signature(found._describe).parameters)
    missing = {OTHERWISE.get(field, field) for field in fields} - taken
    if endpoint.template.endswith("/state"):
        missing -= {"at"}  # it is `seq` there
    if endpoint.template.endswith(("/decide", "/delegate")) and "by" in taken:
        missing -= {"approver"}  # it is `by` there, as wherever Python or the command line name who does something
    if name.startswith("preview"):
        missing -= {"dry_run", "reason"}  # it always is a dry run, and needs no reason
    elif endpoint.template.endswith(("/cancel", "/retry", "/rerun", "/rollback", "/discard")):
        missing -= {"dry_run"}  # another operation of the client, `preview`, because its answer is another one
    if endpoint.template.endswith("/stream"):
        missing -= {"cursor"}
    if endpoint.template.endswith("/backfill"):
        missing -= {"opened"}  # it is `open_` there
    if endpoint.template.endswith("/guards"):
        missing -= {"run"}  # it is `run_id` there, as of all operations on runs
    if endpoint.template.endswith("/firings"):
        missing -= {"from", "to"}  # `since` and `until`, as everywhere in Python
    assert missing == set()


@pytest.mark.parametrize(("noun", "name", "found"), list(described()), ids=lambda value: str(value)[:30])
def test_every_operation_says_what_it_does(noun, name, found):
    assert found.__doc__ or name == "get"
    assert inspect.signature(found._describe).return_annotation.startswith("Call[")


def test_both_clients_offer_the_same():
    def offered(client, kind):
        with_nouns = {name: getattr(client, name) for name in dir(client) if not name.startswith("_")}
        return {
            name: {one for one in dir(noun) if not one.startswith("_")}
            for name, noun in with_nouns.items()
            if isinstance(noun, kind)
        }

    with Client("http://127.0.0.1:1") as client:
        there = offered(client, Noun)
        assert str(inspect.signature(client.runs.get)).startswith("(run_id: 'str', *, outputs: 'bool' = True,")
        assert client.runs.get.__doc__
    assert there == offered(AsyncClient("http://127.0.0.1:1"), AsyncNoun)
    assert set(there) == {
        "runs",
        "workflows",
        "approvals",
        "dead_letters",
        "triggers",
        "events",
        "assets",
        "blobs",
        "budgets",
        "system",
        "keys",
        "saved_views",
        "tools",
        "agent_sessions",
        "sessions",
        "audit",
    }
    assert perdure.Client is Client
    assert perdure.AsyncClient is AsyncClient


def _defined(tree):
    return {
        getattr(node, "name", "") or ast.unparse(node)[:60]: ast.dump(node) for node in tree.body if not _imports(node)
    }


def _imports(node):
    return isinstance(node, ast.Import | ast.ImportFrom)


def _exported(tree):
    """The names a module takes from others, and its list of all names."""
    taken = {name.name for node in tree.body if _imports(node) for name in node.names}
    return taken, [ast.dump(node) for node in tree.body if isinstance(node, ast.Assign)]


@pytest.mark.slow
def test_the_types_of_answers_are_those_of_the_server():
    again = "run: python -m tests.client.generate"
    written = {path.name: ast.parse(path.read_text()) for path in generate.VIEWS.glob("*.py")}
    made = {name: ast.parse(text) for name, text in generate.generate().items()}
    assert sorted(written) == sorted(made), again
    for name, tree in made.items():
        expected, found = _defined(tree), _defined(written[name])
        assert [one for one in expected.keys() | found.keys() if expected.get(one) != found.get(one)] == [], again
    assert _exported(made["__init__.py"]) == _exported(written["__init__.py"]), again


@pytest.mark.slow
def test_a_client_needs_neither_engine_nor_server():
    import subprocess
    import sys

    code = (
        "import sys, perdure; perdure.Client('http://x'); print([m for m in sys.modules if m.startswith('perdure.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))
    assert {name.split(".")[1] for name in loaded} == {
        "capacity",
        "client",
        "clock",
        "errors",
        "plain",
        "settings",
        "spelling",
        "tempo",
    }


def test_authorities_are_read_where_something_is_encrypted_and_nobody_is_trusted_elsewhere():
    assert _checks("https://perdure.example", True) is True
    nobody = _checks("http://127.0.0.1:1", True)
    assert isinstance(nobody, ssl.SSLContext)
    assert (nobody.verify_mode, nobody.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert nobody.get_ca_certs() == []
