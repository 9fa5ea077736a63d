"""`python -m tests.access.child URL`: reads keys from standard input, a line each, and says for each who it is, or `refused`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from perdure.access import Authenticator, Unauthenticated
from perdure.clock import system
from perdure.deployment import open_journal
from tests.processes import die_with_parent


async def main(url: str) -> None:
    journal: Any = await open_journal(url, system, require_durable=False)
    authenticator = Authenticator(journal.archive, system, keys=True)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            principal = await authenticator.authenticate(f"Bearer {line.strip()}")
        except Unauthenticated:
            print("refused", flush=True)
        else:
            print(principal.name, flush=True)
    await journal.close()


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(main(sys.argv[1]))
