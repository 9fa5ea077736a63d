"""Files of a folder on this machine as items.

The cursor is the listing that has been given, `{name: version}`, or with `order: name` the last name. A file counts
when its size and version were the same in two looks, `settle` seconds apart: a shorter look would give files that are
still written. Links are not followed, neither that of a file nor one on the way to the folder out of the roots.
"""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from perdure.clock import Clock
from perdure.model.trigger_sources import Folder
from perdure.sources import MOST_ITEMS, Item, Polled, Source, SourceFailed, SourceRefused
from perdure.sources.roots import open_folder, resolve_place

MOST_FILES = 100_000
"""The most files of a listing that is kept; a larger folder is read in order of names."""
_PIECE = 1024 * 1024


class _File(msgspec.Struct, frozen=True):
    name: str
    size: int
    version: str


class FolderSource(Source):
    """A folder, read by polls. Synchronous: it is called in a thread."""

    def __init__(self, spec: Folder, roots: Sequence[str], clock: Clock) -> None:
        """Raises SourceRefused for a folder outside of the roots."""
        self._spec = spec
        self._clock = clock
        self._path = resolve_folder(spec.url, roots)
        self._handle = -1
        """Of the folder, while it is polled: files are looked for in it and not by their paths."""
        self._first: dict[str, tuple[str, float]] = {}
        """The version in which each new file was seen first, and when. Lost with the process: it is looked at again."""

    def poll(self, cursor: str | None) -> Polled:
        try:
            self._handle = open_folder(self._path)
        except OSError as error:
            raise SourceFailed(f"the folder cannot be read: {error.strerror}") from error
        try:
            return self._poll(cursor)
        finally:
            os.close(self._handle)

    def _poll(self, cursor: str | None) -> Polled:
        files = self._list()
        if cursor is None and self._spec.from_ != "start":
            return Polled((), self._say(files, files[-1].name if files else ""))
        if self._spec.order == "name":
            return self._poll_by_name(files, _read_name(cursor))
        return self._poll_by_version(files, _read_seen(cursor))

    def _poll_by_version(self, files: list[_File], seen: dict[str, str]) -> Polled:
        there = {file.name for file in files}
        passed = {name: version for name, version in seen.items() if name in there}
        by_path = self._spec.identity == "path"
        new = [file for file in files if (file.name not in seen if by_path else seen.get(file.name) != file.version)]
        settled = self._settle(new)
        items: list[Item] = []
        for file in settled[:MOST_ITEMS]:
            item = self._make(file)
            if item is not None:
                items.append(item)
                passed[file.name] = file.version
        return Polled(tuple(items), _encode({"seen": passed}), more=len(settled) > MOST_ITEMS)

    def _poll_by_name(self, files: list[_File], last: str) -> Polled:
        new = [file for file in files if file.name > last]
        settled = {file.name for file in self._settle(new)}
        items: list[Item] = []
        for file in new[: MOST_ITEMS + 1]:
            if file.name not in settled or len(items) == MOST_ITEMS:
                break  # in order: one that is still written holds back those after it
            item = self._make(file)
            if item is None:
                break
            items.append(item)
            last = file.name
        return Polled(tuple(items), _encode({"name": last}), more=len(items) == MOST_ITEMS)

    def _settle(self, new: list[_File]) -> list[_File]:
        """Those that have been the same for long enough."""
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

    def _make(self, file: _File) -> Item | None:
        """The item of a file; None when it is gone or has changed while it was read."""
        data = {
            "path": str(self._path / file.name),
            "url": (self._path / file.name).as_uri(),
            "size": file.size,
            "version": file.version,
        }
        if self._spec.identity == "path":
            return Item(file.name, data)
        if self._spec.identity == "version":
            return Item(f"{file.name}@{file.version}", data)
        digest = self._hash(file)
        return None if digest is None else Item(f"sha256:{digest}", data)

    def _hash(self, file: _File) -> str | None:
        digest = hashlib.sha256()
        try:
            how = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            handle = os.open(file.name, how, dir_fd=self._handle)
            with os.fdopen(handle, "rb") as opened:
                while piece := opened.read(_PIECE):
                    digest.update(piece)
                if _version(os.fstat(opened.fileno())) != file.version:
                    return None
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP):
                return None
            raise SourceFailed(f"{file.name} cannot be read: {error.strerror}") from error
        return digest.hexdigest()

    def _list(self) -> list[_File]:
        found = []
        try:
            with os.scandir(self._handle) as entries:
                for entry in entries:
                    if not entry.is_file(follow_symlinks=False) or not _is_text(entry.name):
                        continue
                    if not fnmatch.fnmatchcase(entry.name, self._spec.match):
                        continue
                    try:
                        stat = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    found.append(_File(entry.name, stat.st_size, _version(stat)))
                    if len(found) > MOST_FILES and self._spec.order != "name":
                        raise SourceRefused(f"there are more than {MOST_FILES:,} files; use order: name")
        except OSError as error:
            raise SourceFailed(f"the folder cannot be read: {error.strerror}") from error
        return sorted(found, key=lambda file: file.name)

    def _say(self, files: list[_File], last: str) -> str:
        if self._spec.order == "name":
            return _encode({"name": last})
        return _encode({"seen": {file.name: file.version for file in files}})


def resolve_folder(url: str, roots: Sequence[str]) -> Path:
    """The folder that a URL or a path names, without links. Raises SourceRefused when it is under none of the roots."""
    parts = urlsplit(url)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise SourceRefused("a folder is a path, or file:///… with an absolute one")
    return resolve_place(unquote(parts.path) if parts.scheme else url, roots)


def _version(stat: os.stat_result) -> str:
    return f"{stat.st_mtime_ns:x}-{stat.st_size:x}-{stat.st_ino:x}"


def _is_text(name: str) -> bool:
    """Whether a name can be stored: half of a character cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encode(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _read_seen(cursor: str | None) -> dict[str, str]:
    return {} if cursor is None else _decode(cursor).seen


def _read_name(cursor: str | None) -> str:
    return "" if cursor is None else _decode(cursor).name


class _Cursor(msgspec.Struct):
    seen: dict[str, str] = {}
    name: str = ""


def _decode(cursor: str) -> _Cursor:
    try:
        return msgspec.json.decode(cursor, type=_Cursor)
    except msgspec.MsgspecError:
        raise SourceRefused("the cursor is not one of a folder") from None
