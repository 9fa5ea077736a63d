"""Outgoing calls: whether a connection is allowed, and to which address. The one home of that question.

`shared()` is the client of this process, with the policy of its settings; everything that calls another host on behalf
of a workflow goes through it. There is one client per event loop, made at the first call and closed by `close()`, and one
more for each host that the operator opened for one purpose alone (`also`).
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
_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Client]] = weakref.WeakKeyDictionary()


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


def shared(also: str = "") -> Client:
    """The client of this loop. `also` is what this one may call besides, written as the setting is: the operator named
    it for one purpose, such as the server of a language model, and no other caller may go there."""
    loop = asyncio.get_running_loop()
    clients = _clients.get(loop)
    if clients is None:
        clients = _clients[loop] = {}
    client = clients.get(also)
    if client is None:
        from perdure.egress.client import Client
        from perdure.egress.policy import Policy

        policy = get_policy()
        if also:
            policy = Policy((*policy.entries, *Policy.parse(also).entries), policy.ports)
        client = clients[also] = Client(policy, **_options)
    return client


async def close() -> None:
    """Close the connections of this loop; the next call makes new ones."""
    for client in _clients.pop(asyncio.get_running_loop(), {}).values():
        await client.close()
