"""Whether a delivery is genuine: the schemes by which senders of webhooks prove who they are.

Pure functions over headers, the raw body, the secrets and the time. Every answer about a body costs the same: secrets
are compared in constant time, each of them, whatever is wrong (X22). Nothing is parsed before it is known to be
genuine. Several secrets are good at once, while one replaces another.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from perdure.model.trigger_sources import Verify
from perdure.secrets import signatures
from perdure.secrets.signatures import TOLERANCE_SECONDS, WeakSecret

QUEUE = "webhooks"
"""The queue whose secrets webhooks may use."""
LEAST_BYTES = 16
"""How long a secret must be. Standard Webhooks has a rule of its own."""
Cause = Literal["missing", "signature", "old"]

_ID = re.compile(r"[!-~]{1,200}")
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_PLACE = re.compile(r"\{(body|timestamp|id)\}")
_MOST_SIGNATURES = 10
_MOST_SECRETS = 10


class Genuine(msgspec.Struct, frozen=True):
    id: str
    """What the sender calls the delivery; empty where the scheme has no id."""


class Unproven(msgspec.Struct, frozen=True):
    """A delivery that proves nothing. The cause is for metrics: senders are told nothing of it."""

    cause: Cause


class _Id(msgspec.Struct):
    """The parts of bodies that say what a delivery is called."""

    id: str = ""
    event_id: str = ""


def read_secrets(scheme: str, secret: str) -> tuple[str, ...]:
    """The secrets in one stored value, the newest first: one a line, and by Standard Webhooks one a word. Raises
    WeakSecret, which says nothing of them."""
    if scheme == "none":
        return ()
    if scheme == "standard":
        signatures.read_keys(secret)
        return tuple(secret.split())
    found = tuple(line.strip() for line in secret.splitlines() if line.strip())
    if not found or len(found) > _MOST_SECRETS or any(len(one.encode()) < LEAST_BYTES for one in found):
        raise WeakSecret(f"a secret of webhooks has at least {LEAST_BYTES} bytes; make one at random")
    return found


def verify(
    how: Verify, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> Genuine | Unproven:
    """Whether one of the secrets vouches for a delivery. Names of headers are in lower case. `secrets` are those of
    `read_secrets`; without any, only scheme `none` lets something pass."""
    return _SCHEMES[how.scheme](how, headers, body, secrets, now)


def _standard(
    how: Verify, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> Genuine | Unproven:
    keys = signatures.read_keys(" ".join(secrets)) if secrets else ()
    found = signatures.verify(keys, headers, body, now)
    if found is not None:
        return Genuine(found)
    stamp = headers.get(signatures.TIMESTAMP, "")
    # Asked again as of its own time, for every delivery that is refused, so that both kinds take equally long.
    then = float(stamp) if _TIMESTAMP.fullmatch(stamp) else now
    if signatures.verify(keys, headers, body, then) is not None:
        return Unproven("old")
    return Unproven("signature" if headers.get(signatures.SIGNATURE) else "missing")


def _github(
    how: Verify, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> Genuine | Unproven:
    refused = _judge(secrets, [headers.get("x-hub-signature-256", "")], body, "sha256=")
    return refused or Genuine(_sane(headers.get("x-github-delivery", "")))


def _stripe(
    how: Verify, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> Genuine | Unproven:
    pairs = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")[:20]]
    stamp = next((value for name, _, value in pairs if name == "t"), "")
    given = [value for name, _, value in pairs if name == "v1"]
    refused = _judge(secrets, given, stamp.encode("latin-1", "replace") + b"." + body, "", stamp, now)
    return refused or Genuine(_sane(_read_id(body).id))


def _slack(
    how: Verify, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> Genuine | Unproven:
    stamp = headers.get("x-slack-request-timestamp", "")
    signed = b"v0:" + stamp.encode("latin-1", "replace") + b":" + body
    refused = _judge(secrets, [headers.get("x-slack-signature", "")], signed, "v0=", stamp, now)
    # A command or a button has no id; Slack does not send it twice, so what is signed alike was seen on its way, and is sent again.
    return refused or Genuine(_sane(_read_id(body).event_id) or hashlib.sha256(signed).hexdigest())


def _hmac(
    how: Verify, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> Genuine | Unproven:
    stamp = headers.get(how.timestamp_header, "") if how.timestamp_header else None
    id = headers.get(how.id_header, "") if how.id_header else ""
    signed = b""
    for number, part in enumerate(_PLACE.split(how.signed)):
        if number % 2 == 0:
            signed += part.encode()
        else:
            signed += {"body": body, "timestamp": (stamp or "").encode("latin-1", "replace")}.get(
                part, id.encode("latin-1", "replace")
            )
    refused = _judge(secrets, [headers.get(how.header, "")], signed, how.prefix, stamp, now, how.encoding)
    if refused is None and how.id_header and (not _sane(id) or not _marks_of_id(how.signed).isdisjoint(id)):
        return Unproven("missing")
    return refused or Genuine(id)


def _marks_of_id(signed: str) -> set[str]:
    """The characters beside the id in what is signed. An id with one of them could be cut elsewhere: one signature would vouch
    for another id, another time and the rest of the body."""
    before, found, after = signed.partition("{id}")
    return set(_PLACE.split(before)[-1] + _PLACE.split(after)[0]) if found else set()


def _bearer(
    how: Verify, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> Genuine | Unproven:
    kind, _, given = headers.get("authorization", "").partition(" ")
    good = False
    for secret in secrets:
        good |= hmac.compare_digest(secret.encode(), given.strip().encode("utf-8", "replace"))
    if good and kind.lower() == "bearer":
        return Genuine("")
    return Unproven("signature" if given else "missing")


def _none(
    how: Verify, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> Genuine | Unproven:
    return Genuine("")


def _judge(
    secrets: Sequence[str],
    given: Sequence[str],
    signed: bytes,
    prefix: str,
    stamp: str | None = None,
    now: float = 0.0,
    encoding: str = "hex",
) -> Unproven | None:
    """None when one of the secrets made one of the signatures given, lately where there is a time."""
    good = False
    for secret in secrets:
        digest = hmac.digest(secret.encode(), signed, "sha256")
        text = digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()
        expected = (prefix + text).encode()
        for one in given[:_MOST_SIGNATURES]:
            good |= hmac.compare_digest(expected, one.strip().encode("latin-1", "replace"))
    if not good:
        return Unproven("signature" if any(given) else "missing")
    if stamp is None:
        return None
    sane = _TIMESTAMP.fullmatch(stamp) is not None
    return None if sane and abs(now - int(stamp)) <= TOLERANCE_SECONDS else Unproven("old")


def _sane(id: str) -> str:
    return id if _ID.fullmatch(id) else ""


def _read_id(body: bytes) -> _Id:
    """The id inside a genuine body; a body without one is a delivery without one."""
    try:
        return msgspec.json.decode(body, type=_Id)
    except (msgspec.MsgspecError, RecursionError):
        return _Id()


_Scheme = Callable[[Verify, Mapping[str, str], bytes, Sequence[str], float], Genuine | Unproven]
_SCHEMES: dict[str, _Scheme] = {
    "standard": _standard,
    "github": _github,
    "stripe": _stripe,
    "slack": _slack,
    "hmac": _hmac,
    "bearer": _bearer,
    "none": _none,
}
