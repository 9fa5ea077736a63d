"""A `perdure` that starts in a tenth of the time: a process that has imported everything once forks for each command.

Most of what a short command takes is importing. Tests start hundreds of them, and what a command does is tested, not how an
interpreter starts: some of `tests/cli` and `tests/sdk` do that, with processes as anybody starts them. What is forked is a process
like any other: it has its own folder, environment and files, and is signalled and killed.

`Forked` is to be used like `subprocess.Popen`, `run` like `subprocess.run`, also for scripts and modules. For shells, `commands()` is a folder for the front of PATH; the
`perdure` in it hands its arguments, environment, folder and files to the server, and ends with the code of what was forked there.
There, signals go to the one that asks, not to the fork.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path

import perdure.cli
from perdure.private_servers.launcher import die_with_parent
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parent.parent
REAL = Path(sys.executable).parent / "perdure"
IMPORTED = (
    "jinja2.sandbox",
    "perdure.access",
    "perdure.api.server",
    "perdure.api.routes.welcome",
    "perdure.deployment",
    "perdure.drawing",
    "perdure.engine",
    "perdure.journals.postgres",
    "perdure.journals.sqlite",
    "perdure.runtime.origins",
    "perdure.sdk.follower",
    "perdure.secrets.vault",
    "perdure.service.runs.runs",
    "perdure.transports.redis",
    "rich.console",
    "uvloop",
    "zoneinfo",
)

CLIENT = """#!{python} -IS
import _socket, os, sys
is_script = sys.argv[1:] and sys.argv[1].endswith(".py")
if "PYTHONPATH" in os.environ or {program!r} == "python" and not is_script:  # what was imported is not what it would import
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
words = [{program!r}.encode(), os.getcwdb(), *map(os.fsencode, sys.argv[1:]), *(b"=".join(pair) for pair in os.environb.items())]
asked = b"\\0".join([b"%d" % (len(sys.argv) - 1), *words])
files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
server.sendmsg([len(asked).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
while asked:
    asked = asked[server.send(asked):]
server.recv(4)
code = server.recv(4)
code = int.from_bytes(code, "big", signed=True) if code else 70
os._exit(code if code >= 0 else 128 - code)
"""


class Forked:
    """A `perdure` with these words, or a `python`: a script or `-m` and a module. Files are descriptors; where none is given there is nothing to read, and nobody to read what is
    written. With `PYTHONPATH` in its environment it finds modules there, but what is imported already is what it is."""

    def __init__(
        self,
        words: list[str],
        *,
        cwd: Path | str,
        env: Mapping[str, str],
        python: bool = False,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        self.args = ["python" if python else "perdure", *words]
        self.returncode: int | None = None
        given = [self.args[0], os.path.abspath(cwd), *words, *("=".join(pair) for pair in env.items())]
        asked = b"\0".join([b"%d" % len(words), *map(os.fsencode, given)])
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            self._server = socket.socket(socket.AF_UNIX)
            self._server.connect(f"{commands()}/socket")
            files = [nothing if file is None else file for file in (stdin, stdout, stderr)]
            socket.send_fds(self._server, [len(asked).to_bytes(4, "big")], files)
            self._server.sendall(asked)
            answer = self._server.recv(4)
            assert len(answer) == 4, "the process that forks has died"
            self.pid = int.from_bytes(answer, "big")
        finally:
            os.close(nothing)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._server.settimeout(timeout)
            try:
                code = self._server.recv(4)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
            self._server.close()
            assert len(code) == 4, f"nobody can say how {self.args} ended"
            self.returncode = int.from_bytes(code, "big", signed=True)
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended just now
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    words: list[str], *, cwd: Path | str, env: Mapping[str, str], python: bool = False
) -> subprocess.CompletedProcess[str]:
    """One that has ended, and what it wrote."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
        process = Forked(words, cwd=cwd, env=env, python=python, stdout=printed.fileno(), stderr=said.fileno())
        code = process.wait(PATIENCE_SECONDS)
        texts = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (printed, said)]
    return subprocess.CompletedProcess(process.args, code, *texts)


@functools.cache
def commands() -> str:
    """The folder with a `perdure` for this test process, and with a `python` for scripts."""
    folder = tempfile.TemporaryDirectory(prefix="perdure-forking-")
    address = f"{folder.name}/socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        program = [sys.executable, "-m", "tests.forking", str(listening.fileno())]
        server = subprocess.Popen(program, cwd=ROOT, pass_fds=[listening.fileno()], stdin=subprocess.DEVNULL)

    def end() -> None:
        server.kill()
        server.wait()
        folder.cleanup()

    atexit.register(end)
    for name in ("perdure", "python"):
        client = Path(folder.name, name)
        real = str(REAL.with_name(name))
        client.write_text(CLIENT.format(python=sys.executable, program=name, real=real, address=address))
        client.chmod(0o755)
    return folder.name


def serve(listening: socket.socket) -> Callable[[], object]:
    """Forks return from here with what they are to do; the server itself never does."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for commands
    while True:
        asking, _ = listening.accept()
        if os.fork():
            asking.close()
            continue
        die_with_parent()
        listening.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        length, files, _, _ = socket.recv_fds(asking, 4, 3)
        asked = b""
        while len(asked) < int.from_bytes(length, "big"):
            if not (some := asking.recv(65536)):
                os._exit(1)  # who asked has died
            asked += some
        if child := os.fork():
            for file in files:
                os.close(file)
            _, status = os.waitpid(child, 0)
            with contextlib.suppress(OSError):  # nobody wants to know any more
                asking.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
            os._exit(0)
        die_with_parent()
        os.setsid()  # a terminal that it is given is not the one of the tests; and it leads a group that may be signalled
        asking.sendall(os.getpid().to_bytes(4, "big"))
        asking.close()
        return become(files, asked.split(b"\0"))


def become(files: list[int], asked: list[bytes]) -> Callable[[], object]:
    """What this process would be, had it been started as that. Asked: how many words, of which program, the folder, the words, the
    environment."""
    count, program, folder, *rest = asked
    words, environment = [os.fsdecode(word) for word in rest[: int(count)]], rest[int(count) :]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environb.update((name, value) for name, _, value in (pair.partition(b"=") for pair in environment))
    time.tzset()
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty(), write_through="PYTHONUNBUFFERED" in os.environ)
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if program == b"perdure":
        sys.argv, sys.path[:1] = ["perdure", *words], [str(REAL.parent), *paths]
        return perdure.cli.main
    if words[0] == "-m":
        sys.argv, sys.path[:1] = words[1:], [os.getcwd(), *paths]
        return functools.partial(runpy.run_module, words[1], run_name="__main__", alter_sys=True)
    sys.argv, sys.path[:1] = words, [str(Path(words[0]).resolve().parent), *paths]
    return functools.partial(runpy.run_path, words[0], run_name="__main__")


def act(program: Callable[[], object]) -> None:
    """It ends without taking the interpreter apart: that would copy all that is shared, and take as long as what most commands do."""
    code: object
    try:
        program()
        code = 0
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            raise
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    from perdure.nodes import builtin

    for _name in (*IMPORTED, *(found.name for found in pkgutil.walk_packages(perdure.cli.__path__, "perdure.cli."))):
        importlib.import_module(_name)
    builtin()
    gc.collect()
    gc.freeze()  # otherwise each fork would look through it, and so copy it
    act(serve(socket.socket(fileno=int(sys.argv[1]))))
