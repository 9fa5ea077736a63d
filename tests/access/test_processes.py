"""Keys over two processes that share a database: made in one, they work in the other; revoked in one, they stop within a second."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from perdure.access import Authenticator, Unauthenticated
from perdure.clock import system
from perdure.deployment import open_journal
from tests.access.test_keys import issue
from tests.forking import Forked
from tests.waiting import PATIENCE_SECONDS, until_true

ROOT = Path(__file__).parents[2]
SLACK_SECONDS = 60.0
"""How late a busy machine may let this test notice. The second itself is measured in test_authenticator.py, by a clock of its own."""


class Child:
    """Another process that authenticates."""

    def __init__(self, url: str) -> None:
        asked, self._asked = os.pipe()
        said, answers = os.pipe()
        self._said = os.fdopen(said)
        words = ["-m", "tests.access.child", url]
        self._process = Forked(words, cwd=ROOT, env=os.environ, python=True, stdin=asked, stdout=answers, stderr=2)
        os.close(asked)
        os.close(answers)

    @classmethod
    async def start(cls, url: str) -> "Child":
        child = cls(url)
        assert await child.read() == "ready"
        return child

    async def read(self) -> str:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await asyncio.to_thread(self._said.readline)).strip()

    async def ask(self, key: str) -> str:
        os.write(self._asked, key.encode() + b"\n")
        return await self.read()

    async def until(self, key: str, answer: str) -> float:
        """How long it takes until it gives this answer."""

        async def gives() -> bool:
            return await self.ask(key) == answer

        start = time.monotonic()
        await until_true(gives, f"the answer {answer}")
        return time.monotonic() - start

    async def end(self) -> None:
        os.close(self._asked)
        self._said.close()
        assert self._process.wait(PATIENCE_SECONDS) == 0


@pytest.fixture(params=["sqlite", "postgres"])
async def shared(request, tmp_path, postgres_servers):
    """The URL of a database, a journal on it here, and another process."""
    if request.param == "sqlite":
        url = f"sqlite:////{tmp_path}/perdure.db"
        journal: Any = await open_journal(url, system)
        child = await Child.start(url)
        yield journal.archive, child
        await child.end()
        await journal.close()
        return
    server = postgres_servers.get()
    async with server.database(8) as name:
        journal = await open_journal(server.url(name), system, require_durable=False)
        child = await Child.start(server.url(name))
        yield journal.archive, child
        await child.end()
        await journal.close()


@pytest.mark.slow
async def test_a_revoked_key_stops_within_a_second_in_the_other_process(shared):
    archive, child = shared
    issued = await issue(archive, system)
    assert await child.ask(issued.text) == "ci"
    for _ in range(100):
        assert await child.ask(issued.text) == "ci"  # well remembered
    await archive.revoke_key("acme", issued.key.key_id, system.now())
    assert await child.until(issued.text, "refused") < 1.0 + SLACK_SECONDS
    for _ in range(50):
        assert await child.ask(issued.text) == "refused"


@pytest.mark.slow
async def test_keys_are_rotated_without_a_moment_in_which_none_works(shared):
    archive, child = shared
    old = await issue(archive, system, name="ci")
    assert await child.ask(old.text) == "ci"
    new = await issue(archive, system, name="ci")
    assert await child.ask(new.text) == "ci"
    assert await child.ask(old.text) == "ci"
    await archive.revoke_key("acme", old.key.key_id, system.now())
    await child.until(old.text, "refused")
    assert await child.ask(new.text) == "ci"


@pytest.mark.slow
async def test_a_key_ends_by_itself_in_both_processes(shared):
    archive, child = shared
    here = Authenticator(archive, system, keys=True)
    ends = system.now() + 3.0
    issued = await issue(archive, system, expires_at=ends)
    assert (await here.authenticate(f"Bearer {issued.text}")).name == "ci"
    assert await child.ask(issued.text) == "ci"
    await child.until(issued.text, "refused")
    assert ends <= system.now() < ends + 1.0 + SLACK_SECONDS
    with pytest.raises(Unauthenticated):
        await here.authenticate(f"Bearer {issued.text}")


@pytest.mark.slow
async def test_the_use_in_the_other_process_is_seen_here(shared):
    archive, child = shared
    issued = await issue(archive, system)
    assert (await archive.find_key(issued.key.key_id)).last_used_at is None
    before = system.now()
    await child.ask(issued.text)
    assert before <= (await archive.find_key(issued.key.key_id)).last_used_at <= system.now()
