"""Programs that use a Perdure server: `Client` and `AsyncClient`, from one description of every operation.

    errors        what a call can raise
    views         what answers look like
    operations    one operation as data, and how a noun offers it, blocking and awaited
    conversation  the requests behind a call: tries, pauses, answers; it touches no socket
    streams       server-sent events, resumed after a cut; it touches no socket either
    sockets       the network, once blocking and once on an event loop
    runs, …       the operations, noun by noun
    clients       the two classes

It must not know the engine, a database or the command line: a program that only uses a server needs none of them.
"""

from __future__ import annotations

from perdure.client.clients import AsyncClient, Client
from perdure.client.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    RateLimited,
    ServerBroken,
    Unauthenticated,
    Unavailable,
    Unreachable,
)

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "Conflict",
    "Forbidden",
    "Invalid",
    "NotFound",
    "RateLimited",
    "ServerBroken",
    "Unauthenticated",
    "Unavailable",
    "Unreachable",
]
