"""Assets: files that functions give and take. `perdure.Asset` is what they hold; in a run's journal stands where its content is.

    {"$asset": {"ref": "cas://sha256:…", "name": "report.pdf", "media_type": "application/pdf", "size": 51200}}

It owns the form of that value, and what a name and a media type may be: both are data, as the workflow gives them. How content is
stored and fetched is the worker's business.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import mimetypes
import os
import re
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path, PurePath
from typing import Any, BinaryIO, TypeVar

import msgspec

from perdure.blobs import is_ref
from perdure.errors import PerdureError
from perdure.outcomes import Failure
from perdure.plain_text import cut, find_name_trouble

T = TypeVar("T")

KEY = "$asset"
ANY_TYPE, TEXT_TYPE = "application/octet-stream", "text/plain"
PIECE = 1024 * 1024
"""How much of an asset is in memory at a time."""
MOST_AT_ONCE = 64 * 1024 * 1024
"""The largest asset that `read` gives as one value."""
LARGEST_PREVIEW = 64 * 1024
"""The most bytes of a preview, which counts for nothing beside its asset."""
_MEDIA_TYPE = re.compile(
    r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,99}(?:; ?[a-z0-9-]{1,20}=[A-Za-z0-9._-]{1,40})?"
)
_NO_FILE = re.compile(r'[/\\"]')
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Preview(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A small picture or text of an asset, which a plug-in made."""

    ref: str
    media_type: str
    size: int


