"""Programs of others that judge Perdure: each is fetched into a folder of its own under `.judges`, from pinned wheels, and not into `.venv`.

`python scripts/judges.py NAME…` fetches those of requirements/judges that are not here. What they need and `.venv` has, they take from there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".judges"
REQUIREMENTS = ROOT / "requirements" / "judges"


class Unavailable(Exception):
    """A judge cannot be had here; the message says why."""


def folder_of(name: str) -> Path:
    return CACHE / name


def is_here(name: str) -> bool:
    stamp = folder_of(name) / ".ready"
    return stamp.exists() and stamp.read_text() == _mark(name)


def fetch(name: str) -> Path:
    """The folder of a judge, which is fetched if it is not here. Raises Unavailable."""
    with Path(__file__).open("rb") as own:
        fcntl.flock(own, fcntl.LOCK_EX)  # two at once take turns; the second finds the work done
        if is_here(name):
            return folder_of(name)
        print(f"judges: fetching {name}", flush=True)
        shutil.rmtree(folder_of(name), ignore_errors=True)
        options = ["--disable-pip-version-check", "--no-input", "--progress-bar=off", "--quiet"]
        kinds = ["--no-deps", "--only-binary=:all:", "--target", str(folder_of(name))]
        command = [sys.executable, "-m", "pip", "install", *options, *kinds, "-r", str(_pins(name))]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"pip failed with exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
        (folder_of(name) / ".ready").write_text(_mark(name))
        return folder_of(name)


def environment(name: str) -> dict[str, str]:
    """Variables for a Python of `.venv` that also has the judge, which comes first."""
    path = os.pathsep.join([str(folder_of(name)), str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path}


def _pins(name: str) -> Path:
    return REQUIREMENTS / f"{name}.txt"


def _mark(name: str) -> str:
    return hashlib.sha256(sys.version.encode() + _pins(name).read_bytes()).hexdigest()


def main() -> int:
    failed = 0
    for name in sys.argv[1:]:
        try:
            fetch(name)
        except Unavailable as error:
            print(f"judges: {name} cannot be had: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
