"""Answers that are used again where exactly the same is asked: by name, in the blob store, for a while.

The name holds the tenant, the workflow, the node, the provider with its address, the model and the request, so nobody is answered with
what another one was told. What is kept is the answer of the first model of a node that ended by itself and fits. It may vanish at any time.
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import msgspec

from perdure.clock import system
from perdure.llms.calls import shape
from perdure.llms.operator_file import Found
from perdure.llms.port import Request, Usage, hash_of

LARGEST = 256 * 1024
"""The most bytes of an answer that is kept."""
NOTHING: dict[str, Any] = msgspec.to_builtins(Usage())


class Shelf(Protocol):
    """Where answers are kept, of one tenant."""

    async def recall(self, name: str) -> tuple[bytes, float] | None: ...

    async def remember(self, name: str, data: bytes) -> None: ...


class ExactCache:
    def __init__(self, shelf: Shelf, place: str, ttl_seconds: float) -> None:
        """`place`: the workflow and the node."""
        self._shelf = shelf
        self._place = place
        self._ttl = ttl_seconds

    def _name(self, found: Found, request: Request) -> str:
        row = found.row
        shaped = shape(request, row.model, row.schema, row.provider, row.tools)
        parts = [self._place, row.provider, found.provider.base_url, row.model, hash_of(shaped)]
        return f"answer:{hashlib.sha256(msgspec.json.encode(parts)).hexdigest()}"

    async def find(self, found: Found, request: Request) -> dict[str, Any] | None:
        """What is kept of an answer to this request, as the step of one that cost nothing."""
        kept = await self._shelf.recall(self._name(found, request))
        if kept is None or system.now() - kept[1] >= self._ttl:
            return None
        try:
            answer: dict[str, Any] = msgspec.json.decode(kept[0], type=dict[str, Any])
        except msgspec.DecodeError:  # what cannot be read is not there
            return None
        return {**answer, "usage": NOTHING, "ms": 0, "ttft_ms": 0, "tries": 0, "cached": True}

    async def keep(self, found: Found, request: Request, answer: dict[str, Any]) -> None:
        """Keep an answer, if it is one of this model that may be used again."""
        if answer.get("cached") or answer["alias"] != found.name or answer["finish"] != "stop":
            return
        data = msgspec.json.encode(answer)
        if len(data) <= LARGEST:
            await self._shelf.remember(self._name(found, request), data)
