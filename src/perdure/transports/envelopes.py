"""Envelopes: what makes a message believable to a receiver that does not trust its carrier (X29).

It owns signing and verifying. It must not know transports or what a message says: a message is bytes of a kind, of a
tenant. A signature is the text `<key id>:<tenant>:<HMAC-SHA256, hexadecimal>`, made over

    perdure/1/<kind>\\n<tenant>\\n<message>

with the tenant's key, which is HMAC-SHA256(key, "perdure/1/tenant/<tenant>"). The bytes are those on the wire, so that
nothing is parsed before it is verified, and no two writers can disagree about them. A message names its run, node,
attempt and generation itself; the kind keeps a task from passing as a result. A repeated message is fenced by its
attempt, so there is no nonce.

Rotation: every process signs with the first key of the ring and accepts all of them. Add the new key behind the old one
everywhere, then put it first everywhere, then take the old one away.
"""

from __future__ import annotations

import functools
import hmac
import re
from collections.abc import Mapping

from perdure.errors import PerdureError

SHORTEST_KEY = 32
_KEY_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_TENANT = re.compile(r"[^:\n]{1,255}\Z")


class EnvelopeRefused(PerdureError):
    """The message is unsigned, altered, or signed with a key that is not in the ring."""

    code = "envelope_refused"
    status = 403


class Keyring:
    """Keys by id: the first one signs, all of them verify."""

    def __init__(self, keys: Mapping[str, bytes], *, required: bool = True) -> None:
        """`required=False` lets unsigned messages pass, for as long as it takes to give every process a key."""
        problems = [f"key id {name!r} may hold letters, digits, '_', '-' and '.'" for name in keys if not _fits(name)]
        problems += [
            f"key {name!r} has {len(key)} bytes, expected at least {SHORTEST_KEY}"
            for name, key in keys.items()
            if len(key) < SHORTEST_KEY
        ]
        if problems or not keys:
            raise ValueError("; ".join(problems) or "a keyring needs at least one key")
        self._keys = dict(keys)
        self._signing = next(iter(keys))
        self._required = required
        self._tenant_key = functools.lru_cache(maxsize=10_000)(self._derive)

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"

    def sign(self, kind: str, tenant: str, message: bytes) -> str:
        if not _TENANT.match(tenant):
            raise ValueError(f"tenant {tenant!r} cannot be named in a signature")
        return f"{self._signing}:{tenant}:{self._mac(self._signing, kind, tenant, message)}"

    def verify(self, kind: str, message: bytes, signature: bytes) -> str | None:
        """The tenant the message belongs to, or None where an unsigned one may pass. Raises `EnvelopeRefused`."""
        if not signature:
            if self._required:
                raise EnvelopeRefused(f"an unsigned {kind} where only signed ones count")
            return None
        name, _, rest = signature.decode("utf-8", "replace").partition(":")
        tenant, _, mac = rest.rpartition(":")
        if name not in self._keys:
            raise EnvelopeRefused(f"a {kind} signed with a key that is not in the ring")
        # Compared as text: the same number written in another way is not the same signature.
        if not hmac.compare_digest(self._mac(name, kind, tenant, message).encode(), mac.encode()):
            raise EnvelopeRefused(f"a {kind} that was altered, or signed for something else")
        return tenant

    def _mac(self, name: str, kind: str, tenant: str, message: bytes) -> str:
        head = f"perdure/1/{kind}\n{tenant}\n".encode()
        return hmac.digest(self._tenant_key(name, tenant), head + message, "sha256").hex()

    def _derive(self, name: str, tenant: str) -> bytes:
        return hmac.digest(self._keys[name], f"perdure/1/tenant/{tenant}".encode(), "sha256")


def _fits(name: str) -> bool:
    return _KEY_ID.match(name) is not None
