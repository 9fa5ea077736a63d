"""The keys that `sensitive` fields are encrypted under: several, each with an id; the first one encrypts.

They come from the setting `encryption_keys`, or from a file beside the database that is made at its first use. Rotation
puts a new key in front; the others stay, because what they encrypted stays.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import stat
from pathlib import Path

from perdure.clock import new_key
from perdure.errors import PerdureError, SettingsInvalid

KEY_BYTES = 32
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


class UnknownKey(PerdureError):
    """A field was encrypted under a key that is not in this ring."""

    code = "unknown_key"


class Keyring:
    def __init__(self, keys: dict[str, bytes]) -> None:
        if not keys:
            raise SettingsInvalid("a keyring needs at least one key")
        self._keys = dict(keys)

    @property
    def current(self) -> str:
        """The id of the key that new fields are encrypted under."""
        return next(iter(self._keys))

    @property
    def ids(self) -> list[str]:
        return list(self._keys)

    def key(self, name: str) -> bytes:
        try:
            return self._keys[name]
        except KeyError:
            raise UnknownKey(
                f"encrypted under key {name!r}, which is not in the keyring (it has: {', '.join(self._keys)}); "
                "put it back, behind the current one"
            ) from None

    def rotated(self) -> Keyring:
        """The keyring with a new key in front."""
        number = 1 + max((int(match[1]) for name in self._keys if (match := re.fullmatch(r"k(\d+)", name))), default=0)
        return Keyring({f"k{number}": new_key(KEY_BYTES), **self._keys})

    def dumps(self) -> str:
        return ",".join(f"{name}:{base64.b64encode(key).decode()}" for name, key in self._keys.items())


def parse(text: str, where: str) -> Keyring:
    """The keyring in `id:base64,id:base64`, the current key first. Messages never hold a key."""
    keys: dict[str, bytes] = {}
    for number, part in enumerate(text.split(","), 1):
        name, _, encoded = part.strip().partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            key = b""
        if not _ID.fullmatch(name) or len(key) != KEY_BYTES:
            raise SettingsInvalid(
                f"{where}: key {number} is not `id:base64` with {KEY_BYTES} bytes; `perdure secrets rotate` makes one"
            )
        if name in keys:
            raise SettingsInvalid(f"{where}: two keys are called {name!r}")
        keys[name] = key
    return Keyring(keys)


def read_file(path: Path) -> Keyring | None:
    """The keyring in a file that only its owner may read; None if there is no such file."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SettingsInvalid(f"cannot read the keys in {path}: {type(error).__name__}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsInvalid(f"{path} can be read by others (mode {stat.S_IMODE(mode):o}); run: chmod 600 {path}")
    return parse(text.strip().replace("\n", ","), str(path))


def write_file(path: Path, keyring: Keyring) -> None:
    """Replace the file as a whole: a crash leaves the old one or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(keyring.dumps().replace(",", "\n") + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def open_file(path: Path) -> Keyring:
    """The keyring in `path`, made now if there is none. Two processes at once come to the same one."""
    found = read_file(path)
    if found is not None:
        return found
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = path.with_name(f"{path.name}.{new_key(8).hex()}")
    write_file(made, Keyring({"k1": new_key(KEY_BYTES)}))
    try:
        with contextlib.suppress(FileExistsError):
            os.link(made, path)  # the first process wins, and no reader sees half a file
    finally:
        made.unlink()
    found = read_file(path)
    assert found is not None, "another process removed the keys that were just made"
    return found
