"""What every node of every program does: nothing, or, when a record is asked for, one line in a file.

Standard library only: it runs in the environment of each peer, in whichever process the peer runs its steps.
"""

from __future__ import annotations

import asyncio
import os
import time

RECORD = os.environ.get("PEERS_RECORD", "")
PAUSE_SECONDS = float(os.environ.get("PEERS_PAUSE_SECONDS", "0"))
"""How long a recorded step takes: so that there is a middle to be killed in."""


def _note(run: str, node: str) -> None:
    descriptor = os.open(RECORD, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(
        descriptor, f"{run} {node} {time.time():.6f}\n".encode()
    )  # one write: lines of several processes stay whole
    os.close(descriptor)


def step(run: str, node: str) -> int:
    if RECORD:
        time.sleep(PAUSE_SECONDS)
        _note(run, node)
    return 1


async def astep(run: str, node: str) -> int:
    if RECORD:
        await asyncio.sleep(PAUSE_SECONDS)
        _note(run, node)
    return 1
