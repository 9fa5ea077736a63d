"""Objects as files in a folder of this machine.

A file gets its name only when its bytes are on the disk, and `write` returns when the name is there too: after a power
cut there is either the whole content or none. (The object-store library writes files as well, but names them before
their bytes are safe, and so could replace good content with an empty file; that is why it is not used here.)

Everything that touches the disk runs in a thread. The folder is made by the first write.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from perdure.blob_stores.objects import FileChanged, Found, Pieces
from perdure.blob_stores.threads import Threads
from perdure.blobs import BlobStat, BlobStoreFull, BlobStoreUnavailable, Data
from perdure.clock import Clock, system

Result = TypeVar("Result")

UNFINISHED = ".unfinished-"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CHUNK = 1024 * 1024


class FolderObjects:
    def __init__(self, folder: Path, *, clock: Clock = system) -> None:
        self._folder = folder
        self._clock = clock
        self._threads = Threads()
        self._made: set[Path] = set()
        """Folders known to be there after a power cut too."""

    async def write(self, name: str, data: Data) -> None:
        await self._threads.call(self._guarded, self._write, name, data)

    async def write_file(self, name: str, path: Path, digest: str) -> bool:
        return await self._threads.call(self._guarded, self._write_file, name, path, digest)

    async def create(self, name: str, data: Data) -> bool:
        return await self._threads.call(self._guarded, self._create, name, data)

    async def read(self, name: str, first: int = 0, count: int | None = None) -> bytes | None:
        return await self._threads.call(self._guarded, self._read, name, first, count)

    async def look(self, name: str) -> BlobStat | None:
        return await self._threads.call(self._guarded, self._look, name)

    async def find(self, folder: str, after: str, limit: int) -> list[Found]:
        return await self._threads.call(self._guarded, self._list, folder, after, limit)

    async def move(self, name: str, to: str) -> bool:
        return await self._threads.call(self._guarded, self._move, name, to)

    async def remove(self, name: str) -> None:
        await self._threads.call(self._guarded, self._remove, name)

    async def tidy(self, before: float) -> int:
        return await self._threads.call(self._guarded, self._tidy, before)

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        return await self._threads.compute(function, *args)

    async def close(self) -> None:
        self._threads.close()

    # -- in a thread ---------------------------------------------------------------------------------------------------

    def _guarded(self, function: Callable[..., Result], *args: object) -> Result:
        try:
            return function(*args)
        except OSError as error:
            kind = BlobStoreFull if error.errno in _FULL else BlobStoreUnavailable
            hint = "make room" if kind is BlobStoreFull else "check the folder and its rights"
            raise kind(f"blob folder {self._folder}: {error.strerror or error}; {hint}") from error

    def _write(self, name: str, data: Data) -> None:
        path = self._folder / name
        if self._refresh(path, data):
            return
        self._publish(path, [data], os.replace)

    def _write_file(self, name: str, source: Path, digest: str) -> bool:
        try:
            self._publish(self._folder / name, Pieces(source, digest), os.replace)
        except FileChanged:
            return False
        return True

    def _create(self, name: str, data: Data) -> bool:
        path = self._folder / name
        try:
            self._publish(path, [data], os.link)
        except FileExistsError:
            return False
        return True

    def _refresh(self, path: Path, data: Data) -> bool:
        """Set the time of a file with the same content to now. False if it is missing or differs: then write it."""
        try:
            if not _is_same(path, data):
                return False
            self._touch(path)
        except FileNotFoundError:
            return False
        self._make(path.parent)
        _sync_folder(path.parent)  # the writer that named it may not have synced yet
        return True

    def _publish(self, path: Path, pieces: Iterable[Data], name_it: Callable[[str, Path], None]) -> None:
        for again in (True, True, False):
            try:
                self._write_and_name(path, pieces, name_it)
                return
            except FileNotFoundError:  # the folder was removed, or tidied by a clock that is far ahead
                self._made.clear()
                if not again:
                    raise

    def _write_and_name(self, path: Path, pieces: Iterable[Data], name_it: Callable[[str, Path], None]) -> None:
        self._make(path.parent)
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
        try:
            self._touch(Path(unfinished))
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                for piece in pieces:
                    view = memoryview(piece)
                    while view:
                        view = view[file.write(view) :]
                os.fsync(file.fileno())
            self._touch(Path(unfinished))
            # Crash here: the file has a name that no reader looks for; `tidy` removes it.
            name_it(unfinished, path)
        finally:
            _unlink(unfinished)
        _sync_folder(path.parent)

    def _make(self, folder: Path) -> None:
        """Make the folder, with its entry and those of all folders above it on the disk."""
        if folder in self._made and folder.is_dir():
            return
        if folder != self._folder:
            self._make(folder.parent)
        folder.mkdir(mode=0o700, parents=folder == self._folder, exist_ok=True)
        _sync_folder(folder.parent)
        self._made.add(folder)

    def _touch(self, path: Path) -> None:
        now = self._clock.now()
        os.utime(path, (now, now))

    def _read(self, name: str, first: int, count: int | None) -> bytes | None:
        try:
            with (self._folder / name).open("rb", buffering=0) as file:
                file.seek(first)
                return file.read() if count is None else file.read(count)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _look(self, name: str) -> BlobStat | None:
        try:
            found = (self._folder / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return BlobStat(found.st_size, found.st_mtime)

    def _list(self, folder: str, after: str, limit: int) -> list[Found]:
        found: list[Found] = []
        for name, entry in _walk(self._folder / folder, folder, after):
            if len(found) == limit:
                break
            try:
                about = entry.stat()
            except FileNotFoundError:
                continue
            found.append(Found(name, about.st_size, about.st_mtime))
        return found

    def _move(self, name: str, to: str) -> bool:
        path, target = self._folder / name, self._folder / to
        self._make(target.parent)
        try:
            self._touch(path)
            os.replace(path, target)
        except FileNotFoundError:
            return False
        _sync_folder(target.parent)
        _sync_folder(path.parent)
        return True

    def _remove(self, name: str) -> None:
        _unlink(self._folder / name)

    def _tidy(self, before: float) -> int:
        number = 0
        for folder, _, files in os.walk(self._folder):
            for file in files:
                path = os.path.join(folder, file)
                if file.startswith(UNFINISHED) and os.stat(path).st_mtime < before:
                    _unlink(path)
                    number += 1
        return number


def _walk(path: Path, name: str, after: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Files by name; folders are entered only where names above `after` may be."""
    try:
        with os.scandir(path) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in ordered:
        full = f"{name}/{entry.name}"
        if entry.is_dir():
            if f"{full}/\U0010ffff" > after:
                yield from _walk(Path(entry.path), full, after)
        elif full > after and not entry.name.startswith(UNFINISHED):
            yield full, entry


def _is_same(path: Path, data: Data) -> bool:
    with path.open("rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size != len(data):
            return False
        view = memoryview(data)
        while view:
            part = file.read(_CHUNK)
            if not part or part != view[: len(part)]:
                return False
            view = view[len(part) :]
        return True


def _unlink(path: Path | str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _sync_folder(folder: Path) -> None:
    """Write a folder's entries to the disk. Where a folder cannot be opened (Windows), the system sees to that."""
    flags = getattr(os, "O_DIRECTORY", None)
    if flags is None:
        return
    descriptor = os.open(folder, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
