"""Makes `.venv` from the lock; `make setup` calls it. Standard library only: nothing is installed yet when it runs.

The environment is built from nothing each time and its stamp, `.ready`, is written last, so an interrupted setup
leaves no environment that looks finished. The stamp holds what the environment was made from: the lock, the parts of
pyproject.toml that an installation reads, and the folder (an editable install in a copied folder would run the
original). Two setups at once take turns; the second finds the work done.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
READY = VENV / ".ready"
LOCK = ROOT / "requirements" / "dev.lock"


def usable() -> bool:
    """Whether this interpreter can make the environment."""
    has_pip = any(importlib.util.find_spec(name) for name in ("ensurepip", "pip"))
    return (3, 11) <= sys.version_info[:2] <= (3, 14) and has_pip


def fingerprint() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    installed = [project["build-system"], project["project"], project["tool"]["hatch"]]
    digest = hashlib.sha256(f"{ROOT}\n{json.dumps(installed)}\n".encode())
    digest.update(LOCK.read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()


def is_current() -> bool:
    return READY.exists() and READY.read_text() == fingerprint()


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def pip(*arguments: str) -> None:
    """Run pip for the environment. Silent when it works; everything it said when it does not."""
    if importlib.util.find_spec("ensurepip"):
        command = [str(VENV / "bin" / "python"), "-m", "pip"]
    else:  # some distributions ship pip but not ensurepip
        command = [sys.executable, "-m", "pip", "--python", str(VENV / "bin" / "python")]
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    with tempfile.TemporaryFile() as log:
        done = subprocess.run(
            [*command, "install", *options, *arguments], stdout=log, stderr=log, cwd=ROOT, check=False
        )
        if done.returncode:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
            say(f"pip failed with exit code {done.returncode}; what it said is above. Once mended, run make again.")
            raise SystemExit(1)


def build() -> None:
    packages = sum("==" in line for line in LOCK.read_text().splitlines())
    say(f"creating .venv with Python {sys.version.split()[0]}")
    if VENV.exists():
        shutil.rmtree(VENV)
    venv.create(VENV, with_pip=importlib.util.find_spec("ensurepip") is not None)
    say(f"installing {packages} locked packages")
    pip("--require-hashes", "--only-binary=:all:", "-r", str(LOCK))
    say("installing perdure itself, editable")
    pip("--no-deps", "--no-build-isolation", "-e", ".")
    READY.write_text(fingerprint())
    say("ready")


def main() -> None:
    with Path(__file__).open("rb") as own:
        fcntl.flock(own, fcntl.LOCK_EX)  # released by the system when this process ends, however it ends
        if not is_current():
            build()


if __name__ == "__main__":
    if "--usable" in sys.argv:
        sys.exit(not usable())
    if "--current" in sys.argv:
        sys.exit(not is_current())
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("setup: interrupted; the next make begins again")
