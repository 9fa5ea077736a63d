"""`make demo`: an order goes through a fan-out, a fan-in, a loop and an approval, and survives `kill -9` on the way.

Everything you see is `perdure run` itself: the demo only types the commands, in a folder of its own, and kills the process
once. Where nobody can be asked, it also decides. Nothing is left behind.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).parent / "demo"
START = "run order.yaml --run-id demo -i item=lamp -i quantity=3"
GO_ON = "run order.yaml --run-id demo"
KILLED, WAITS, INTERRUPTED = -9, 3, 130
WATCH_SECONDS = 0.6
"""So long `charge` is seen running before the process is killed."""
PATIENCE_SECONDS = 40.0
"""A demo must not wait for ever: so long a person may take, then it answers, from another process."""

DUMB = os.environ.get("TERM", "") in ("", "dumb", "unknown")
TERMINAL = not DUMB and all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))
ASKS = TERMINAL and sys.stdin is not None and sys.stdin.isatty()
COLOUR = TERMINAL and not os.environ.get("NO_COLOR")

GRAPH = """
     ┌─► stock ───┐
   ──┼─► credit ──┼──► offer ──► manager ──► charge ──► ship
     └─► freight ─┘    ▲   │
                       └───┘
     three at once   join, loop  a person    kill -9
"""


def main() -> int:
    say("An order: checked from three sides, agreed on, approved, charged, shipped.", "1")
    say(GRAPH)
    say("Each step is on disk before the next begins. In `charge` we kill the process.")
    with tempfile.TemporaryDirectory(prefix="perdure-demo-") as name:
        try:
            return Demo(Path(name), asks=ASKS).show()
        except KeyboardInterrupt:
            return INTERRUPTED


class Demo:
    def __init__(self, folder: Path, *, asks: bool) -> None:
        self.folder = folder
        self.asks = asks
        self.bank = folder / "bank.txt"
        self.killed = False
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
        self.environment = kept | {"PYTHONDONTWRITEBYTECODE": "1"}
        for file in ("order.yaml", "tasks.py"):
            shutil.copy(HERE / file, folder)

    def show(self) -> int:
        code = self.perdure(START if self.asks else f"{START} --no-wait")
        if code == WAITS:
            why = "You leave it for later" if self.asks else "There is nobody to ask"
            say(f"\n{why}, so the demo decides. Meanwhile no process is alive.", "33;1")
            self.perdure("approvals approve demo --by manager")
            code = self.perdure(GO_ON)
        if code == KILLED:
            self.killed = True
            say("\n✗ The process is gone. The bank has the money, and `charge` could not say so.", "31;1")
            say("  All that is left is a file, .perdure/perdure.db. The same command goes on:", "31;1")
            code = self.perdure(GO_ON)
        if code == 0:
            self.sum_up()
        return code

    def perdure(self, arguments: str) -> int:
        """One command as a person would type it, and its exit code."""
        say(f"\n$ perdure {arguments}", "36;1")
        process = subprocess.Popen(
            [sys.executable, "-m", "perdure", *shlex.split(arguments)],
            cwd=self.folder,
            env=self.environment,
            stdin=None if self.asks else subprocess.DEVNULL,
            stderr=None if TERMINAL else subprocess.STDOUT,
        )
        if not self.bank.exists():
            threading.Thread(target=self.kill_in_charge, args=(process,), daemon=True).start()
        if self.asks and arguments == START:
            threading.Thread(target=self.answer_late, args=(process,), daemon=True).start()
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if code == KILLED:
            if TERMINAL:
                print("\033[?25h", end="", file=sys.stderr, flush=True)  # it had hidden the cursor
            say(f"\n$ kill -9 {process.pid}", "36;1")
        return code

    def answer_late(self, process: subprocess.Popen[bytes]) -> None:
        """Nobody answered: somebody else does, as a colleague would in another terminal."""
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            command = [sys.executable, "-m", "perdure", *shlex.split("approvals approve demo --by manager")]
            subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, check=False)

    def kill_in_charge(self, process: subprocess.Popen[bytes]) -> None:
        """The money is taken when the bank has written it down."""
        pause = threading.Event()
        while process.poll() is None and not self.bank.exists():
            pause.wait(0.05)
        if process.poll() is None:
            pause.wait(WATCH_SECONDS)
            process.kill()

    def sum_up(self) -> None:
        if not self.killed:
            say("\nNothing was charged, so nothing was killed. Say yes to see it: make demo")
            return
        say("\n$ cat bank.txt", "36;1")
        lines = self.bank.read_text().splitlines()
        say("\n".join(lines))
        paid = "once" if len(lines) == 1 else f"{len(lines)} times"
        say(f"\n✓ `charge` began twice, under one key: the customer paid {paid}.", "32;1")
        say("  What had completed before did not run again: it was on disk.", "32;1")
        say("\nA project of your own: .venv/bin/perdure init hello")
        say("More to see:           examples/README.md, docs/tutorial.md")


def say(text: str = "", colour: str = "") -> None:
    print(f"\033[{colour}m{text}\033[0m" if colour and COLOUR else text, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
