"""Messages as they stand in Redis: JSON with a version and, where there is a keyring, a signature beside it.

It owns the encoding, and what is refused and counted. A stream entry carries message and signature as two fields; a
value of a hash or a string carries them as two lines. Nothing is parsed before its signature is verified.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from perdure.clock import system
from perdure.model.extremes import WHY, has_many
from perdure.streams import Over, Part
from perdure.transport import MESSAGE_VERSION, Message, Result, Task, WorkerBeat, encode_message, unpack_task
from perdure.transports.envelopes import EnvelopeRefused, Keyring
from perdure.transports.redis.reader import text_of
from perdure.weight import WHY as TOO_HEAVY
from perdure.weight import is_heavy

NOBODY = "-"
"""The tenant of messages that belong to no tenant: heartbeats."""

_log = logging.getLogger(__name__)


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's wish to begin what may happen at most once."""

    v: int = MESSAGE_VERSION
    ask: str
    """The name of this wish; an answer is to it and to no other."""
    process: str
    """The process to wake when the wish is answered."""
    worker: str
    task: Task


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    v: int = MESSAGE_VERSION
    tenant: str = "default"
    ask: str
    task_id: str
    granted: bool


class OfStream(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of one edition of one stream."""

    v: int = MESSAGE_VERSION
    tenant: str = "default"
    run_id: str
    place: str
    edition: int


class Segment(OfStream, frozen=True, kw_only=True):
    """Chunks that stand together; the first has this number."""

    first: int
    chunks: list[msgspec.Raw]
    chain: int = 0
    """What the chunks up to its last one come to, of a node that repeats itself."""


class Piece(OfStream, frozen=True, kw_only=True):
    part: Part
    chain: int = 0


class Claim(OfStream, frozen=True, kw_only=True):
    """Says that this attempt goes on with the edition."""

    attempt: int


class End(OfStream, frozen=True, kw_only=True):
    over: Over


_DECODERS = {
    kind: msgspec.json.Decoder(type)
    for kind, type in {
        "task": Task,
        "result": Result,
        "begin": Wish,
        "grant": Answer,
        "beat": WorkerBeat,
        "chunks": Segment,
        "piece": Piece,
        "end": End,
        "restart": OfStream,
        "claim": Claim,
    }.items()
}
_HEADS = msgspec.json.Decoder(Message)
_HALVES = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""Characters that other languages write as halves, and one half alone as well, which is no JSON."""
_HEAD = b'{"v":%d,' % MESSAGE_VERSION
LARGEST_RESULT = 4 * 1024 * 1024
"""Workers are asked to keep outputs below 1 MiB; those of Perdure store what is above 32 KiB."""
LARGEST_HEAD = 4 * LARGEST_RESULT
"""The largest result of which it is found out whose it is."""


SAY_SECONDS = 10.0


class Messages:
    def __init__(self, keyring: Keyring | None) -> None:
        self._keyring = keyring
        self.refused: Counter[str] = Counter()
        """How many messages were not believed or not understood, by kind."""
        self._said: dict[str, tuple[float, int]] = {}
        """Until when nothing more is said of a kind, and how many were refused meanwhile."""

    def encode(self, kind: str, message: Any, tenant: str) -> tuple[bytes, str]:
        body = encode_message(message)
        if not body.startswith(_HEAD):  # tasks and results omit defaults, but never the version
            body = _HEAD + body[1:]
        return body, "" if self._keyring is None else self._keyring.sign(kind, tenant, body)

    def encode_lines(self, kind: str, message: Any, tenant: str) -> bytes:
        body, signature = self.encode(kind, message, tenant)
        return body + b"\n" + signature.encode()

    def decode(self, kind: str, body: bytes, signature: bytes) -> Any:
        """The message. Raises `EnvelopeRefused`, having counted and logged the refusal."""
        try:
            return self._decode(kind, body, signature)
        except EnvelopeRefused as error:
            self.refuse(kind, error.message)
            raise

    def find_head(self, body: bytes, signature: bytes) -> Message | None:
        """Which attempt a result is about that cannot be read as a whole, if it is believable and says so itself."""
        if len(body) > LARGEST_HEAD:
            return None
        try:
            tenant = None if self._keyring is None else self._keyring.verify("result", body, signature)
            head = _HEADS.decode(_HALVES.sub(rb"\\ufffd", body))
        except (EnvelopeRefused, msgspec.MsgspecError, ValueError, RecursionError):
            return None
        # Of another version it may be good: a process of that version can read it.
        return head if head.v == MESSAGE_VERSION and tenant in (None, head.tenant) else None

    def decode_lines(self, kind: str, lines: bytes) -> Any:
        body, _, signature = lines.partition(b"\n")
        return self.decode(kind, body, signature)

    @contextmanager
    def reading(self, kind: str) -> Iterator[None]:
        """Wraps the reading of one entry: whatever goes wrong is its writer's fault, and becomes `EnvelopeRefused`."""
        try:
            yield
        except EnvelopeRefused:
            raise
        except Exception as error:
            self.refuse(kind, f"a {kind} that cannot be read: {error!r:.1000}")
            raise EnvelopeRefused("it cannot be read") from error

    def text(self, kind: str, raw: bytes) -> str:
        """The bytes as text. Raises `EnvelopeRefused`, having counted and logged the refusal."""
        try:
            return text_of(raw)
        except EnvelopeRefused:
            self.refuse(kind, f"a {kind} whose name is not text: {raw[:100]!r}")
            raise

    def refuse(self, kind: str, why: str) -> None:
        """Count it, and say so: once in a while of each kind, for what stands in Redis is refused at every look."""
        self.refused[kind] += 1
        now = system.monotonic()
        until, unsaid = self._said.get(kind, (0.0, 0))
        if now < until:
            self._said[kind] = (until, unsaid + 1)
            return
        self._said[kind] = (now + SAY_SECONDS, 0)
        _log.warning("refused: %s%s", why, f" (and {unsaid:,} more since this was said last)" if unsaid else "")

    def _decode(self, kind: str, body: bytes, signature: bytes) -> Any:
        tenant = None if self._keyring is None else self._keyring.verify(kind, body, signature)
        if kind == "result" and len(body) > LARGEST_RESULT:
            raise EnvelopeRefused(
                f"a result of {len(body):,} bytes, and {LARGEST_RESULT:,} are read; send a large output as a blob"
            )
        # The task is the coordinator's own word, and what stands in it was weighed when it came in.
        if kind != "task" and is_heavy(body):
            raise EnvelopeRefused(f"a {kind} that is not read: {TOO_HEAVY}")
        if has_many(body):
            raise EnvelopeRefused(f"a {kind} that is not read: {WHY}")
        try:
            message = _unpack(_DECODERS[kind].decode(body))
        except UnicodeDecodeError as error:
            raise EnvelopeRefused(f"a {kind} that is not text") from error
        except RecursionError as error:
            raise EnvelopeRefused(f"a {kind} that is nested too deep") from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise EnvelopeRefused(f"a {kind} that cannot be read: {error}") from error
        version = getattr(message, "v", MESSAGE_VERSION)
        if version != MESSAGE_VERSION:
            raise EnvelopeRefused(f"a {kind} of version {version}; this version of Perdure knows {MESSAGE_VERSION}")
        if tenant is not None and tenant != _tenant(message):
            raise EnvelopeRefused(f"a {kind} of tenant {_tenant(message)!r} signed for another tenant")
        return message


def _unpack(message: Any) -> Any:
    """Restore the secrets and blobs of a task as they were before it went on the wire."""
    if isinstance(message, Task):
        return unpack_task(message)
    return msgspec.structs.replace(message, task=unpack_task(message.task)) if isinstance(message, Wish) else message


def _tenant(message: Any) -> str:
    if isinstance(message, Wish):
        return message.task.tenant
    return getattr(message, "tenant", NOBODY)


def fields_of(entry: list[bytes]) -> dict[bytes, bytes]:
    """The fields of a stream entry."""
    return dict(zip(entry[::2], entry[1::2], strict=True))
