"""Requests made from the OpenAPI document, valid and broken ones, against a real server: no 5xx, nothing but what is documented.

`python -m tests.api.schemathesis --cases 100000` is the long form; `make test` makes a thousand. Half of the ids are real, so that
requests reach further than to a 404.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from perdure.api import Options
from tests.api.helpers import Server, serving
from tests.engine.helpers import task, transform, until_true, workflow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
TIMEOUT = 20.0

QUICK = workflow(transform("a", {"x": 1}), transform("b", "{{ a.x }}", ["a"]), name="quick")
ASKING = workflow({"id": "ask", "type": "human", "config": {}}, name="asking")
PARKING = workflow(task("p", "fail", on_failure="park", retry={"max_attempts": 1}), name="parking")


async def furnish(server: Server) -> dict[str, list[str]]:
    """Real ids of every kind."""
    await server.ok("/workflows", QUICK)
    await server.ok("/workflows", {**QUICK, "description": "again"})
    await server.ok("/workflows/quick/aliases/live", {"version": 1}, method="PUT")
    ended = await server.start(QUICK)
    asking = await server.start(ASKING, wait=0)
    await server.start(PARKING, wait=0)

    async def look() -> Any:
        approvals = (await server.ok("/approvals"))["items"]
        letters = (await server.ok("/dead-letters"))["items"]
        return (approvals[0], letters[0]) if approvals and letters else None

    approval, letter = await until_true(look, "something waits for people")
    key = await server.ok("/keys", {"name": "ci", "roles": ["viewer"]})
    octets = {"Content-Type": "application/octet-stream"}
    blob = (await server.client.post("/api/v1/blobs", content=b"[1]", headers=octets)).json()
    return {
        "run_id": [ended["run_id"], asking["run_id"]],
        "ended": [ended["run_id"]],
        "node": ["a", "b", "ask"],
        "name": ["quick", "asking", "human"],
        "alias": ["live", "latest"],
        "approval_id": [approval["approval_id"]],
        "dead_letter_id": [letter["dead_letter_id"]],
        "key_id": [key["key_id"]],
        "hash": [blob["ref"]],
        "session_id": ["nobody"],
        "hook": ["A" * 22],
        "number": ["1"],
        "token": ["a" * 43],
        "workflow": ["quick", "quick@1", "quick@live"],
        "scope": ["tenant", "workflow:quick"],
        "key": ["nobody"],
    }


@contextmanager
def server_in_thread() -> Iterator[tuple[str, dict[str, list[str]]]]:
    """A server of its own, in this process; its address, and real ids."""
    found: list[Any] = []
    ready, stop = threading.Event(), threading.Event()

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with serving(Path(folder), real=True, options=Options(max_body_bytes=1_000_000)) as server:
                found.extend([server.url, await furnish(server)])
                ready.set()
                await asyncio.to_thread(stop.wait)

    def run() -> None:
        try:
            asyncio.run(main())
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="server")
    thread.start()
    try:
        assert ready.wait(60), "the server did not start"
        assert found, "the server did not start"
        yield found[0], found[1]
    finally:
        stop.set()
        thread.join(60)


def run_cases(cases: int, seed: int, *, say: Any = lambda text: None) -> Counter[str]:
    """How many answers there were, by status. Raises at the first that is wrong, with how to repeat it."""
    counted: Counter[str] = Counter()
    with server_in_thread() as (url, ids), requests.Session() as session:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what others import
            document = requests.get(f"{url}/openapi.json", timeout=TIMEOUT).json()
            del document["security"]  # this server lets everybody in; who may what is tested in test_access.py
            schema = schemathesis.openapi.from_dict(document)
            operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
        placed = {name for path in document["paths"] for name in re.findall(r"{(\w+)}", path)}
        assert placed <= ids.keys(), f"furnish() has no real {sorted(placed - ids.keys())}"
        each = 1 + cases * 10 // (18 * len(operations))  # of some operations nothing can be made wrong
        for number, operation in enumerate(operations):
            for mode in (POSITIVE, NEGATIVE):
                _try(operation, mode, each, seed + number, url, session, ids, counted)
            say(f"{operation.label}: {sum(counted.values())} cases")
    return counted


def _try(
    operation: Any,
    mode: Any,
    examples: int,
    seed: int,
    url: str,
    session: requests.Session,
    ids: dict[str, list[str]],
    counted: Counter[str],
) -> None:
    try:
        strategy = operation.as_strategy(generation_mode=mode)
    except Exception:  # nothing of it can be made wrong
        if mode is POSITIVE:
            raise
        return
    checks = CHECKS if mode is POSITIVE else [*CHECKS, negative_data_rejection]

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @hypothesis.given(case=strategy, real=st.booleans(), choice=st.integers(0, 1000))
    def attempt(case: Any, real: bool, choice: int) -> None:
        real = real or operation.path.endswith("/stream")  # that of a run which waits would not end
        if real:
            _make_real(case, ids, choice)
        response = case.call(base_url=url, session=session, timeout=TIMEOUT)
        counted[str(response.status_code)] += 1
        # Whatever is made of a text, it is a text again when it is sent; and a real id makes a wrong one right.
        keep = not real and case.media_type in (None, "application/json")
        chosen = checks if keep else CHECKS
        case.validate_response(response, checks=chosen)

    try:
        attempt()
    except hypothesis.errors.Unsatisfiable:
        return  # nothing of it can be made wrong


def _make_real(case: Any, ids: dict[str, list[str]], choice: int) -> None:
    for name in case.path_parameters or {}:
        known = ids["ended"] if case.operation.path.endswith("/stream") else ids[name]
        case.path_parameters[name] = known[choice % len(known)]
    if case.operation.path == "/api/v1/runs" and isinstance(case.body, dict):
        case.body.pop("definition", None)
        case.body["workflow"] = ids["workflow"][choice % 3]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun = time.monotonic()
    counted = run_cases(options.cases, options.seed, say=lambda text: print(text, flush=True))
    print(f"{sum(counted.values())} cases in {time.monotonic() - begun:.0f} s: {dict(sorted(counted.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
