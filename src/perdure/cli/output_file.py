"""The file that `-o` names: it is whole or as it was before, whatever happens meanwhile.

The content is written to a file beside it, which takes its place at the end. Others may put a link where a file of
theirs stands in a folder that everybody writes to; there no link is followed.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import click

SUFFIX = ".unfinished"


@contextmanager
def opened_output(name: str | Path) -> Iterator[IO[bytes]]:
    """The file to write to. If the block raises, the file stays as it was."""
    try:
        path = _place_of(Path(name))
        before = _look_at(path)
        if before is not None and not stat.S_ISREG(before.st_mode) and not stat.S_ISLNK(before.st_mode):
            file: IO[bytes] = path.open("wb")  # a device or a pipe: nothing can take its place
            unfinished = None
        else:
            descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=SUFFIX)
            file = os.fdopen(descriptor, "wb")
    except OSError as error:
        raise _cannot_write(name, error) from error
    try:
        with file:
            yield file
            file.flush()
            if unfinished is not None:
                os.fchmod(file.fileno(), _rights(before))
                os.fsync(file.fileno())
        if unfinished is not None:
            os.replace(unfinished, path)
    except BaseException as error:
        if unfinished is not None:
            with suppress(OSError):
                os.unlink(unfinished)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise _cannot_write(name, error) from error
        raise


def _place_of(path: Path) -> Path:
    """Where the file is to be: a link leads there, unless others can put links into its folder."""
    folder = os.stat(path.parent)
    is_shared = bool(folder.st_mode & stat.S_IWOTH) or bool(folder.st_mode & stat.S_ISVTX)
    return path if is_shared and path.is_symlink() else Path(os.path.realpath(path))


def _look_at(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _rights(before: os.stat_result | None) -> int:
    if before is not None and stat.S_ISREG(before.st_mode):
        return stat.S_IMODE(before.st_mode)
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def _cannot_write(name: str | Path, error: OSError) -> click.ClickException:
    return click.ClickException(f"cannot write {name}: {error.strerror}")
