"""A `perdure` that starts in a tenth of the time: a process that has imported everything once forks for each command.

Most of what a short command takes is importing. Documents show a hundred and fifty of them, and what they say is tested, not how a
process starts: `tests/cli` does that, with processes as anybody starts them. `commands()` is a folder for the front of PATH; the
`perdure` in it hands its arguments, environment, folder and files to the server, and ends with the code of what was forked there.
Whoever is to be killed or reads a terminal should be started as it is: signals go to the one that asks, not to the fork.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import perdure.cli
from perdure.private_servers.launcher import die_with_parent

ROOT = Path(__file__).parent.parent
REAL = Path(sys.executable).parent / "perdure"
IMPORTED = (
    "perdure.access",
    "perdure.deployment",
    "perdure.engine",
    "perdure.journals.sqlite",
    "perdure.secrets.vault",
    "perdure.service.runs",
    "zoneinfo",
)

CLIENT = """#!{python} -IS
import _socket, os, sys
if "PYTHONPATH" in os.environ:  # what was imported is not what it would import
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
words = [os.getcwdb(), *map(os.fsencode, sys.argv[1:]), *(b"=".join(pair) for pair in os.environb.items())]
asked = b"\\0".join([b"%d" % (len(sys.argv) - 1), *words])
files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
server.sendmsg([len(asked).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
while asked:
    asked = asked[server.send(asked):]
code = server.recv(4)
os._exit(int.from_bytes(code, "big") if code else 70)
"""


@functools.cache
def commands() -> str:
    """The folder with a `perdure` for this test process."""
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
    client = Path(folder.name, "perdure")
    client.write_text(CLIENT.format(python=sys.executable, real=str(REAL), address=address))
    client.chmod(0o755)
    return folder.name


def serve(listening: socket.socket) -> None:
    """Forks return from here; the server itself never does."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for commands
    while True:
        asking, _ = listening.accept()
        if os.fork():
            asking.close()
            continue
        listening.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        length, files, _, _ = socket.recv_fds(asking, 4, 3)
        asked = b""
        while len(asked) < int.from_bytes(length, "big"):
            asked += asking.recv(65536)
        if child := os.fork():
            for file in files:
                os.close(file)
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            asking.sendall((code if code >= 0 else 128 - code).to_bytes(4, "big"))
            os._exit(0)
        asking.close()
        become(files, asked.split(b"\0"))
        return


def become(files: list[int], asked: list[bytes]) -> None:
    """What this process would be, had it been started as `perdure`. Asked: how many words, the folder, the words, the environment."""
    count, folder, *rest = asked
    arguments, environment = rest[: int(count)], rest[int(count) :]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environb.update((name, value) for name, _, value in (pair.partition(b"=") for pair in environment))
    sys.argv = ["perdure", *map(os.fsdecode, arguments)]
    sys.path[0] = str(REAL.parent)
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")


if __name__ == "__main__":
    from perdure.cli import main
    from perdure.nodes import builtin

    for _name in (*IMPORTED, *(f"perdure.cli.{module.name}" for module in pkgutil.iter_modules(perdure.cli.__path__))):
        importlib.import_module(_name)
    builtin()
    gc.collect()
    gc.freeze()  # otherwise each fork would look through it, and so copy it
    serve(socket.socket(fileno=int(sys.argv[1])))
    main()
