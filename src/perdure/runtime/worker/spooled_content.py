"""The content of an asset as it can be stored: bytes in memory where they are there already, otherwise a file.

It owns the way from what a function returned to that, and the limit of one asset.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure.assets import PIECE, Asset
from perdure.outcomes import Failure


@asynccontextmanager
async def spooled(asset: Asset, most: int) -> AsyncIterator[tuple[bytes | Path, int]]:
    """The content, as bytes or as a file, and its size. What is read from an open file is in a file of its own meanwhile."""
    data = asset.data
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, bytes | bytearray):
        check_size(len(data), most)
        yield bytes(data), len(data)
        return
    if not hasattr(data, "read"):
        path = Path(data)
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
            if not await asyncio.to_thread(path.is_file):
                raise Failure("bad_output", f"{asset!r} is made of something that is no file", retryable=False)
        except OSError as error:
            message = f"{asset!r} is made of a file that cannot be read: {error.strerror}; files in ctx.folder stay until the attempt ends"
            raise Failure("bad_output", message, retryable=False) from error
        check_size(size, most)
        yield path, size
        return
    with tempfile.NamedTemporaryFile(prefix="perdure-") as file:
        try:
            size = await asyncio.to_thread(_copy, data, file, most)
        finally:
            await asyncio.to_thread(getattr(data, "close", lambda: None))
        yield Path(file.name), size


def check_size(size: int, most: int) -> None:
    if size > most:
        message = f"an asset has {size:,} bytes or more, and {most:,} are allowed (PERDURE_ASSET_MAX_BYTES); return it in parts"
        raise Failure("asset_too_large", message, retryable=False)


def _copy(source: Any, file: Any, most: int) -> int:
    size = 0
    while piece := source.read(PIECE):
        if not isinstance(piece, bytes | bytearray):
            raise Failure(
                "bad_output", "an asset is made of a file that was opened as text; open it as 'rb'", retryable=False
            )
        size += len(piece)
        check_size(size, most)
        file.write(piece)
    file.flush()
    return size
