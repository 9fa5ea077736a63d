"""From a URL to a blob store: `file:folder`, `s3://bucket/prefix`, others the object-store library knows, and
`memory:`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from perdure.blob_stores.folder import FolderObjects
from perdure.blob_stores.memory import MemoryObjects
from perdure.blob_stores.objects import ObjectBlobs, Objects
from perdure.clock import Clock, system
from perdure.errors import SettingsInvalid

CLOUDS = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


def open_store(
    url: str, *, clock: Clock = system, owner: Callable[[], Awaitable[str]] | None = None, **options: Any
) -> ObjectBlobs:
    return ObjectBlobs(_open(url, clock, options), clock.new_id, owner)


def _open(url: str, clock: Clock, options: dict[str, Any]) -> Objects:
    scheme, _, rest = url.partition(":")
    if scheme == "file":
        return FolderObjects(_folder(url, rest), clock=clock)
    if scheme == "memory":
        return MemoryObjects(clock=clock)
    if scheme in CLOUDS:
        from perdure.blob_stores.cloud import CloudObjects  # late: most processes need none of it

        return CloudObjects(url, **options)
    known = ", ".join(f"{name}://…" for name in CLOUDS)
    raise SettingsInvalid(f"blob store {url}: expected file:folder, {known}; '{scheme}:' is none of them")


def _folder(url: str, rest: str) -> Path:
    """The folder a URL names: `file:blobs` is relative to the working directory; `file:/var/blobs` and
    `file:///var/blobs` are absolute."""
    path = rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host or not slash:
            raise SettingsInvalid(f"blob store {url}: write file:folder, or file:///absolute/folder")
        path = f"/{path}"
    if not path:
        raise SettingsInvalid(f"blob store {url}: the URL names no folder; write file:folder")
    return Path(path)
