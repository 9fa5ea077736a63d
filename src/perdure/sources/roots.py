"""Which files of this machine sources may read: those under the roots, once every link on the way is followed."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from perdure.sources import SourceRefused

_REPLACED = "a part of the path is a link now, or no folder; links are followed only once, when the source is opened"


def open_folder(real: Path) -> int:
    """A descriptor of a folder, by its real path. Each part is opened in the one before, and none may be a link: what replaces a part
    after the path was resolved leads nowhere. Raises SourceRefused, OSError."""
    how = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    found = os.open(real.anchor, how)
    try:
        for part in real.parts[1:]:
            inner = os.open(part, how, dir_fd=found)
            os.close(found)
            found = inner
    except OSError as error:
        os.close(found)
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise SourceRefused(_REPLACED) from None
        raise
    return found


def check_place(real: Path, roots: Sequence[str]) -> None:
    """Raises SourceRefused when a real path is no longer one: a part of it was replaced by a link since it was resolved."""
    if resolve_place(str(real), roots) != real:
        raise SourceRefused(_REPLACED)


def resolve_place(path: str, roots: Sequence[str], written: str = "") -> Path:
    """The real path. Raises SourceRefused, which names it as it was `written`, when it is under none of the roots."""
    real = Path(os.path.realpath(path))
    allowed = [Path(os.path.realpath(root)) for root in roots if root]
    if not any(real == root or root in real.parents for root in allowed):
        what = f"'{written}'" if written else "the path"
        raise SourceRefused(
            f"{what} is under none of the folder_roots; add one of its parents to this setting (PERDURE_FOLDER_ROOTS)"
        )
    return real
