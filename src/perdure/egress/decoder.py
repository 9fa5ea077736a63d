"""Bodies are unpacked in small pieces and counted while they grow: a bomb ends at the limit, not in memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from perdure.egress.errors import AnswerInvalid, AnswerTooLarge
from perdure.plain_text import cut

ACCEPTED = "gzip, deflate"
PIECE = 64 * 1024

_FORMATS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


class Body:
    """A body that takes its bytes as they arrive, and refuses to hold more than `limit` of them, packed or unpacked."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._limit = limit
        self._received = 0
        self._content = bytearray()
        self._unpacker: _Unpacker | None = None
        encoding = encoding.strip().lower()
        if encoding in _FORMATS:
            self._unpacker = _Unpacker(encoding)
        elif encoding not in ("", "identity"):
            raise AnswerInvalid(f"the answer is encoded as {cut(encoding, 40)!r}; {ACCEPTED} were asked for", sent=True)

    def add(self, data: bytes) -> None:
        self._received += len(data)
        self._check(self._received)
        for piece in (data,) if self._unpacker is None else self._unpacker.feed(data):
            self._check(len(self._content) + len(piece))
            self._content += piece

    def finish(self) -> bytes:
        if self._received and self._unpacker is not None and not self._unpacker.complete:
            raise AnswerInvalid("the compressed answer ends in the middle", sent=True)
        return bytes(self._content)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise too_large(self._limit)


def too_large(limit: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"the answer has more than {limit} bytes; raise max_bytes, or ask for less", sent=True)


class _Unpacker:
    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._begun = False
        self._stream = zlib.decompressobj(_FORMATS[encoding])

    @property
    def complete(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        piece = b""
        while data or len(piece) == PIECE:  # a full piece: there may be more, though all input has been taken
            if self._stream.eof and not self._begin_next(data):
                return
            try:
                piece = self._stream.decompress(data, PIECE)
            except zlib.error:
                if self._begun or self._encoding != "deflate":
                    raise AnswerInvalid(f"the answer is not valid {self._encoding}", sent=True) from None
                self._begun = True  # some servers send deflate without its header
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
                continue
            self._begun = True
            data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            if piece:
                yield piece

    def _begin_next(self, data: bytes) -> bool:
        """Begin the next member of gzip data, which may have several; anything else after the end is padding."""
        if self._encoding == "deflate" or not data.startswith(b"\x1f"):
            return False
        self._stream = zlib.decompressobj(_FORMATS[self._encoding])
        return True
