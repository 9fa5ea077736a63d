"""The contents a coordinator has at hand: those of blobs and the verdicts of sandboxes, by tenant and key.

The cache is bounded by size and evicts the least recently used entry first. An entry that a message set aside still
needs stays until that message has been handled; otherwise two large values could evict each other for ever. The fact
that a blob is lost, or was stored, is kept only while a message waits for it: it may have changed by the next time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

LIMIT_BYTES = 64 * 1024 * 1024

Key = tuple[str, str]
"""(tenant, key): equal contents of two tenants are never shared (X31)."""


class Cache:
    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._found: OrderedDict[Key, tuple[Any, int]] = OrderedDict()
        self._passing: dict[Key, Any] = {}
        """Contents that are kept only while their key is pinned."""
        self._pins: Counter[Key] = Counter()
        self._views: dict[str, View] = {}
        self.bytes = 0

    def view(self, tenant: str) -> View:
        found = self._views.get(tenant)
        if found is None:
            found = self._views[tenant] = View(self, tenant)
        return found

    def add(self, key: Key, content: Any, size: int) -> None:
        self.drop(key)
        self._found[key] = (content, size)
        self.bytes += size
        self._shrink()

    def add_passing(self, key: Key, content: Any) -> None:
        if self._pins[key]:
            self._passing[key] = content

    def drop(self, key: Key) -> None:
        found = self._found.pop(key, None)
        if found is not None:
            self.bytes -= found[1]

    def pin(self, key: Key) -> None:
        self._pins[key] += 1

    def unpin(self, key: Key) -> None:
        self._pins[key] -= 1
        if self._pins[key] <= 0:
            del self._pins[key]
            self._passing.pop(key, None)
            self._shrink()

    def __contains__(self, key: Key) -> bool:
        return key in self._found or key in self._passing

    def get(self, key: Key) -> Any:
        if key in self._passing:
            return self._passing[key]
        content, _ = self._found[key]
        self._found.move_to_end(key)
        return content

    def _shrink(self) -> None:
        if self.bytes <= self._limit:
            return
        for key in [key for key in self._found if key not in self._pins]:
            self.drop(key)
            if self.bytes <= self._limit:
                return


class View(Mapping[str, Any]):
    """The contents at hand for one tenant."""

    __slots__ = ("_cache", "_tenant")

    def __init__(self, cache: Cache, tenant: str) -> None:
        self._cache = cache
        self._tenant = tenant

    def __getitem__(self, key: str) -> Any:
        return self._cache.get((self._tenant, key))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and (self._tenant, key) in self._cache

    def __iter__(self) -> Iterator[str]:
        return iter([key for tenant, key in [*self._cache._found, *self._cache._passing] if tenant == self._tenant])

    def __len__(self) -> int:
        return sum(1 for _ in self)
