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
        if _stays(path, before):
            file: IO[bytes] = path.open("wb")
            unfinished = None
        else:
            descriptor, unfinished = _make_beside(path, before)
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


def _make_beside(path: Path, before: os.stat_result | None) -> tuple[int, str]:
    """A new file in the same folder."""
    try:
        return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=SUFFIX)
    except OSError as error:
        if before is None or not os.access(path, os.W_OK):
            raise
        raise click.ClickException(
            f"cannot write {path}: the file is replaced as a whole, by one that is made beside it, and in {path.parent} none can be "
            f"made ({error.strerror}); name a file in another folder, or write into this one with -o /dev/stdout > {path.name}"
        ) from error


def _place_of(path: Path) -> Path:
    """Where the file is to be: a link leads there, unless others can put links into its folder."""
    if not path.is_symlink():
        return Path(os.path.realpath(path))
    return path if _is_shared(path.parent) or _is_open(path) else Path(os.path.realpath(path))


def _is_shared(folder: Path) -> bool:
    return bool(os.stat(folder).st_mode & (stat.S_IWOTH | stat.S_ISVTX))


def _is_open(path: Path) -> bool:
    """Whether a link leads to what this process has open, as `/dev/stdout` and `>(command)` do: that may have no name."""
    for _ in range(40):
        if os.path.realpath(path.parent).startswith("/proc/"):
            return True
        if not path.is_symlink() or _is_shared(path.parent):
            break
        path = path.parent / os.readlink(path)
    return False


def _stays(path: Path, before: os.stat_result | None) -> bool:
    """Whether nothing can take the place of what is there: a device, a pipe, or what this process has open."""
    if before is None or stat.S_ISREG(before.st_mode):
        return False
    return _is_open(path) if stat.S_ISLNK(before.st_mode) else True


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
