"""Entries of a Redis stream as items.

One reader, no consumer group: a group would be a second truth about how far it has read. The cursor is the id of the
last entry and how many entries there had ever been up to it. Entries that are trimmed or deleted before they were read
vanish without a word in Redis; here that stops the source, and a person decides. Position and entries are read in one
transaction, so that entries deleted after they were read are not taken for lost.
"""

from __future__ import annotations

import base64
from typing import Any, Protocol

import msgspec

from perdure.errors import PerdureError
from perdure.model.trigger_sources import Stream
from perdure.sources import MOST_BYTES, MOST_ITEMS, Polled, Source, SourceFailed, SourceRefused
from perdure.sources.pages import Page
from perdure.threads import aside

_START = "0-0"
_SCRIPT = """
-- What XINFO STREAM and XRANGE say, without what is too large: XINFO has the first and the last entry in it, and an entry may have half a
-- gigabyte. KEYS: the stream. ARGV: an id; how many entries behind it; how many bytes they have together. An entry of more has its size.
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
for at = 1, #info, 2 do
  if (info[at] == 'first-entry' or info[at] == 'last-entry') and info[at + 1] then info[at + 1] = {info[at + 1][1]} end
end
local found, sum, after, most = {}, 0, ARGV[1], tonumber(ARGV[3])
while #found < tonumber(ARGV[2]) do
  local one = redis.call('XRANGE', KEYS[1], '(' .. after, '+', 'COUNT', 1)[1]
  if not one then return {info, found, 0} end
  local size = 0
  for _, part in ipairs(one[2]) do size = size + #part end
  if size > most then one[2] = size else sum = sum + size end
  if sum > most then break end
  after = one[1]
  found[#found + 1] = one
end
return {info, found, 1}
"""


class SourceTrimmed(PerdureError):
    """Entries were removed before they were read. The source stands still until a person sets its cursor."""

    code = "source_trimmed"


class Transaction(Protocol):
    """The part of a pipeline of redis-py that is used."""

    def execute_command(self, *words: Any) -> Any: ...
    async def execute(self, raise_on_error: bool = True) -> list[Any]: ...


class Client(Protocol):
    def pipeline(self, transaction: bool = True) -> Transaction: ...
    async def execute_command(self, *words: Any) -> Any: ...


class _Cursor(msgspec.Struct, frozen=True):
    id: str
    count: int
    """How many entries were ever added up to this one."""


class _Info(msgspec.Struct, frozen=True):
    length: int = 0
    added: int = 0
    last: str = _START
    deleted: str = _START
    first: str | None = None


