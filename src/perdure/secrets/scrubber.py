"""Takes known secret values out of whatever is about to be stored, sent or logged: plain, base64 and URL-encoded, with
or without the space around them, and the lines of a value of several lines one by one.

It works by value, not by place: a handler may put a secret it was given anywhere. It cannot find a secret that was cut
in another way (so messages are cut last, `perdure.plain_text`, and text that comes in chunks has its `joints`), hashed or
encoded in another way. The rule is that secrets are never stored in the first place; this is the net below it.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Set
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from perdure.pieces import SEARCHED, find_all
from perdure.plain_text import hiding
from perdure.secrets.alternatives import any_of
from perdure.weight import WHY, is_heavy

URL_SAFE = ("/%:@!$&'()*+,;=~", "/%:@!$&'()*+,;=~?")
"""The characters that `perdure.egress` leaves as they are in the path and in the query of a URL."""
SHORTEST = 4
"""A value with fewer characters is masked only where it stands alone: it would be found everywhere."""
SHORTEST_LINE = 8
"""A line of a value with fewer characters is not looked for by itself: it would be found everywhere."""
MOST_LINES = 200
"""How many lines of a value are looked for by themselves: each makes every search a little slower."""
_ARMOUR = re.compile(r"-----(BEGIN|END) [^\n]*-----")
"""Lines around a key that are in every other key and certificate too, and no secret."""
MASK = "***"
MOST_BEGUN = 1024
"""How far from the end of a text it is looked for a secret that begins there."""
_LARGE = 32 * 1024 * 1024
"""Bytes of JSON up to which it is checked in less than a tenth of a second, whatever they are."""


class CannotClean(ValueError):
    """JSON that holds a secret and takes too long to be cleaned; the message says why."""


class Scrubber:
    """Remembers the values that were revealed in this process, and finds them again. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: frozenset[str] = frozenset()
        self._lines: set[str] = set()
        """The lines of values that have several."""
        self._short: frozenset[str] = frozenset()
        self._text: tuple[re.Pattern[str] | None, int] = None, 0
        """The pattern for text, and the most characters that a match of it has."""
        self._begins: tuple[re.Pattern[str] | None, list[str]] = None, []
        """What a secret may begin with, and the forms in order."""
        self._json: tuple[re.Pattern[bytes] | None, int] = None, 0
        """The same for JSON, in bytes."""

    def add(self, value: Any) -> None:
        """Remember a secret; of an object or a list, every text in it."""
        if isinstance(value, dict):
            for item in value.values():
                self.add(item)
        elif isinstance(value, list | tuple):
            for item in value:
                self.add(item)
        elif isinstance(value, str) and value and value not in self._values:
            with self._lock:
                # A file ends with a newline, which the user of the value takes off.
                values = self._values | {one for one in (value, value.strip()) if one}
                self._lines |= set(_lines(value))
                self._short = frozenset(one for one in values if len(one) < SHORTEST)
                forms = {form for one in values if len(one) >= SHORTEST for form in encodings(one)}
                forms |= {form for one in self._lines for form in {one, *_escapes(one)}}
                self._text = (re.compile(any_of(forms)), max(map(len, forms))) if forms else (None, 0)
                firsts = "".join(sorted({form[0] for form in forms}))
                self._begins = (re.compile(f"[{re.escape(firsts)}]"), sorted(forms)) if forms else (None, [])
                self._json = _json_pattern(values, self._lines)
                self._values = values  # last: what is in it is found from now on

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, text: str) -> str:
        if text in self._short:
            return MASK
        pattern, longest = self._text
        if pattern is None:
            return text
        if len(text) <= SEARCHED:
            return pattern.sub(MASK, text)
        clean, done = [], 0
        for found in find_all(pattern, text, longest):
            clean += [text[done : found.start()], MASK]
            done = found.end()
        return "".join([*clean, text[done:]]) if done else text

    @property
    def longest(self) -> int:
        """The most characters of a text that are a secret."""
        return self._text[1]

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where secrets are in a text, in order."""
        pattern, longest = self._text
        for found in find_all(pattern, text, longest) if pattern is not None else ():
            yield found.span()

    def count_begun(self, text: str, likely: int, start: int = 0) -> int:
        """How many characters at the end of a text may be the beginning of a secret that goes on behind it. It begins at `start` or
        later; first it is looked whether it begins at `likely`."""
        begins, forms = self._begins
        if begins is None:
            return 0
        if _begins_one(forms, text[likely:]):
            return len(text) - likely
        window = text[max(start, len(text) - MOST_BEGUN) :]
        starts = (found.start() for found in begins.finditer(window))
        return next((len(window) - one for one in starts if _begins_one(forms, window[one:])), 0)

    def json(self, data: bytes | bytearray) -> bytes | bytearray:
        """JSON without secrets, at the speed of one search if there are none. Raises CannotClean."""
        pattern, longest = self._json
        if pattern is None:
            return data
        clean, done = bytearray(), 0
        for found in find_all(pattern, data, longest):
            clean += data[done : found.start()]
            clean += b"***"
            done = found.end()
        if not done:
            return data
        clean += data[done:]
        # From here on everything is looked at in one go, so that it must not be much.
        if len(data) > _LARGE and is_heavy(data):
            raise CannotClean(f"it holds a secret, which cannot be taken out: {WHY}")
        try:
            msgspec.json.decode(clean, type=msgspec.Raw)
        except msgspec.DecodeError:  # a match began in the middle of an escape, or was part of a number
            if is_heavy(data):
                raise CannotClean(f"it may hold a secret, which cannot be looked for: {WHY}") from None
            return msgspec.json.encode(self.value(msgspec.json.decode(data)))
        return clean

    def value(self, value: Any) -> Any:
        """The same value without secrets, also in keys. Texts without secrets stay as they are."""
        if not self._values:
            return value
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is dict:
            return {self.value(key): self.value(item) for key, item in value.items()}
        if kind is list or kind is tuple:
            return kind(self.value(item) for item in value)
        return value


def _begins_one(forms: list[str], text: str) -> bool:
    """Whether one of these, which are in order, goes on behind this text."""
    at = bisect_right(forms, text)  # itself stands before what goes on behind it
    return bool(text) and at < len(forms) and forms[at].startswith(text)


def encodings(value: str) -> set[str]:
    """The forms a secret is found in: itself, in JSON, in URLs, and in base64 at each of the three alignments."""
    data = _bytes(value)
    forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    forms |= {ascii(value)[1:-1], repr(data)[2:-1]}
    forms |= {quote(data, safe=""), quote(data), quote_plus(data), *(quote(data, safe=safe) for safe in URL_SAFE)}
    forms |= {form.lower() for form in (quote(data, safe=""), quote_plus(data)) if "%" in form}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            # Inside a longer text, only those characters are known that depend on nothing but the secret.
            encoded = encode(b"\0" * before + data).decode()
            start = (before * 8 + 5) // 6
            whole = (before + len(data)) * 8 // 6
            forms.add(encoded[start:whole])
    return {form for form in forms if len(form) >= SHORTEST}


def _lines(value: str) -> list[str]:
    """The lines of a value of several lines that are worth looking for: what is printed is kept line by line."""
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) < 2:
        return []
    return [line for line in lines if len(line) >= SHORTEST_LINE and not _ARMOUR.fullmatch(line)][:MOST_LINES]


def _json_pattern(values: Set[str], lines: Set[str]) -> tuple[re.Pattern[bytes] | None, int]:
    """The forms as they stand inside JSON, and the length of the longest; a short value only as a whole text."""
    alone = {form for value in values if len(value) < SHORTEST for form in _escapes(value)}
    forms = {form for value in values if len(value) >= SHORTEST for one in encodings(value) for form in _escapes(one)}
    forms |= {form for line in lines for form in _escapes(line)}
    whole = [_latin(form) for form in forms]
    parts = [any_of(whole)] if whole else []
    parts += [f'(?<="){re.escape(_latin(form))}(?=")' for form in sorted(alone, key=len, reverse=True)]
    longest = max((len(one) for one in [*whole, *map(_latin, alone)]), default=0)
    return (re.compile("|".join(parts).encode("latin-1")), longest) if parts else (None, 0)


def _latin(text: str) -> str:
    """The bytes of a text, as characters."""
    return _bytes(text).decode("latin-1")


def _bytes(text: str) -> bytes:
    """A variable of the environment that is not UTF-8 has halves of surrogate pairs."""
    return text.encode("utf-8", "surrogatepass")


def _escapes(value: str) -> set[str]:
    return {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}


def install(scrubber: Scrubber) -> Callable[[], None]:
    """Scrub every log record of this process, and every text that is printed or cut (`perdure.plain_text`). Returns a
    function that ends this."""
    shown = hiding(scrubber.text)
    before = logging.getLogRecordFactory()

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        if scrubber:
            _scrub(record, scrubber)
        return record

    logging.setLogRecordFactory(factory)

    def remove() -> None:
        shown()
        if logging.getLogRecordFactory() is factory:
            logging.setLogRecordFactory(before)

    return remove


def _scrub(record: logging.LogRecord, scrubber: Scrubber) -> None:
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001  a wrong call is reported by the handler, as always
        message = str(record.msg)
    clean = scrubber.text(message)
    if clean != message:
        record.msg, record.args = clean, None
    if record.exc_info and record.exc_info[1] is not None:
        text = logging.Formatter().formatException(record.exc_info)
        record.exc_text = scrubber.text(text)
        if record.exc_text != text:
            record.exc_info = None
