"""`make demo-agent`: an agent on a real model of this machine calls a tool, is killed in the middle of the call, and goes on.

Everything you see is `perdure` itself: the demo only starts the model, types the commands in a folder of its own, and kills the process
once. No key is needed, and nothing is left behind but the model, in `.model`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from demo import INTERRUPTED, KILLED, TERMINAL, Window, say  # noqa: E402
from model import Model, NoModel  # noqa: E402  # pyright: ignore[reportMissingImports]

HERE = Path(__file__).parent / "demo"
RUN = "run lead.yaml --run-id lead"
IN_CALL_SECONDS = 0.5
"""So long the call is under way before the process is killed."""


def main() -> int:
    say(
        "An agent qualifies a lead. Its model is real, small and silly, and runs on this machine: SmolLM2, 135 million parameters.",
        "1",
    )
    say(
        "Each answer of the model and each call of its tool is on disk before the next begins. In the first call we kill the process.\n"
    )
    try:
        with Model() as model, tempfile.TemporaryDirectory(prefix="perdure-demo-") as name:
            return Demo(Path(name), model).show()
    except NoModel as error:
        print(f"demo-agent: there is no model here: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


class Demo:
    def __init__(self, folder: Path, model: Model) -> None:
        self.folder = folder
        self.model = model
        self.asked = folder / "asked.txt"
        self.killed = False
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
        self.environment = kept | {"PYTHONDONTWRITEBYTECODE": "1", "PERDURE_AGENTS_FILE": "agents.toml"}
        for file in ("lead.yaml", "crm.py"):
            shutil.copy(HERE / file, folder)
        (folder / "agents.toml").write_text(model.agents_file)

    def show(self) -> int:
        code = self.perdure(RUN)
        if code == KILLED:
            self.killed = True
            say("\n✗ The process is gone, in the middle of a call. The same command goes on:", "31;1")
            code = self.perdure(RUN)
        if code == 0:
            code = self.perdure("runs transcript lead")
        if code == 0:
            code = self.sum_up()
        return code

    def perdure(self, arguments: str) -> int:
        """One command as a person would type it, and its exit code."""
        say(f"\n$ perdure {arguments}", "36;1")
        window = Window()
        command = [sys.executable, "-m", "perdure", *shlex.split(arguments)]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=window.inside,
            stderr=window.inside,
        )
        window.open()
        if not self.asked.exists():
            threading.Thread(target=self.kill_in_call, args=(process,), daemon=True).start()
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

    def kill_in_call(self, process: subprocess.Popen[bytes]) -> None:
        pause = threading.Event()
        while process.poll() is None and not self.asked.exists():
            pause.wait(0.05)
        pause.wait(IN_CALL_SECONDS)
        if process.poll() is None:
            process.kill()

    def sum_up(self) -> int:
        command = [sys.executable, "-m", "perdure", "runs", "cost", "lead", "--json"]
        told = subprocess.run(
            command, cwd=self.folder, env=self.environment, check=True, capture_output=True, text=True
        )
        kept = json.loads(told.stdout)["total"]["output"]
        wrote = self.model.count_output()
        say(f"\nTokens that the model wrote, as it counts them: {wrote}. That the run has: {kept}.")
        if wrote != kept:
            say("✗ They should be equal.", "31;1")
            return 1
        if self.killed:
            say("✓ No answer was asked for twice: what the model had said before the crash was on disk.", "32;1")
        else:
            say("The model answered without calling its tool, so nothing was killed.")
        say("\nAn agent with people, guards and routes: examples/leads. A guide: docs/guides/agents.md")
        return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
