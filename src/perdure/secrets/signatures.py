"""Signed webhooks, both ways, as Standard Webhooks has them: HMAC-SHA256 over `id.timestamp.body`.

A secret is `whsec_` and base64, or any text; several with spaces between them are accepted at once while one replaces
another, and every message sent is signed by each. It owns the headers and what a valid signature is. It must not know
what a message is about.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping, Sequence

from perdure.errors import PerdureError

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
TOLERANCE_SECONDS = 300.0
"""How far a message's time may be from this clock: two clocks differ, and a message takes time."""
LEAST_BYTES = 24
"""How long a secret must be: a shorter one can be guessed from one message."""

_PREFIX = "whsec_"
_ID = re.compile(r"[!-\-/-~]{1,200}")  # without a dot: the first one ends the id in what is signed
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_MOST_SIGNATURES = 10


class WeakSecret(PerdureError):
    """A secret cannot sign webhooks."""

    code = "weak_secret"
    status = 409


def read_keys(secret: str) -> tuple[bytes, ...]:
    """The keys in a secret, the newest first. Raises WeakSecret, which says nothing of the secret."""
    keys = []
    for word in secret.split():
        if word.startswith(_PREFIX):
            try:
                keys.append(base64.b64decode(word.removeprefix(_PREFIX), validate=True))
            except binascii.Error:
                raise WeakSecret(f"a secret that begins with {_PREFIX} must go on in base64") from None
        else:
            keys.append(word.encode())
    if not keys or any(len(key) < LEAST_BYTES for key in keys):
        raise WeakSecret(f"a secret that signs webhooks has at least {LEAST_BYTES} bytes; make one at random")
    return tuple(keys)


def sign(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers that go with a body."""
    signatures = " ".join(_signature(key, message_id, str(timestamp), body) for key in keys)
    return {ID: message_id, TIMESTAMP: str(timestamp), SIGNATURE: signatures}


def verify(keys: Sequence[bytes], headers: Mapping[str, str], body: bytes, now: float) -> str | None:
    """The id of a message that one of the keys signed lately; None for any other. Both answers take the same time."""
    message_id, timestamp = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    sane = _ID.fullmatch(message_id) is not None and _TIMESTAMP.fullmatch(timestamp) is not None
    given = headers.get(SIGNATURE, "").split()[:_MOST_SIGNATURES]
    good = False
    for key in keys:
        expected = _signature(key, message_id if sane else "", timestamp if sane else "", body).encode()
        for one in given:
            good |= hmac.compare_digest(expected, one.encode("latin-1", "replace"))
    recent = sane and abs(now - int(timestamp)) <= TOLERANCE_SECONDS
    return message_id if good and recent else None


def _signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}"
