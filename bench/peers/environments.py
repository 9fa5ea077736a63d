"""An environment for each peer, under `.peers`: made from its pinned requirements, and made anew when they change."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.subjects import Subject

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".peers"
REQUIREMENTS = Path(__file__).parent / "requirements"
INSTALL_SECONDS = 900


class Unavailable(Exception):
    """A peer cannot be had here; the message says why."""


def python_of(subject: Subject) -> Path:
    return Path(sys.executable) if subject.is_own else CACHE / subject.name / "bin" / "python"


def install(subject: Subject) -> bool:
    """Make the environment if there is none of these requirements. Says whether it was made now."""
    if subject.is_own:
        return False
    pinned = sorted(REQUIREMENTS.glob(f"{subject.name}.*"))
    mark = hashlib.sha256(sys.version.encode() + b"".join(path.read_bytes() for path in pinned)).hexdigest()
    folder = CACHE / subject.name
    stamp = folder / ".ready"
    if stamp.exists() and stamp.read_text() == mark:
        return False
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    _run(sys.executable, "-m", "venv", str(folder))
    pip = ["-m", "pip", "install", "--quiet", "--no-input", "--progress-bar=off", "--only-binary=:all:"]
    _run(str(folder / "bin" / "python"), *pip, "-r", str(REQUIREMENTS / f"{subject.name}.txt"))
    packages = REQUIREMENTS / f"{subject.name}.npm"
    if packages.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise Unavailable("its server is an npm package, and there is no npm on this machine")
        (folder / "npm").mkdir()
        _run(npm, "install", "--no-package-lock", "--prefix", str(folder / "npm"), *packages.read_text().split())
    stamp.write_text(mark)
    return True


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{Path(command[0]).name} took more than {INSTALL_SECONDS} s") from None
    if done.returncode:
        errors = [line for line in (done.stderr + done.stdout).splitlines() if "ERR" in line.upper()]
        raise Unavailable((errors or [done.stderr[-200:]])[-1])


def restate_server() -> Path:
    found = sorted((CACHE / "restate" / "npm" / "node_modules" / "@restatedev").glob("*/bin/restate-server"))
    if not found:
        raise Unavailable("the npm package has no server for this kind of machine")
    return found[0]
