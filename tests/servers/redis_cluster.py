"""A Redis Cluster on this machine: Valkey of the wheel, a process per server, on ports of 127.0.0.1.

It is used as one server is: the same tests run on either. What a test does to the servers goes over their Unix sockets, past the
ports and the proxies that clients see.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Self

import redis

from perdure.transports.redis.slots import SLOTS, slot_of
from tests.ports import free_port
from tests.proxy import Proxy
from tests.servers.redis import RedisServer, unexplained_keys
from tests.waiting import wait_until

NODE_TIMEOUT_MS = 2000
"""A server that is silent for so long is taken for dead by the others; less than that, and a busy machine kills some."""


class Node(RedisServer):
    def __init__(self, *options: str) -> None:
        self.port, self.bus = free_port(), free_port()
        super().__init__(
            *("--port", str(self.port), "--bind", "127.0.0.1", "--cluster-enabled", "yes"),
            *("--cluster-port", str(self.bus), "--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
            *("--repl-diskless-sync-delay", "0", *options),
        )

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def ask(self, *command: Any) -> Any:
        with self.client() as client:
            client.response_callbacks.clear()
            return client.execute_command(*command)

    @property
    def id(self) -> str:
        return str(self.ask("CLUSTER", "MYID").decode())

    @property
    def is_master(self) -> bool:
        return bool(self.ask("ROLE")[0] == b"master")


class RedisCluster:
    """`masters` share the slots; then come `replicas`, one each for the first masters. `start` may follow `stop` or `kill`."""

    is_cluster = True

    def __init__(self, masters: int = 3, replicas: int = 0, options: tuple[str, ...] = ()) -> None:
        self.masters = [Node(*options) for _ in range(masters)]
        self.nodes = self.masters + [Node(*options) for _ in range(replicas)]
        self._is_formed = False
        self._prefixes = 0

    # -- life

    def start(self) -> Self:
        try:
            for node in self.nodes:
                node.start()
            if not self._is_formed:
                self._form()
                self._is_formed = True
            self.wait()
        except BaseException:
            self.remove()
            raise
        return self

    def _form(self) -> None:
        size = -(-SLOTS // len(self.masters))
        for number, node in enumerate(self.masters):
            first = number * size
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, min(first + size, SLOTS) - 1)
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].bus)
        for replica, master in zip(self.nodes[len(self.masters) :], self.masters, strict=False):
            wait_until(lambda: self._knows(replica, master), "they know each other")  # noqa: B023  it is called here
            replica.ask("CLUSTER", "REPLICATE", master.id)

    def _knows(self, node: Node, other: Node) -> bool:
        return other.id.encode() in node.ask("CLUSTER", "NODES")

    def wait(self) -> None:
        """Until every server says that all slots are served, and by whom."""
        wait_until(self._is_whole, "the cluster is whole")

    def _is_whole(self) -> bool:
        said = [node.ask("CLUSTER", "INFO") for node in self.nodes]
        known = f"cluster_known_nodes:{len(self.nodes)}\r".encode()
        if not all(b"cluster_state:ok" in text and known in text for text in said):
            return False
        replicas = [node for node in self.nodes if not node.is_master]
        return all(b"master_link_status:up" in node.ask("INFO", "replication") for node in replicas)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def pause(self) -> None:
        for node in self.nodes:
            node.pause()

    def go_on(self) -> None:
        for node in self.nodes:
            node.go_on()

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()

    # -- use

    @property
    def url(self) -> str:
        return "redis://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def new_prefix(self) -> str:
        self._prefixes += 1
        return f"test{self._prefixes}"

    def client(self, **options: Any) -> ClusterClient:
        return ClusterClient([node.client(**options) for node in self.nodes])

    def unexplained_keys(self, prefix: str) -> list[str]:
        with self.client() as client:
            return unexplained_keys(client, prefix)

    def owner_of(self, key: str) -> Node:
        """The master that has its slot now, if somebody says so."""
        slot = slot_of(key)
        for node in self.nodes:
            with contextlib.suppress(redis.RedisError):
                for first, last, master, *_ in node.ask("CLUSTER", "SLOTS"):
                    if first <= slot <= last:
                        return next(one for one in self.nodes if one.id == master[2].decode())
        raise AssertionError(f"nobody has slot {slot}")

    def move(self, slot: int, to: Node) -> Callable[[], None]:
        """Begin to move a slot; returns how to end it. In between it is on its way: half here, half there."""
        source = next(node for node in self.masters if _has(node, slot))
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)

        def end() -> None:
            while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100):
                source.ask("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
            for node in (to, source, *self.masters):
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", to.id)

        return end

    @contextlib.contextmanager
    def proxy(self) -> Iterator[ClusterProxy]:
        """Whoever asks from now on is told the ports of proxies."""
        with contextlib.ExitStack() as stack:
            proxies = [stack.enter_context(Proxy(("127.0.0.1", node.port))) for node in self.nodes]
            self._announce([proxy.port for proxy in proxies])
            stack.callback(self._announce, [0] * len(self.nodes))
            yield ClusterProxy(proxies)

    def _announce(self, ports: list[int]) -> None:
        for node, port in zip(self.nodes, ports, strict=True):
            node.ask("CONFIG", "SET", "cluster-announce-port", port)
        told = {port or node.port for node, port in zip(self.nodes, ports, strict=True)}
        wait_until(lambda: all(_ports(node) == told for node in self.nodes), "all are told the ports")


class ClusterClient:
    """Asks the server that has the key or, where there is no key, all of them."""

    EVERYWHERE = {"flushall", "script_flush", "config_resetstat", "execute_command", "config_set"}
    JOINED = {"scan_iter", "client_list"}

    def __init__(self, clients: list[redis.Redis]) -> None:
        self._clients = clients

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            answers = [getattr(client, name)(*arguments, **options) for client in self._masters()]
            return itertools.chain(*answers) if name in self.JOINED else answers[0]

        def call_owner(*arguments: Any, **options: Any) -> Any:
            for client in self._masters():
                with contextlib.suppress(redis.exceptions.MovedError):
                    return getattr(client, name)(*arguments, **options)
            raise AssertionError(f"nobody has {arguments[0]!r}")

        return call if name in self.EVERYWHERE | self.JOINED else call_owner

    def script_exists(self, *hashes: Any) -> list[bool]:
        answers = [client.script_exists(*hashes) for client in self._masters()]
        return [all(some) for some in zip(*answers, strict=True)]

    def info(self, section: str) -> dict[str, Any]:
        return {name: value for client in self._masters() for name, value in client.info(section).items()}

    def _masters(self) -> list[redis.Redis]:
        return [client for client in self._clients if client.role()[0] == b"master"]


class ClusterProxy:
    """One in front of every server; what is done to it is done to all."""

    def __init__(self, proxies: list[Proxy]) -> None:
        self.proxies = proxies
        self.host, self.port = proxies[0].host, proxies[0].port

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            for proxy in self.proxies:
                getattr(proxy, name)(*arguments)

        return call


def _has(node: Node, slot: int) -> bool:
    mine = [(first, last) for first, last, master, *_ in node.ask("CLUSTER", "SLOTS") if master[2].decode() == node.id]
    return any(first <= slot <= last for first, last in mine)


def _ports(node: Node) -> set[int]:
    return {server[1] for _, _, *servers in node.ask("CLUSTER", "SLOTS") for server in servers}
