"""The scripts, one `.lua` file per operation, as Redis runs them.

A script begins with the names of the consumer groups, then what it includes from `scripts/shared/`, then its own text.
`EVALSHA` names a script by its hash.
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

import msgspec

from perdure.transports.redis import names

_FOLDER = Path(__file__).parent / "scripts"
_HEAD = f"local WORKERS, COORDINATORS = '{names.WORKERS}', '{names.COORDINATORS}'\n"
_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)


class Script(msgspec.Struct, frozen=True):
    name: str
    text: str
    hash: str


@functools.cache
def all_scripts() -> dict[str, Script]:
    return {path.stem: _read(path) for path in sorted(_FOLDER.glob("*.lua"))}


def _read(path: Path) -> Script:
    text = path.read_text(encoding="utf-8")
    shared = "".join(
        (_FOLDER / "shared" / f"{name}.lua").read_text(encoding="utf-8") for name in _INCLUDE.findall(text)
    )
    whole = _HEAD + shared + text
    return Script(path.stem, whole, hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest())
