"""What a provider says it was asked for is what events, ledger and service say was used, whatever goes wrong on the way.

`make accounting` makes 10,000 calls; here are CALLS=… of them, fewer.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest

from perdure import egress, llms
from perdure.egress.policy import Policy
from perdure.kernel import events as e
from perdure.llms.scripted.script import Asked, Rule, ScriptedUsage
from perdure.llms.scripted.scripted_server import ScriptedServer
from perdure.service import Service
from tests.egress.server import PLAIN
from tests.engine.helpers import ended, events, running, start, workflow
from tests.llms.helpers import KINDS, models_at

pytestmark = pytest.mark.slow

CALLS = int(os.environ.get("CALLS", "60"))
NODES = min(40, CALLS)
"""Of one run, side by side."""
PRICES = {"input": 1.0, "cached": 0.1, "written": 1.5, "output": 4.0}
NAMES = ("input", "cached", "output")


class Provider:
    """A script that fails by chance, and keeps what it said."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.settled: Counter[str] = Counter()
        """What it said of answers that are whole."""
        self.lost = 0
        """Requests whose answer did not come whole: nobody knows what they cost."""
        self.refused = 0

    def answer(self, asked: Asked) -> Rule:
        cached = self._random.randint(0, 40)
        usage = ScriptedUsage(
            input=cached + self._random.randint(1, 60), cached=cached, output=self._random.randint(1, 50)
        )
        match self._random.randint(0, 19):
            case 0 | 1 | 2:
                self.refused += 1
                return Rule(status=429, retry_after=0)
            case 3:
                self.lost += 1
                return Rule(status=500)
            case 4 | 5:
                self.lost += 1
                return Rule(
                    say="half", usage=usage, faults=(self._random.choice(("cut", "error_between", "bad_utf8")),)
                )
            case _:
                self.settled.update(calls=1, **{name: getattr(usage, name) for name in NAMES})
                faults = tuple(one for one in ("split", "crlf", "comments") if self._random.random() < 0.2)
                return Rule(say="done", usage=usage, faults=faults)  # type: ignore[arg-type]


@pytest.fixture
async def _outside():
    egress.configure(Policy(), ssl_context=PLAIN)
    yield
    await egress.close()
    egress.configure(None)
    llms.configure(None)


def asking(number: int) -> dict[str, Any]:
    first, second = random.Random(number).sample(sorted(KINDS), 2)
    config = {"model": first, "fallback": [second], "prompt": f"Question {number}", "params": {"max_output_tokens": 60}}
    retry = {"max_attempts": 20, "backoff_ms": 1}
    return {"id": f"n{number}", "type": "llm", "config": config, "retry": retry}


@pytest.mark.usefixtures("_outside")
async def test_provider_events_ledger_and_service_count_the_same(tmp_path):
    provider = Provider(CALLS)
    server = ScriptedServer(provider)  # type: ignore[arg-type]
    await server.start()
    llms.configure(models_at(server.port, PRICES))
    said: Counter[str] = Counter()
    by_run: Counter[str] = Counter()
    try:
        async with running(tmp_path, concurrency=NODES) as engine:
            service = Service.of_owner(engine)
            number = 0
            while provider.settled["calls"] + provider.lost + provider.refused < CALLS:
                run_id, number = f"r{number}", number + 1
                await start(engine, workflow(*(asking(number * NODES + one) for one in range(NODES))), run_id)
                state = await ended(engine, run_id)
                assert not state.money.reserved.calls
                for event in await events(engine.journal, run_id):
                    said.update(_of_event(event))
                found = await service.runs.usage(run_id)
                by_run.update(
                    {name: found["total"][name] for name in (*NAMES, "calls")}, unsettled=found["unsettled"]["calls"]
                )
            total = (await service.system.usage())["total"]
    finally:
        await server.close()
    sent = provider.settled["calls"] + provider.lost + provider.refused
    print(
        f"{sent} requests: {dict(provider.settled)}, {provider.lost} lost, {provider.refused} refused; {dict(by_run)}; {total}"
    )
    assert {name: by_run[name] for name in (*NAMES, "calls")} == {name: total[name] for name in (*NAMES, "calls")}
    assert by_run["unsettled"] == total["unsettled"]["calls"] == provider.lost
    assert by_run["calls"] - by_run["unsettled"] == provider.settled["calls"]
    assert {name: said[name] for name in (*NAMES, "calls")} == dict(provider.settled)


def _of_event(event: Any) -> dict[str, int]:
    """What a step settled."""
    if not isinstance(event, e.NodeCheckpointed) or event.usage is None:
        return {}
    return {name: getattr(event.usage, name) for name in (*NAMES, "calls")}
