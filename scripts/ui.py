"""Builds the web interface: `make ui` calls it. The tools are node and npm of `.venv` and the packages of `ui/package-lock.json`.

`--tools` only fetches the packages, among them the browser of the tests; `--watch` builds whenever a file is saved. The
packages are fetched when the lock has changed, and none of their install scripts is run.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UI = ROOT / "ui"
READY = UI / "node_modules" / ".ready"
SCHEMA = UI / "src" / "api" / "schema.ts"
BIN = Path(sys.executable).parent


def fingerprint() -> str:
    return hashlib.sha256((UI / "package.json").read_bytes() + (UI / "package-lock.json").read_bytes()).hexdigest()


def has_tools() -> bool:
    return READY.exists() and READY.read_text() == fingerprint()


def environment() -> dict[str, str]:
    """Node of `.venv` first, and the sources of this folder."""
    path = os.pathsep.join([str(UI / "node_modules" / ".bin"), str(BIN), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}


def run(*command: str, **more: object) -> None:
    done = subprocess.run(command, cwd=UI, env=environment(), check=False, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(done.returncode)


def fetch_tools() -> str:
    """Fetch the packages of the lock, if they are not here. Says what went wrong, or nothing."""
    with Path(__file__).open("rb") as own:
        fcntl.flock(own, fcntl.LOCK_EX)  # two at once take turns; the second finds the work done
        if has_tools():
            return ""
        print("ui: fetching the packages of ui/package-lock.json", flush=True)
        # Not `npm ci`: it refuses a lock made where a registry lacks packages of other systems. The lock is read and not written.
        options = ["--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--loglevel=error"]
        command = [str(BIN / "npm"), "install", *options]
        done = subprocess.run(command, cwd=UI, env=environment(), check=False, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            return f"npm install failed with exit code {done.returncode}: {said[:2000]}"
        READY.write_text(fingerprint())
        return ""


def make_types() -> None:
    """The types of the API, from the document of the server as it is. They leave no trace in what is built."""
    document = UI / "node_modules" / "openapi.json"
    run(sys.executable, str(ROOT / "scripts" / "openapi.py"), str(document))
    made = ["openapi-typescript", str(document), "-o", str(SCHEMA), "--empty-objects-unknown"]
    run(*made, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def check() -> None:
    make_types()
    run("tsc", "--noEmit")
    run("biome", "check", "--error-on-warnings", "src", "test", "build.mjs")
    run("node", "--test", "--test-reporter=dot", "test/*.test.ts")


def main() -> None:
    trouble = fetch_tools()
    if trouble:
        print(f"ui: {trouble}", file=sys.stderr)
    if "--tools" in sys.argv:
        return
    if trouble:
        raise SystemExit(1)
    run(sys.executable, str(ROOT / "scripts" / "tokens.py"))
    if "--watch" in sys.argv:
        make_types()
        run("node", "build.mjs", "--watch")
    else:
        check()
        run("node", "build.mjs")
        print("ui: built; commit src/perdure/web/static with the sources")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
