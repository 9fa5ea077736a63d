"""Live events: the bytes of a stream become events, and a stream that was cut continues where it was.

Pure: it is given bytes and says what to ask for next. It must not know sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import msgspec

from perdure.client.conversation import Options, Pause, Sending, backoff, error_of, prepare, unreachable
from perdure.client.errors import ApiError
from perdure.client.http_calls import Call

MEDIA_TYPE = "text/event-stream"
SILENT_SECONDS = 45.0
"""After this long without a byte the server counts as gone: it shows every 15 s that it is alive."""
PATIENCE = 12
"""How many tries, about 40 s, until a stream that was once open is given up: the server may be restarting."""
ENDS = frozenset({"run.completed", "run.failed", "run.cancelled", "run.rolled_back", "end"})
"""What ends a stream: of a run, or of the chunks of a node."""


class Stream:
    """The position of a reader in a stream."""

    def __init__(self, options: Options, call: Call[Any], chance: Callable[[], float]) -> None:
        self._options = options
        self._call = call
        self._chance = chance
        self._failures = 0
        self._last_type = ""
        self._last_id = ""
        self._line: int | None = None
        """The position of the last log line."""
        self._patience = options.retries
        self._rest = b""
        self._data: list[bytes] = []
        self._name = self._id = b""
        self.over = False

    def request(self) -> Sending:
        """The next request: for the events after the last one that arrived."""
        headers = {**self._call.headers, "Accept": MEDIA_TYPE}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        timeout = httpx2.Timeout(self._options.timeout, read=SILENT_SECONDS)
        query = self._call.query if self._line is None else {**self._call.query, "logs_after": self._line}
        sending = prepare(self._options, msgspec.structs.replace(self._call, headers=headers, query=query))
        return msgspec.structs.replace(sending, timeout=timeout)

    def opened(self, response: httpx2.Response) -> None:
        """Take an answer that is a stream, or that says there is nothing more."""
        self._rest = b""
        self._data.clear()
        self._patience = max(self._options.retries, PATIENCE) if self._options.retries else 0
        if response.status_code == 204:
            self.over = True
        elif not response.headers.get("content-type", "").startswith(MEDIA_TYPE):
            raise ApiError(f"{self._options.url} did not answer with a stream of events; is the URL right?", status=200)

    def refused(self, response: httpx2.Response) -> Pause:
        """Take any other answer, already read: raise its error, or give the pause before the next try."""
        error = error_of(response)
        if error.http_status not in (429, 503, 504) or self._failures >= self._patience:
            raise error
        return self._pause(error.retry_after or 0.0)

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """The events that these bytes complete. Lines end with a line feed and nothing else: data may hold what Unicode
        calls a line separator."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.removesuffix(b"\r").partition(b":")
            # Events of the journal have `id` and `event` in the data too. One cut off before its empty line is dropped.
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif name == b"event":
                self._name = value.removeprefix(b" ")
            elif name == b"id":
                self._id = value.removeprefix(b" ")
            elif not line.rstrip(b"\r"):
                yield from self._complete()
            elif not name:  # a comment: the server is alive
                self._failures = 0

    def _complete(self) -> Iterator[Any]:
        if self._data:
            event = msgspec.json.decode(b"\n".join(self._data))
            self._data.clear()
            self._failures = 0
            if "seq" in event:
                self._last_type = event["type"]
                self._last_id = str(event["seq"])
            else:  # not an event of the journal
                event = {"type": self._name.decode(), **event}
                if event["type"] == "log":
                    self._line = event["position"]
                if self._id:  # a chunk
                    self._last_type, self._last_id = event["type"], self._id.decode()
            yield event
        self._name = self._id = b""

    def ended(self) -> Pause | None:
        """Take the end of the stream: the run has ended (None), or another server continues after a pause."""
        self.over = self.over or self._last_type in ENDS
        return None if self.over else self._pause(0.0)

    def cut(self, error: httpx2.TransportError) -> Pause:
        if self._failures >= self._patience:
            raise unreachable(self._options, error) from error
        return self._pause(0.0)

    def _pause(self, least: float) -> Pause:
        pause = Pause(max(least, backoff(self._failures, self._chance())))
        self._failures += 1
        return pause
