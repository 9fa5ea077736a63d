"""`make demo`: an order goes through a fan-out, a fan-in, a loop and an approval, and survives `kill -9` on the way.

Everything you see is `perdure run` itself: the demo only types the commands, in a folder of its own, and kills the process
once. Where nobody can be asked, it also decides. Nothing is left behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
from pathlib import Path

HERE = Path(__file__).parent / "demo"
START = "run order.yaml --run-id demo -i item=lamp -i quantity=3"
GO_ON = "run order.yaml --run-id demo"
KILLED, WAITS, INTERRUPTED = -9, 3, 130
WATCH_SECONDS = 0.6
"""So long `charge` is there to be seen before the process is killed."""
PATIENCE_SECONDS = 40.0
"""A demo must not wait for ever: so long a person may take, then it answers, from another process."""

DUMB = os.environ.get("TERM", "") in ("", "dumb", "unknown")
TERMINAL = not DUMB and all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))
ASKS = TERMINAL and sys.stdin is not None and sys.stdin.isatty()
COLOUR = TERMINAL and not os.environ.get("NO_COLOR")
IN_CHARGE = re.compile(r"charge +running" if TERMINAL else r"going on with it")
"""What is shown when `charge` has begun: on a terminal, also what runs."""

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
        window = Window()
        process = subprocess.Popen(
            [sys.executable, "-m", "perdure", *shlex.split(arguments)],
            cwd=self.folder,
            env=self.environment,
            stdin=None if self.asks else subprocess.DEVNULL,
            stdout=window.inside,
            stderr=window.inside,
        )
        window.open()
        if not self.bank.exists():
            threading.Thread(target=self.kill_in_charge, args=(process, window), daemon=True).start()
        if self.asks and arguments == START:
            threading.Thread(target=self.answer_late, args=(process,), daemon=True).start()
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            window.close()
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

    def kill_in_charge(self, process: subprocess.Popen[bytes], window: Window) -> None:
        """The money is taken when the bank has written it down; and whoever watches has seen `charge`."""
        pause = threading.Event()
        while process.poll() is None and not (self.bank.exists() and window.has_shown(IN_CHARGE)):
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
        say("\nSee it in a browser:   .venv/bin/perdure dev, in an empty folder")
        say("A project of your own: .venv/bin/perdure init hello")
        say("More to see:           examples/README.md, docs/tutorial.md")


class Window:
    """Where a command writes: everything comes out here, and the demo knows what was shown."""

    def __init__(self) -> None:
        self._shown = b""
        self._outside, self.inside = os.openpty() if TERMINAL else os.pipe()
        if TERMINAL:
            mode = termios.tcgetattr(self.inside)
            mode[1] &= ~termios.OPOST  # the terminal that it comes out on does that
            termios.tcsetattr(self.inside, termios.TCSANOW, mode)
            self._fit()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)

    def open(self) -> None:
        """Begin, once the command has the inside for itself."""
        os.close(self.inside)
        self._thread.start()

    def close(self) -> None:
        self._thread.join()
        os.close(self._outside)

    def has_shown(self, what: re.Pattern[str]) -> bool:
        return what.search(re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", self._shown.decode(errors="replace"))) is not None

    def _fit(self) -> None:
        termios.tcsetwinsize(self._outside, termios.tcgetwinsize(sys.stdout))

    def _pass_on(self) -> None:
        with contextlib.suppress(OSError):  # so a terminal ends
            while data := os.read(self._outside, 65536):
                sys.stdout.buffer.write(data)
                sys.stdout.flush()
                self._shown += data
                if TERMINAL:
                    self._fit()


def say(text: str = "", colour: str = "") -> None:
    print(f"\033[{colour}m{text}\033[0m" if colour and COLOUR else text, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
