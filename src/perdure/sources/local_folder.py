"""Files of a folder on this machine as items.

Links are not followed, neither that of a file nor one on the way to the folder out of the roots.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from perdure.clock import Clock
from perdure.model.trigger_sources import Folder
from perdure.sources import Item, Polled, Source, SourceFailed, SourceRefused
from perdure.sources.listings import File, Listings
from perdure.sources.roots import open_folder, resolve_place

_PIECE = 1024 * 1024


class FolderSource(Source):
    """A folder, read by polls. Synchronous: it is called in a thread."""

    def __init__(self, spec: Folder, roots: Sequence[str], clock: Clock) -> None:
        """Raises SourceRefused for a folder outside of the roots."""
        self._spec = spec
        self._listings = Listings(spec, clock)
        self._path = resolve_folder(spec.url, roots)
        self._handle = -1
        """The open folder, while it is polled: files are looked for in it and not by their paths."""

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
            return self._listings.begin(files)
        new = self._listings.choose(files, cursor)
        items: list[tuple[File, Item]] = []
        for file in new.files:
            item = self._make(file)
            if item is not None:
                items.append((file, item))
            elif new.in_order:
                break
        return new.give(items)

    def _make(self, file: File) -> Item | None:
        """The item of a file; None when it is gone or has changed while it was read."""
        data = {
            "path": str(self._path / file.name),
            "url": (self._path / file.name).as_uri(),
            "size": file.size,
            "version": file.version,
        }
        digest = self._hash(file) if self._spec.identity == "content" else ""
        return None if digest is None else Item(self._listings.name_item(file, digest), data)

    def _hash(self, file: File) -> str | None:
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

    def _list(self) -> list[File]:
        found = []
        try:
            with os.scandir(self._handle) as entries:
                for entry in entries:
                    if not entry.is_file(follow_symlinks=False) or not _is_text(entry.name):
                        continue
                    if not self._listings.matches(entry.name):
                        continue
                    try:
                        stat = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    found.append(File(entry.name, stat.st_size, _version(stat)))
                    self._listings.check_number(len(found))
        except OSError as error:
            raise SourceFailed(f"the folder cannot be read: {error.strerror}") from error
        return sorted(found, key=lambda file: file.name)


def resolve_folder(url: str, roots: Sequence[str]) -> Path:
    """The folder that a URL or a path names, without links. Raises SourceRefused when it is under none of the roots."""
    parts = urlsplit(url)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise SourceRefused("a folder is a path, or file:///… with an absolute one")
    return resolve_place(unquote(parts.path) if parts.scheme else url, roots, url)


def _version(stat: os.stat_result) -> str:
    return f"{stat.st_mtime_ns:x}-{stat.st_size:x}-{stat.st_ino:x}"


def _is_text(name: str) -> bool:
    """Whether a name can be stored: half of a character cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
