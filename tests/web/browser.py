"""A real Chromium for tests, without root: the npm package @sparticuz/chromium of `ui/package-lock.json`, unpacked once.

It works on Linux on x86-64; elsewhere `PERDURE_TEST_BROWSER` names the program of a Chromium or Chrome. Where there is none,
tests that need one are skipped and say why, and fail where `CI` is set.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import brotli
import pytest

from scripts.ui import UI, has_tools

# Under another name from here on, also for xdist's workers: programs that tests start would take it for an unknown setting.
if "PERDURE_TEST_BROWSER" in os.environ:
    os.environ["TEST_BROWSER"] = os.environ.pop("PERDURE_TEST_BROWSER")
PROGRAM = os.environ.get("TEST_BROWSER", "")
PACKAGE = UI / "node_modules" / "@sparticuz" / "chromium"
CACHE = Path(sys.prefix) / "browsers"
PARTS = ("al2023.tar", "swiftshader.tar", "fonts.tar", "chromium")
FONTS = (
    '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">'
    "<fontconfig><dir>{0}/fonts</dir><cachedir>{0}/cache</cachedir></fontconfig>"
)
FLAGS = ["--disable-dev-shm-usage", "--font-render-hinting=none", "--force-color-profile=srgb"]


def need_tools() -> None:
    """Leave the test where the packages of the web interface are not here."""
    if not has_tools():
        leave("the packages of ui/package-lock.json are not here; `make tools` fetches them and says what went wrong")


def leave(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def launch_options() -> dict[str, Any]:
    if PROGRAM:
        return {"executable_path": PROGRAM, "args": FLAGS, "chromium_sandbox": os.getuid() != 0}
    need_tools()
    home = unpack()
    env = {
        **os.environ,
        "HOME": f"{home}/home",
        "LD_LIBRARY_PATH": f"{home}/lib",
        "FONTCONFIG_FILE": f"{home}/fonts.conf",
    }
    return {"executable_path": f"{home}/chromium", "env": env, "chromium_sandbox": False, "args": FLAGS}


def unpack() -> Path:
    """The folder of the browser; workers that come at the same time wait for the first."""
    home = CACHE / f"chromium-{json.loads((PACKAGE / 'package.json').read_text())['version']}"
    if (home / "chromium").exists():
        return home
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "chromium").exists():
            _unpack_into(home)
    return home


def _unpack_into(home: Path) -> None:
    work = Path(tempfile.mkdtemp(dir=CACHE))
    try:
        for name in PARTS:
            content = brotli.decompress((PACKAGE / "bin" / f"{name}.br").read_bytes())
            if name.endswith(".tar"):
                with tarfile.open(fileobj=io.BytesIO(content)) as inner:
                    inner.extractall(work, filter="data")
            else:
                (work / name).write_bytes(content)
        (work / "chromium").chmod(0o755)
        (work / "fonts.conf").write_text(FONTS.format(home))
        (work / "home").mkdir()
        work.rename(home)
    finally:
        shutil.rmtree(work, ignore_errors=True)
