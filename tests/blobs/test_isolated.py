"""Large values and processes of their own: they go through the pipe as they are, and are blobs on the other side."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine import tasks
from tests.engine.helpers import finish, output_of, running, workflow
from tests.engine.test_blobs import AGAIN, BIG, big, content, journal_bytes, ref_to

pytestmark = pytest.mark.slow

ISOLATED: Any = {"isolation": "process"}


@pytest.fixture(autouse=True)
def _fresh():
    tasks.reset()


async def test_an_isolated_process_takes_and_gives_large_values(tmp_path):
    definition = workflow(
        big("a", **ISOLATED),
        big("b", "measure", ["a"], args={"value": "{{ a }}"}, **ISOLATED),
        big("c", "measure_inputs", ["a"], **ISOLATED),
        big("d", "measure_inputs_in_thread", ["a"], **ISOLATED),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.find("a").output_ref == ref_to(content())
        assert output_of(state, "b")["length"] == BIG
        assert output_of(state, "c") == output_of(state, "d") == {"a": BIG}


async def test_a_large_checkpoint_of_an_isolated_process_is_there_for_the_next_attempt(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(big("a", "checkpoint", **ISOLATED, **AGAIN)))
        assert output_of(state, "a") == {"length": BIG, "last": True}
        assert await journal_bytes(engine) < 6000


async def test_a_blob_that_is_gone_fails_the_attempt_in_an_isolated_process_too(tmp_path):
    definition = workflow(
        big("a"), big("b", "measure", ["a"], args={"value": "{{ a }}"}, when="true", **ISOLATED), on_failure=None
    )
    del definition["on_failure"]
    async with running(tmp_path) as engine:
        real = engine.worker._execution._filling._blobs.get

        async def gone(tenant, ref):
            await engine.blobs.discard("default", (await engine.blobs.list_blobs("default"))[0].key)
            await engine.blobs.delete_discarded("default", _key(ref), 10**12)
            return await real(tenant, ref)

        engine.blobs.get = gone
        state = await finish(engine, definition)
        assert (state.state.value, state.error.code) == ("failed", "blob_missing")


def _key(ref: str) -> str:
    from perdure.blobs import key_of

    return key_of("default", ref)
