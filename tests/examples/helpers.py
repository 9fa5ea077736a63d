"""Programs of the examples, on a terminal or without one, and copies of their folders."""

import os
import pty
import re
import shutil
import subprocess
import sys
import termios
from pathlib import Path

from tests.cli.helpers import Process
from tests.ports import free_port

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
COLUMNS, ROWS = 100, 50


def copy(name, folder):
    """The example's folder, to be worked in."""
    return give_own_port(Path(shutil.copytree(EXAMPLES / name, folder / name)))


def give_own_port(folder):
    """The folder of an example, with another port than the one that it and its copies call: they run side by side."""
    for file in folder.glob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        for port in set(re.findall(r"http://127\.0\.0\.1:(\d+)", text)):
            text = text.replace(f":{port}/", f":{free_port()}/")
        file.write_text(text, encoding="utf-8")
    return folder


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    return {**kept, "TERM": "xterm-256color", **more}


def start(folder, *command, stdin=subprocess.DEVNULL, **more):
    ours, theirs = os.pipe()
    popen = subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment(**more),
        stdin=stdin,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    return Process(popen, ours)


def start_on_terminal(folder, *command, stdin=True, **more):
    """With `stdin=False`, a terminal to look at, but none to type on."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
    popen = subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment(**more),
        stdin=theirs if stdin else subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    return Process(popen, ours)