class StoredAsset(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An asset as a journal holds it."""

    ref: str
    media_type: str
    name: str
    size: int
    preview: Preview | None = None


class NotStored(PerdureError):
    """A value holds an asset that is not stored, where nothing can store it."""

    code = "asset_not_stored"
    status = 400

    def __init__(self) -> None:
        super().__init__(
            "an asset is stored when a function or a step returns it; it cannot be put into a checkpoint, a stream or an answer, and "
            "for the inputs of a run it is uploaded first: client.assets.put(…)"
        )


class Source(ABC):
    """Where an attempt reads stored content from."""

    @abstractmethod
    async def part(self, ref: str, first: int, count: int) -> bytes: ...

    @abstractmethod
    def part_in_thread(self, ref: str, first: int, count: int) -> bytes: ...

    @abstractmethod
    def folder(self) -> Path:
        """Where copies go: it is removed when the attempt ends."""

    @abstractmethod
    async def beside(self, work: Callable[[], T]) -> T:
        """Do what blocks in a thread."""


class Asset:
    """A file: returned by a function, it is stored and goes on as a reference; given to a function, it is read from where it is.

    `data` is the content as bytes or text, a `Path` to a file, or an open binary file. Without a media type it is what the name
    says, and else `application/octet-stream`, or `text/plain` for text.
    """

    __slots__ = ("__weakref__", "_data", "_source", "media_type", "name", "stored")

    def __init__(
        self, data: bytes | bytearray | str | os.PathLike[str] | BinaryIO, media_type: str = "", name: str = ""
    ) -> None:
        given: object = data
        if not isinstance(given, bytes | bytearray | str | os.PathLike) and not callable(getattr(given, "read", None)):
            raise TypeError(f"an asset is bytes, text, a Path or an open binary file, got {type(given).__name__}")
        self._data: Any = given
        self._source: Source | None = None
        self.stored: StoredAsset | None = None
        """What a journal holds of it; None until it is stored."""
        name = name or (PurePath(given).name if isinstance(given, os.PathLike) else "")
        if (trouble := find_file_trouble(name)) is not None:
            raise ValueError(f"the name of an asset: {trouble}")
        guessed = mimetypes.guess_type(name)[0] if name else None
        media_type = media_type or guessed or (TEXT_TYPE if isinstance(given, str) else ANY_TYPE)
        if not is_media_type(media_type):
            raise ValueError(f"{cut(ascii(media_type), 100)} is not a media type, such as image/png")
        self.name = name
        """What the file is called; empty if nobody said."""
        self.media_type = media_type

    @classmethod
    def from_stored(cls, stored: StoredAsset, source: Source | None) -> Asset:
        asset = cls.__new__(cls)
        asset._data, asset._source, asset.stored = None, source, stored
        asset.name, asset.media_type = stored.name, stored.media_type
        return asset

    def __repr__(self) -> str:
        return f"<perdure asset {self.name or 'without a name'!r}, {self.media_type}>"

    @property
    def data(self) -> Any:
        """What the asset was made of; None: it came from a run. For workers."""
        return self._data

    @property
    def size(self) -> int:
        """How many bytes it has."""
        if self.stored is not None:
            return self.stored.size
        if isinstance(self._data, os.PathLike):
            return os.stat(self._data).st_size
        return len(self._get_bytes())

    def read(self) -> Any:
        """The whole content, of up to 64 MiB. To be awaited on an event loop; blocks in a thread."""
        if self.size > MOST_AT_ONCE:
            message = f"the asset has {self.size:,} bytes; read one of more than {MOST_AT_ONCE:,} by path(), pieces() or open()"
            raise Failure("asset_too_large", message, retryable=False)
        return self._either(self._read_async, lambda: b"".join(self._pieces(PIECE)))

    def path(self) -> Any:
        """A file of this machine with the content, checked against its hash; it is gone when the attempt ends. To be awaited on an
        event loop; blocks in a thread."""
        return self._either(self._path_async, self._copy)

    def pieces(self, size: int = PIECE) -> Pieces:
        """The content in pieces: `async for` on an event loop, `for` in a thread."""
        if not 1 <= size <= MOST_AT_ONCE:
            raise ValueError(f"expected a size between 1 and {MOST_AT_ONCE:,}, got {size}")
        return Pieces(self, size)

    def open(self) -> io.BufferedReader:
        """A binary file to read, of which only what is read is fetched. In a thread alone: it blocks."""
        if _is_on_loop():
            raise RuntimeError(
                "asset.open() blocks, and would hold up the event loop; await asset.path(), or write a plain `def`"
            )
        if self.stored is None and isinstance(self._data, os.PathLike):
            return open(self._data, "rb")
        return io.BufferedReader(_Remote(self), PIECE)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _either(self, on_loop: Callable[[], Awaitable[T]], in_thread: Callable[[], T]) -> Any:
        return on_loop() if _is_on_loop() else in_thread()

    def part(self, first: int, count: int) -> bytes:
        """Read `count` bytes from `first` on. For threads."""
        if self.stored is not None:
            return self._get_source().part_in_thread(self.stored.ref, first, count)
        if isinstance(self._data, os.PathLike):
            with open(self._data, "rb") as file:
                file.seek(first)
                return file.read(count)
        return self._get_bytes()[first : first + count]

    async def _part_async(self, first: int, count: int) -> bytes:
        if self.stored is not None:
            return await self._get_source().part(self.stored.ref, first, count)
        return self.part(first, count)

    def _get_source(self) -> Source:
        if self._source is None:
            raise RuntimeError(f"{self!r} can be read by the function that was given it, while that runs")
        return self._source

    def _get_bytes(self) -> bytes:
        """The content of one that is not stored, which is small or in a file."""
        if isinstance(self._data, str):
            return self._data.encode()
        if not isinstance(self._data, bytes | bytearray):
            self._data = self._data.read()
        return bytes(self._data)

    def _pieces(self, size: int) -> Iterator[bytes]:
        seen = hashlib.sha256()
        for first in range(0, self.size, size):
            yield self._note(self.part(first, min(size, self.size - first)), seen)
        self._check(seen.hexdigest())

    async def _pieces_async(self, size: int) -> AsyncIterator[bytes]:
        seen = hashlib.sha256()
        for first in range(0, self.size, size):
            yield self._note(await self._part_async(first, min(size, self.size - first)), seen)
        self._check(seen.hexdigest())

    def _note(self, piece: bytes, seen: Any) -> bytes:
        """Note a piece. The size is what a value says (S20): where nothing comes any more, nobody goes on to that end."""
        seen.update(piece)
        if not piece:
            self._check(seen.hexdigest())
            if self.stored is not None:
                message = f"{self.name or 'an asset'} is said to have {self.size:,} bytes, and has fewer"
                raise Failure("blob_damaged", message, retryable=False)
        return piece

    def _check(self, digest: str) -> None:
        if self.stored is not None and not self.stored.ref.endswith(digest):
            message = f"{self.name or 'an asset'}: something else is kept under {self.stored.ref}; put the right content again"
            raise Failure("blob_damaged", message, retryable=False)

    async def _read_async(self) -> bytes:
        return b"".join([piece async for piece in self._pieces_async(PIECE)])

    def _copy(self) -> Path:
        if self.stored is None and isinstance(self._data, os.PathLike):
            return Path(self._data)
        path = self._make_file()
        with path.open("wb") as file:
            for piece in self._pieces(PIECE):
                file.write(piece)
        return path

    async def _path_async(self) -> Path:
        if self._source is None:
            return self._copy()
        path = await self._source.beside(self._make_file)
        with path.open("wb") as file:
            async for piece in self._pieces_async(PIECE):
                await self._source.beside(lambda piece=piece: file.write(piece))  # type: ignore[misc]
        return path

    def _make_file(self) -> Path:
        """An empty file whose name ends as the asset's does, and can do no harm."""
        safe = _UNSAFE.sub("_", self.name).lstrip(".")[-100:] or "asset"
        if self._source is not None:
            return Path(tempfile.mkdtemp(dir=self._source.folder())) / safe
        folder = tempfile.mkdtemp(prefix="perdure-asset-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder) / safe

    # -- as data -------------------------------------------------------------------------------------------------------

    def __perdure_asset__(self) -> Any:
        """The value that stands for it. Raises NotStored."""
        if self.stored is not None:
            return value_of(self.stored)
        wanted = _wanted.get()
        if wanted is None:
            raise NotStored
        if all(one is not self for one in wanted):
            wanted.append(self)
        return None

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """What its value looks like, for inputs and outputs that are annotated with it."""
        return {
            "title": "Asset",
            "type": "object",
            "required": [KEY],
            "properties": {
                KEY: {
                    "type": "object",
                    "required": ["ref", "media_type", "name", "size"],
                    "properties": {"ref": {"type": "string"}},
                }
            },
        }

    @classmethod
    def model_validate(cls, value: Any) -> Asset:
        """The asset of a value, for a function that is annotated with it. Raises ValueError."""
        if isinstance(value, cls):
            return value
        stored = find_asset(value)
        if stored is None:
            raise ValueError("expected an asset")
        return cls.from_stored(stored, _source.get())


class Pieces:
    """The content of an asset, piece by piece."""

    def __init__(self, asset: Asset, size: int) -> None:
        self._asset = asset
        self._size = size

    def __iter__(self) -> Iterator[bytes]:
        return self._asset._pieces(self._size)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._asset._pieces_async(self._size)


class _Remote(io.RawIOBase):
    """An asset as a file that is read by its parts."""

    def __init__(self, asset: Asset) -> None:
        self._asset = asset
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._asset.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._asset.size - self._at)
        if count <= 0:
            return 0
        data = self._asset.part(self._at, count)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


_wanted: ContextVar[list[Asset] | None] = ContextVar("perdure_wanted_assets", default=None)
"""Where assets that are not stored yet are noted while a value is looked through."""
_source: ContextVar[Source | None] = ContextVar("perdure_asset_source", default=None)
"""Where the attempt that is under way reads assets from."""


def find_unstored(look: Callable[[], object]) -> list[Asset]:
    """The assets that are not stored and that making JSON of a value, which `look` does, comes across."""
    found: list[Asset] = []
    token = _wanted.set(found)
    try:
        look()
    finally:
        _wanted.reset(token)
    return found


class reading:  # noqa: N801  it is used as a function
    """Within it, values become assets that are read from this source."""

    def __init__(self, source: Source | None) -> None:
        self._token = _source.set(source)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        _source.reset(self._token)


def given_asset(value: Any) -> Any:
    """The asset, if the value is one; else the value."""
    stored = find_asset(value)
    return value if stored is None else Asset.from_stored(stored, _source.get())


def value_of(stored: StoredAsset) -> dict[str, Any]:
    return {KEY: msgspec.to_builtins(stored)}


def find_asset(value: Any) -> StoredAsset | None:
    """What a value says of an asset; None if it is not exactly the value of one."""
    if type(value) is not dict or len(value) != 1 or type(about := value.get(KEY)) is not dict:
        return None
    try:
        stored = msgspec.convert(about, StoredAsset)
    except msgspec.ValidationError:
        return None
    return stored if _is_sound(stored) else None


def _is_sound(stored: StoredAsset) -> bool:
    preview = stored.preview
    return (
        _names_content(stored.ref)
        and stored.size >= 0
        and is_media_type(stored.media_type)
        and find_file_trouble(stored.name) is None
        and (preview is None or (_names_content(preview.ref) and is_media_type(preview.media_type)))
    )


def _names_content(ref: str) -> bool:
    return is_ref(ref) and ref.startswith("cas://") and not ref.endswith("+refs")


def is_media_type(text: str) -> bool:
    return _MEDIA_TYPE.fullmatch(text) is not None


def find_file_trouble(name: str) -> str | None:
    """Why a file cannot be called so; None if it can. It is data, and goes into headers, pages and folders."""
    if not name:
        return None
    if _NO_FILE.search(name) or name in (".", ".."):
        return "it has a slash, a backslash or a quotation mark, or is no name of a file"
    return find_name_trouble(name)


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