class RedisStreamSource(Source):
    """A stream, read by polls."""

    def __init__(
        self,
        spec: Stream,
        client: Client,
        failures: tuple[type[Exception], ...] = (OSError,),
        too_large: tuple[type[Exception], ...] = (),
    ) -> None:
        """`client` reaches the server by the rules for outgoing calls; `failures` is what it raises when it does not, and
        `too_large` when the answer has more bytes than it reads."""
        self._too_large = too_large
        self._by_script = False
        """Whether the server is asked to leave out what is too large: a single entry was."""
        self._count = MOST_ITEMS + 1
        """How many entries are asked for: fewer where they were too large."""
        self._spec = spec
        self._client = client
        self._failures = failures

    async def poll(self, cursor: str | None) -> Polled:
        at = _START if cursor is None else _decode(cursor).id
        info, entries, more = await self._read(at)
        if cursor is None:
            # From the start, what was removed before is not missed: it counts as read.
            known = _Cursor(_START, info.added - info.length)
            if self._spec.from_ != "start":
                return Polled((), _encode(_Cursor(info.last, info.added)))
        else:
            known = _decode(cursor)
            self._check(known, info)
        page, read = await aside("", _fill, entries)
        reached = _Cursor(_text(entries[read - 1][0]) if read else known.id, known.count + read)
        self._count = min(self._count * 2, MOST_ITEMS + 1)
        return Polled(tuple(page.items), _encode(reached), more=more or read < len(entries))

    def _check(self, known: _Cursor, info: _Info) -> None:
        """Whether an entry after the cursor was removed. Raises SourceTrimmed.

        Trimming goes from the oldest on: while an entry up to the cursor is there, nothing after it was trimmed. Otherwise
        everything that was read is gone, so that more removed entries than were read are entries that were not."""
        deleted = _order(info.deleted) > _order(known.id)
        everything_gone = info.first is None or _order(info.first) > _order(known.id)
        trimmed = everything_gone and info.added - info.length > known.count
        renewed = info.added < known.count or _order(info.last) < _order(known.id)
        if deleted or trimmed or renewed:
            raise SourceTrimmed(
                f"entries of stream {self._spec.key} after {known.id} were removed before they were read; "
                "look at what was lost, then rewind the trigger"
            )

    async def _read(self, at: str) -> tuple[_Info, list[Any], bool]:
        """The stream, entries after an id, and whether there may be more: fewer of them if so many are too large for one answer, and
        without the content of one that is so by itself."""
        while not self._by_script:
            try:
                return await self._read_some(at)
            except self._too_large:
                self._by_script = self._count == 1
                self._count = self._count // 4 or 1
        try:
            said = await self._client.execute_command(
                "EVAL", _SCRIPT, 1, self._spec.key, at, MOST_ITEMS + 1, MOST_BYTES
            )
            if not said:
                return _Info(), [], False
            info, entries, more = said
            return _read_info(info), list(entries), bool(more)
        except SourceRefused:
            raise
        except self._failures as error:
            message = (
                f"stream {self._spec.key} has an entry after {at} that is too large to be read, and is not passed over by EVAL: "
                f"{str(error)[:200]}; delete it, or let the user of the trigger call EVAL"
            )
            raise SourceFailed(message) from error

    async def _read_some(self, at: str) -> tuple[_Info, list[Any], bool]:
        together = self._client.pipeline(transaction=True)
        together.execute_command("XINFO", "STREAM", self._spec.key)
        together.execute_command("XRANGE", self._spec.key, f"({at}", "+", "COUNT", self._count)
        try:
            info, entries = await together.execute(raise_on_error=False)
        except self._too_large:
            raise
        except self._failures as error:
            raise SourceFailed(f"stream {self._spec.key} cannot be read: {type(error).__name__}") from error
        if isinstance(entries, Exception):
            raise SourceFailed(f"stream {self._spec.key} cannot be read: {str(entries)[:200]}")
        if isinstance(info, Exception):  # there is no such key; what is no stream has failed above
            return _Info(), [], False
        found = list(_pairs(entries))
        return _read_info(info), found, len(found) >= self._count


def _fill(entries: list[Any]) -> tuple[Page, int]:
    """The entries that fit into a page, and how many they are."""
    page = Page()
    for number, (said, fields) in enumerate(entries):
        id = _text(said)
        if isinstance(fields, int):
            added = page.refuse(id, f"its entry has {fields:,} bytes, and {MOST_BYTES:,} are allowed")
        else:
            added = page.add(id, {"id": id, "fields": _read_fields(fields)})
        if not added:
            return page, number
    return page, len(entries)


def _read_info(answer: Any) -> _Info:
    items = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
    told = {_text(name): value for name, value in items}
    if "entries-added" not in told:
        raise SourceRefused("streams are read from Redis 7 or Valkey on: older servers do not say what was removed")
    first = told.get("first-entry")
    return _Info(
        int(told["length"]),
        int(told["entries-added"]),
        _text(told["last-generated-id"]),
        _text(told["max-deleted-entry-id"]),
        _text(first[0]) if first else None,
    )


def _pairs(entries: Any) -> Any:
    return entries.items() if isinstance(entries, dict) else entries


def _read_fields(fields: Any) -> dict[str, Any]:
    pairs = fields.items() if isinstance(fields, dict) else zip(fields[::2], fields[1::2], strict=True)
    return {_name(name): _value(value) for name, value in pairs}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _name(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _value(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"$bytes": base64.b64encode(value).decode()}


def _order(id: str) -> tuple[int, int]:
    milliseconds, _, number = id.partition("-")
    return int(milliseconds), int(number or 0)


def _encode(cursor: _Cursor) -> str:
    return msgspec.json.encode(cursor).decode()


def _decode(cursor: str) -> _Cursor:
    try:
        found = msgspec.json.decode(cursor, type=_Cursor)
        _order(found.id)
    except (msgspec.MsgspecError, ValueError):
        raise SourceRefused("the cursor is not one of a stream") from None
    return found
