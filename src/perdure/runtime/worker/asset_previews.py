"""Previews: small pictures or texts of assets, made by what installed distributions bring under `perdure.previews`.

    [project.entry-points."perdure.previews"]
    "image/*" = "my_package:shrink"       # shrink(path, media_type) gives (bytes, media type), or None

A preview is made in the worker, where the asset is stored. One that fails, takes long or is too large is left out, and the log says
so: the asset itself is what counts.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import tempfile
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from perdure.assets import LARGEST_PREVIEW
from perdure.outcomes import Failure

GROUP = "perdure.previews"
SECONDS = 30.0
SHOWN = ("image/png", "image/jpeg", "image/gif", "image/webp", "text/plain", "application/json")
"""What a preview may be: a browser can show each of these without obeying it."""

_log = logging.getLogger(__name__)


async def make_preview(media_type: str, data: bytes | Path) -> tuple[str, bytes] | None:
    """The media type and the bytes of a preview; None if nothing makes one."""
    entry = _find_plugin(media_type.partition(";")[0])
    if entry is None:
        return None
    try:
        async with asyncio.timeout(SECONDS):
            made = await asyncio.to_thread(_call, entry, media_type, data)
        return None if made is None else _check(made)
    except (Exception, Failure) as error:  # noqa: BLE001  code of others; the asset is stored without a preview
        _log.warning("no preview by %s = %s: %s: %s", entry.name, entry.value, type(error).__name__, error)
        return None


@functools.cache
def _list_plugins() -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: (-len(entry.name), entry.value)))


def _find_plugin(media_type: str) -> EntryPoint | None:
    """The plug-in with the longest name that fits: a type, or all of a kind (`image/*`)."""
    for entry in _list_plugins():
        if entry.name == media_type or (entry.name.endswith("/*") and media_type.startswith(entry.name[:-1])):
            return entry
    return None


def _call(entry: EntryPoint, media_type: str, data: bytes | Path) -> Any:
    make: Callable[[Path, str], Any] = entry.load()
    if isinstance(data, Path):
        return make(data, media_type)
    with tempfile.NamedTemporaryFile(prefix="perdure-") as file:
        file.write(data)
        file.flush()
        return make(Path(file.name), media_type)


def _check(made: Any) -> tuple[str, bytes]:
    picture, media_type = made
    if media_type not in SHOWN:
        raise ValueError(f"it gave {media_type!r}, expected one of {', '.join(SHOWN)}")
    if not isinstance(picture, bytes) or len(picture) > LARGEST_PREVIEW:
        raise ValueError(f"it gave something else than up to {LARGEST_PREVIEW:,} bytes")
    return media_type, picture
