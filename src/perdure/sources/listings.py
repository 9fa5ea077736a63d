"""What of a listing is new: the cursor of a folder, wherever its files are.

The cursor is the listing that has been given, `{name: version}`, or with `order: name` the last name. A file counts
when its size and version were the same in two looks, `settle` seconds apart: a shorter look would give files that are
still written.
"""

from __future__ import annotations

import fnmatch
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.model.trigger_sources import Folder
from perdure.sources import MOST_ITEMS, Item, Polled, SourceRefused

MOST_FILES = 100_000
"""The most files of a listing that is kept; a larger folder is read in order of names."""


class File(msgspec.Struct, frozen=True):
    name: str
    size: int
    version: str


class New(msgspec.Struct):
    """Files to be given, in order, and what has been passed without them."""

    files: list[File]
    more: bool
    passed: dict[str, str] = {}
    last: str = ""
    in_order: bool = False
    """One that cannot be given now holds back those after it."""

    def give(self, items: list[tuple[File, Item]]) -> Polled:
        """The answer, with the items that could be made of the files."""
        found = tuple(item for _, item in items)
        if self.in_order:
            last = items[-1][0].name if items else self.last
            return Polled(found, _encode({"name": last}), more=self.more and len(items) == len(self.files))
        passed = {**self.passed, **{file.name: file.version for file, _ in items}}
        return Polled(found, _encode({"seen": passed}), more=self.more)


class Listings:
    def __init__(self, spec: Folder, clock: Clock) -> None:
        self._spec = spec
        self._clock = clock
        self._first: dict[str, tuple[str, float]] = {}
        """The version in which each new file was seen first, and when. Lost with the process: it is looked at again."""

    def matches(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self._spec.match)

    def check_number(self, number: int) -> None:
        """Raises SourceRefused for a listing that is too long to be kept."""
        if number > MOST_FILES and self._spec.order != "name":
            raise SourceRefused(f"there are more than {MOST_FILES:,} files; use order: name")

    def begin(self, files: list[File]) -> Polled:
        """What is there at first, in order of names, is passed."""
        if self._spec.order == "name":
            return Polled((), _encode({"name": files[-1].name if files else ""}))
        return Polled((), _encode({"seen": {file.name: file.version for file in files}}))

    def choose(self, files: list[File], cursor: str | None) -> New:
        """What is to be given of the files, which are in order of names. Raises SourceRefused for a cursor of something else."""
        if self._spec.order == "name":
            return self._choose_by_name(files, read_name(cursor))
        return self._choose_by_version(files, _decode(cursor).seen)

    def _choose_by_version(self, files: list[File], seen: dict[str, str]) -> New:
        there = {file.name for file in files}
        passed = {name: version for name, version in seen.items() if name in there}
        by_path = self._spec.identity == "path"
        new = [file for file in files if (file.name not in seen if by_path else seen.get(file.name) != file.version)]
        settled = self._settle(new)
        return New(settled[:MOST_ITEMS], len(settled) > MOST_ITEMS, passed)

    def _choose_by_name(self, files: list[File], last: str) -> New:
        new = [file for file in files if file.name > last]
        settled = {file.name for file in self._settle(new)}
        chosen: list[File] = []
        for file in new:
            if file.name not in settled or len(chosen) == MOST_ITEMS:
                break  # in order: one that is still written holds back those after it
            chosen.append(file)
        return New(chosen, len(chosen) == MOST_ITEMS, last=last, in_order=True)

    def _settle(self, new: list[File]) -> list[File]:
        """The files that have not changed for long enough."""
        now, before = self._clock.monotonic(), self._first
        self._first = {}
        settled = []
        for file in new:
            version, since = before.get(file.name, ("", now))
            if version != file.version:
                since = now
            self._first[file.name] = (file.version, since)
            if now - since >= self._spec.settle:
                settled.append(file)
        return settled

    def name_item(self, file: File, digest: str) -> str:
        """The id of a file's item; `digest` is that of its content, where it is asked for."""
        if self._spec.identity == "path":
            return file.name
        return f"sha256:{digest}" if self._spec.identity == "content" else f"{file.name}@{file.version}"


def read_name(cursor: str | None) -> str:
    """The last name that was given."""
    return _decode(cursor).name


class _Cursor(msgspec.Struct):
    seen: dict[str, str] = {}
    name: str = ""


def _encode(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _decode(cursor: str | None) -> _Cursor:
    if cursor is None:
        return _Cursor()
    try:
        return msgspec.json.decode(cursor, type=_Cursor)
    except msgspec.MsgspecError:
        raise SourceRefused("the cursor is not one of a folder") from None
