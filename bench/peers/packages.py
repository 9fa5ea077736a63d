"""`python -m bench.peers.packages NAME …`: version and size of packages with all that they need, in this environment, as JSON.

Standard library only, as far as it goes: it runs in the environment of each peer.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

NAME = re.compile(r"^([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?")


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def find_all(wanted: list[str]) -> dict[str, Distribution]:
    """The packages and, from each to the next, those that they require. A requirement that is not installed was not needed."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    left = list(wanted)
    while left:
        match = NAME.match(left.pop())
        assert match is not None
        name, extras = plain(match[1]), [one.strip() for one in (match[2] or "").split(",") if one.strip()]
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = one
        for extra in ("", *extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                left += [needed for needed in one.requires or [] if _applies(needed, extra)]
    return found


def _applies(requirement: str, extra: str) -> bool:
    """Other markers than extras (a platform, a Python) show in what is installed."""
    match = re.search(r"""extra\s*==\s*["']([^"']+)["']""", requirement)
    return (plain(match[1]) if match else "") == plain(extra)


def size_of(one: Distribution) -> int:
    total = 0
    for file in one.files or []:
        path = Path(str(one.locate_file(file)))
        if path.is_file():
            total += path.stat().st_size
    return total


def size_of_folder(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> None:
    found = find_all(sys.argv[1:])
    first = NAME.match(sys.argv[1])
    assert first is not None
    sizes = {name: size_of(one) for name, one in found.items()}
    print(
        json.dumps(
            {
                "version": found[plain(first[1])].version,
                "versions": {name: one.version for name, one in found.items()},
                "bytes": sum(sizes.values()),
            }
        )
    )


if __name__ == "__main__":
    main()
