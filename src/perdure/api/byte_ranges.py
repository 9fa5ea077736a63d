"""A part of some content by its bytes: `Range` and `Content-Range` (RFC 9110, section 14), one part at a time."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable

from starlette.requests import Request

from perdure.blobs import BlobDamaged
from perdure.errors import PerdureError

PIECE = 1024 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")


class RangeUnsatisfiable(PerdureError):
    """The part that was asked for begins behind the end of the content."""

    code = "range_not_satisfiable"
    status = 416

    def __init__(self, size: int) -> None:
        super().__init__(f"the content has {size} bytes, and the range begins behind them")
        self.size = size


def wanted_range(request: Request, size: int, tag: str) -> tuple[int, int] | None:
    """The first byte wanted and the one behind the last. None: the whole content, also where the header cannot be read,
    names several parts, or is about content with another tag."""
    condition = request.headers.get("if-range")
    found = _RANGE.fullmatch(request.headers.get("range", "").strip())
    if found is None or found.groups() == ("", "") or (condition is not None and condition.strip() != f'"{tag}"'):
        return None
    first, last = found.groups()
    if not first:  # the last so many bytes
        if int(last) == 0:
            raise RangeUnsatisfiable(size)
        return max(0, size - int(last)), size
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise RangeUnsatisfiable(size)
    return int(first), min(size, int(last) + 1) if last else size


async def in_pieces(read: Callable[[int, int], Awaitable[bytes]], first: int, end: int) -> AsyncGenerator[bytes, None]:
    """The bytes from one to before another, piece by piece. Raises BlobDamaged where the store has fewer: the answer breaks off."""
    while first < end:
        data = await read(first, min(PIECE, end - first))
        if not data:
            raise BlobDamaged(
                f"a blob of which {end:,} bytes were promised ends after {first:,}; look at the blob store"
            )
        yield data
        first += len(data)
