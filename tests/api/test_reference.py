"""docs/reference/http.md is true: every request on it is sent, every answer compared, and no endpoint is left out."""

import asyncio
import re
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from perdure.api import Options
from tests.api.helpers import serving
from tests.documents import blocks
from tests.engine.helpers import DEADLINE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"
ANY = "…"


def examples():
    """(request, kind of answer, status, answer), in the order of the page."""
    fences = re.findall(r"^```(\w+)(?: (\d+))?\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(fences) % 2 == 0
    for (kind, _, request), (answer_kind, status, answer) in zip(fences[::2], fences[1::2], strict=True):
        assert kind == "http"
        assert status, answer
        yield request, answer_kind, int(status), answer


def fit(expected, found, names, path=""):
    """What is different, or nothing. `$name` is remembered the first time and compared from then on."""
    if expected == ANY:
        return ""
    if isinstance(expected, str) and expected.startswith("$"):
        names.setdefault(expected[1:], found)
        return "" if names[expected[1:]] == found else f"{path}: {found} is not {names[expected[1:]]}"
    if isinstance(expected, str) and ANY in expected and isinstance(found, str):
        pattern = ".*".join(map(re.escape, expected.split(ANY)))
        return "" if re.fullmatch(pattern, found) else f"{path}: {found!r} is not like {expected!r}"
    if isinstance(expected, dict) and isinstance(found, dict):
        wanted = expected.keys() - {ANY}
        if (ANY not in expected and found.keys() != wanted) or not wanted <= found.keys():
            return f"{path}: it has {sorted(found)}, not {sorted(wanted)}"
        return next((said for key in wanted if (said := fit(expected[key], found[key], names, f"{path}.{key}"))), "")
    if isinstance(expected, list) and isinstance(found, list):
        if expected and all(one == ANY for one in expected):
            return "" if found else f"{path}: it is empty"
        if ANY in expected:
            pairs = [next((one for one in found if not fit(want, one, dict(names))), None) for want in expected[:-1]]
            return f"{path}: {expected[:-1]} is not in it" if None in pairs else ""
        if len(expected) != len(found):
            return f"{path}: {len(found)} items, not {len(expected)}"
        return next((s for n, one in enumerate(expected) if (s := fit(one, found[n], names, f"{path}[{n}]"))), "")
    return "" if expected == found else f"{path}: {found!r} is not {expected!r}"


async def send(server, request, names, kept):
    head, _, body = request.partition("\n\n")
    line, *more = head.strip().split("\n")
    method, _, target = line.partition(" ")
    target = re.sub(r"\$(\w+)", lambda found: fill(names, found[1], target), target)
    headers = dict(one.split(": ", 1) for one in more)
    body = body.strip()
    if body == "$export":
        body = kept["export"]
    elif body:
        body = re.sub(r'"\$(\w+)"', lambda found: msgspec.json.encode(names[found[1]]).decode(), body)
    if body:
        headers.setdefault("Content-Type", "application/json")
    return method, target, await server.client.request(method, target, content=body.encode(), headers=headers)


def fill(names, name, target):
    value = names[name]
    return value if target.startswith("$") else quote(value, safe="")


@pytest.mark.slow
async def test_every_request_of_the_page_gives_the_answer_it_shows(tmp_path):
    names: dict[str, str] = {}
    kept: dict[str, str] = {}
    called: set[tuple[str, str]] = set()
    async with serving(tmp_path, options=Options(mcp=True)) as server:
        paths = server.app.state.document()["paths"]
        for request, kind, status, answer in examples():
            async with asyncio.timeout(DEADLINE):
                method, target, response = await attempt(server, request, kind, status, answer, names, kept)
            if target.endswith("/export"):
                kept["export"] = response.text
            called.add((method.lower(), _template(target.partition("?")[0], method.lower(), paths)))
    operations = {(method, path) for path, item in paths.items() for method in item}
    assert sorted(operations - called) == []


async def attempt(server, request, kind, status, answer, names, kept):
    """What a GET shows may take a moment to be so; everything else is sent once."""
    while True:
        method, target, response = await send(server, request, names, kept)
        learnt = dict(names)
        said = compare(response, kind, status, answer, learnt)
        if not said:
            names.update(learnt)
            return method, target, response
        listed = method == "GET" and response.status_code == status and kind == "json" and "items" in answer
        assert listed, f"{request}\n{said}\n{response.text[:2000]}"
        await asyncio.sleep(0.01)


def compare(response, kind, status, answer, names):
    if response.status_code != status:
        return f"{response.status_code}, not {status}"
    if kind != "json":
        return "" if answer.strip() in response.text else f"no {answer!r} in it"
    return fit(msgspec.json.decode(answer), response.json(), names)


def _template(target, method, paths):
    for path in sorted(paths, key=lambda one: one.count("{")):
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), target) and method in paths[path]:
            return path
    return target


def test_the_page_shows_requests_and_answers_in_turn():
    found = list(examples())
    assert len(found) > 60
    assert len(blocks(PAGE.read_text(encoding="utf-8"))) == 2 * len(found)
