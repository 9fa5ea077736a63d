"""Server-sent events, read as they come: whatever the network does to their bytes, the events are the same.

Lines end with LF, CR or CR LF; comments are skipped; an event at the end without a blank line does not count. What one
event and one answer may have is bounded: a provider is not trusted to end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perdure.llms.port import LlmError

MAX_EVENT = 2 * 1024 * 1024
MAX_BYTES = 16 * 1024 * 1024
MAX_EVENTS = 400_000
_END = re.compile(rb"\r\n|[\r\n]")


class Events:
    """The events of one stream."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._looked_at = 0
        """Where in the rest the search for the end of a line goes on: bytes are looked at once."""
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._bytes = 0
        self._count = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """The events that are complete with this chunk, each with its type. Raises LlmError."""
        self._bytes += len(chunk)
        if self._bytes > MAX_BYTES:
            raise _too_much(f"{MAX_BYTES:,} bytes")
        self._rest += chunk
        begin = 0
        while (end := self._find_end()) is not None:
            line = bytes(self._rest[begin:end])
            begin = self._looked_at
            yield from self._read_one(line)
        del self._rest[:begin]
        self._looked_at -= begin
        if len(self._rest) + self._size > MAX_EVENT:
            raise _too_much(f"{MAX_EVENT:,} bytes in one event")

    def _find_end(self) -> int | None:
        """Where the next line ends; afterwards `_looked_at` is where the one after it begins."""
        rest, at = self._rest, self._looked_at
        if self._after_cr and at < len(rest):  # CR LF is one end, also if a chunk ends between the two
            self._after_cr = False
            if rest[at] == 0x0A:
                del rest[at]
        found = _END.search(rest, at)
        if found is None:
            self._looked_at = len(rest)
            return None
        end = found.start()
        self._looked_at = found.end()
        self._after_cr = rest[end] == 0x0D and end + 1 == len(rest)
        return end

    def _read_one(self, line: bytes) -> Iterator[tuple[str, bytes]]:
        if not line:
            if self._data:
                self._count += 1
                if self._count > MAX_EVENTS:
                    raise _too_much(f"{MAX_EVENTS:,} events")
                yield self._event, b"\n".join(self._data)
            self._data, self._size, self._event = [], 0, ""
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value)
            if self._size > MAX_EVENT:
                raise _too_much(f"{MAX_EVENT:,} bytes in one event")
        elif name == b"event":
            self._event = value[:200].decode("utf-8", "replace")


def _too_much(what: str) -> LlmError:
    return LlmError("llm:network", f"the model's answer is not read: it has more than {what}")
