"""Objects in a bucket, or in anything else the object-store library speaks: `s3://bucket/prefix`, `gs://…`, `az://…`.

Credentials come from where that library looks for them (`AWS_…`, `GOOGLE_…`, `AZURE_…`), never from a URL. A service of
your own is named in the URL (`s3://bucket/prefix?endpoint=http://host:9000&region=…`) or in `AWS_ENDPOINT_URL`. A write
is durable when the service has answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import from_url

from perdure.blob_stores.objects import PIECE, FileChanged, Found, Pieces
from perdure.blob_stores.threads import Threads
from perdure.blobs import BlobStat, BlobStoreUnavailable, Data
from perdure.errors import SettingsInvalid

Result = TypeVar("Result")

_RETRY = {"max_retries": 2, "retry_timeout": timedelta(seconds=20)}
"""Short, because the caller tries again, and other callers should not wait meanwhile."""
_IN_URL = ("endpoint", "region")


class CloudObjects:
    def __init__(self, url: str, **options: Any) -> None:
        """`options` go to the library: `access_key_id`, … under the service's own names."""
        self._url, _, query = url.partition("?")
        self._threads = Threads()
        options = {**self._read_query(query), **options}
        if str(options.get("endpoint", "")).startswith("http:"):
            options.setdefault("client_options", {"allow_http": True})
        try:
            self._store: Any = from_url(self._url, retry_config=_RETRY, **options)  # type: ignore[call-overload]
        except (BaseError, ValueError, TypeError) as error:
            raise SettingsInvalid(f"blob store {self._url}: {_first_line(error)}") from error

    def _read_query(self, query: str) -> dict[str, Any]:
        found = dict(parse_qsl(query))
        unknown = sorted(found.keys() - set(_IN_URL))
        if unknown:
            raise SettingsInvalid(
                f"blob store {self._url}: unknown {', '.join(unknown)}; a URL may give {', '.join(_IN_URL)}, and "
                "credentials come from the environment"
            )
        return {**found, "virtual_hosted_style_request": False} if "endpoint" in found else found

    async def write(self, name: str, data: Data) -> None:
        await self._try(obstore.put_async(self._store, name, data, use_multipart=False))

    async def write_file(self, name: str, path: Path, digest: str) -> bool:
        pieces = Pieces(path, digest)
        if (
            await self._threads.call(path.stat)
        ).st_size <= PIECE:  # one request, of which the service keeps all or nothing
            try:
                await self.write(name, b"".join(pieces))
            except FileChanged:
                return False
            return True
        # Crash here: the service keeps the parts that came, under no name; a rule of the bucket removes them.
        sending = obstore.put_async(self._store, name, iter(pieces), chunk_size=2 * PIECE, max_concurrency=2)
        try:
            await self._try(sending)
        except BlobStoreUnavailable:
            if pieces.has_changed:
                return False
            raise
        return True

    async def create(self, name: str, data: Data) -> bool:
        try:
            await self._try(obstore.put_async(self._store, name, data, mode="create"))
        except FileExistsError:
            return False
        return True

    async def read(self, name: str, first: int = 0, count: int | None = None) -> bytes | None:
        try:
            if count is not None:
                found = await self._try(obstore.head_async(self._store, name))
                end = min(first + count, found["size"])
                if first >= end:
                    return b""
                part = await self._try(obstore.get_range_async(self._store, name, start=first, end=end))
                return part.to_bytes()
            answer = await self._try(obstore.get_async(self._store, name))
            content = await self._try(answer.bytes_async())
            return content.to_bytes()
        except FileNotFoundError:
            return None

    async def look(self, name: str) -> BlobStat | None:
        try:
            found = await self._try(obstore.head_async(self._store, name))
        except FileNotFoundError:
            return None
        return BlobStat(found["size"], found["last_modified"].timestamp())

    async def find(self, folder: str, after: str, limit: int) -> list[Found]:
        stream = obstore.list(self._store, prefix=folder, offset=after or None, chunk_size=min(limit, 1000))
        found: list[Found] = []
        while len(found) < limit:
            try:
                chunk = await self._try(stream.__anext__())
            except StopAsyncIteration:
                break
            found.extend(Found(one["path"], one["size"], one["last_modified"].timestamp()) for one in chunk)
        return sorted(found, key=lambda one: one.name)[:limit]

    async def move(self, name: str, to: str) -> bool:
        try:
            await self._try(obstore.copy_async(self._store, name, to))
            # Crash here: both copies are there, which is one too many; the next collection moves the object again.
            await self._try(obstore.delete_async(self._store, name))
        except FileNotFoundError:
            return False
        return True

    async def remove(self, name: str) -> None:
        try:
            await self._try(obstore.delete_async(self._store, name))
        except FileNotFoundError:
            pass

    async def tidy(self, before: float) -> int:
        return 0  # a write is one request: the service keeps all of it or nothing

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        return await self._threads.compute(function, *args)

    async def close(self) -> None:
        self._threads.close()

    async def _try(self, work: Awaitable[Result]) -> Result:
        """Translate the library's errors: FileNotFoundError and FileExistsError are answers, all others are none."""
        try:
            return await work
        except FileNotFoundError:
            raise
        except AlreadyExistsError as error:
            raise FileExistsError(_first_line(error)) from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise BlobStoreUnavailable(
                f"blob store {self._url} refuses the credentials: {_first_line(error)}; check those of this process"
            ) from error
        except (BaseError, OSError, FileChanged) as error:
            raise BlobStoreUnavailable(f"blob store {self._url}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    """The first line of an error's text: the library's messages go on with a dump of its own structures."""
    return str(error).partition("\n")[0][:300]
