"""The process that jq programs run in: `python -I -S jq_child.py FOLDER MEMORY_BYTES`, with a socket as standard input.

It imports nothing of Perdure: it starts fast, and there is nothing of Perdure in it to reach. Once its limits are set
it can open no file and no socket, and start no process. It may be killed at any moment.

A message is four bytes of length and JSON. In: `{"program", "input", "seconds"}`; out: `{"value"}` or `{"error",
"code"}`.
"""

import json
import math
import resource
import socket
import sys
from typing import Any

_RECEIVE = 1 << 20


def _confine(memory_bytes: int) -> None:
    for name, value in (
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_NPROC", 0),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_NOFILE", 3),  # standard input, output and error are open; that is all there will ever be
        ("RLIMIT_AS", memory_bytes),
    ):
        try:
            resource.setrlimit(getattr(resource, name), (value, value))
        except (AttributeError, ValueError, OSError):  # this platform does not have that limit
            continue


def _allow_seconds(seconds: float) -> None:
    """Let the kernel kill this process when it has used more time, even if its parent is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _run(jq: Any, message: dict[str, Any]) -> dict[str, Any]:
    try:
        program = jq.compile(message["program"])
    except ValueError as error:
        return {"code": "bad_program", "error": str(error)}
    try:
        results = iter(program.input_text(json.dumps(message["input"])))
        value = next(results)
    except StopIteration:
        return {"code": "jq_no_value", "error": "it gave no value"}
    except ValueError as error:
        return {"code": "jq_error", "error": str(error)}
    try:
        next(results)
    except StopIteration:
        return {"value": value}
    except ValueError as error:
        return {"code": "jq_error", "error": str(error)}
    return {"code": "jq_many_values", "error": "it gave more than one value"}


def _receive(channel: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = channel.recv(min(count, _RECEIVE))
        if not part:
            raise SystemExit  # the parent is done, or dead
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def main() -> None:
    sys.path.append(sys.argv[1])
    import jq  # type: ignore[import-not-found]

    channel = socket.socket(fileno=0)
    list(jq.compile(".").input_text("1"))  # load now what would be loaded late
    _confine(int(sys.argv[2]))
    channel.sendall(b"\0\0\0\0")
    while True:
        length = int.from_bytes(_receive(channel, 4), "big")
        message = json.loads(_receive(channel, length))
        _allow_seconds(message["seconds"])
        try:
            answer = json.dumps(_run(jq, message), allow_nan=False).encode()
        except (MemoryError, RecursionError):
            answer = b'{"code": "jq_memory", "error": "it took more memory than it may"}'
        except ValueError:
            answer = b'{"code": "jq_error", "error": "it gave a number that JSON does not have"}'
        channel.sendall(len(answer).to_bytes(4, "big") + answer)


main()
