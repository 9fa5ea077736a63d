"""Outgoing calls: whether a connection is allowed, and to which address. The one home of that question.

`shared()` is the client of this process, with the policy of its settings; everything that calls another host on behalf
of a workflow goes through it. There is one client per event loop, made at the first call and closed by `close()`.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.egress.client import Client
    from perdure.egress.policy import Policy

_policy: Policy | None = None
_options: dict[str, Any] = {}
_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = weakref.WeakKeyDictionary()


def configure(policy: Policy | None, **options: Any) -> None:
    """Set the policy of the clients that `shared` makes from now on; None takes it from the settings. `options` are
    those of `Client`, for tests."""
    global _policy, _options  # where a process may connect to is a fact about the process
    if (policy, options) != (_policy, _options):
        _policy, _options = policy, options
        _clients.clear()


def get_policy() -> Policy:
    global _policy  # noqa: PLW0603
    if _policy is None:
        from perdure.egress.policy import Policy
        from perdure.settings import Settings

        _policy = Policy.parse(Settings.load().egress_allow)
    return _policy


def shared() -> Client:
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None:
        from perdure.egress.client import Client

        client = _clients[loop] = Client(get_policy(), **_options)
    return client


async def close() -> None:
    """Close the connections of this loop; the next call makes new ones."""
    client = _clients.pop(asyncio.get_running_loop(), None)
    if client is not None:
        await client.close()
