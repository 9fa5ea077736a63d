"""Every name Perdure uses in Redis, built here and nowhere else.

What belongs to one queue, or to one partition of runs, shares a hash tag (the part in braces), so that an operation
touches one slot of a cluster. No operation needs two queues or two partitions at once. No key is found by searching.

    perdure:{queue:Q}:tasks:P:T:F      stream    tasks of priority P, type T and, where it matters, function F, of one tenant:
                                                 a lane; F ends with @ and the tenant unless that is `default`
    perdure:{queue:Q}:tasks:adopted    stream    tasks that a worker was running when everything here was lost
    perdure:{queue:Q}:lanes            sorted    the lanes that hold a task, by priority
    perdure:{queue:Q}:turns:P          sorted    tenants for whom tasks of priority P wait, by their last turn, in microseconds
    perdure:{queue:Q}:waiting:P:U      sorted    lanes in which they wait, of one tenant, by when the first was sent
    perdure:{queue:Q}:held             hash      task id → where its entry is; there until its result is acknowledged
    perdure:{queue:Q}:forgotten        sorted    tasks taken from dead workers, by time; kept FORGOTTEN_SECONDS
    perdure:{partition:N}:results      stream    results of the runs of partition N
    perdure:{partition:N}:begins       hash      task id → a worker's wish to begin; kept BEGIN_SECONDS
    perdure:{partition:N}:grant:A      string    the answer to the wish A; kept BEGIN_SECONDS
    perdure:{limit:T:K}:slots          sorted    attempts that are in the slots of key K of tenant T, by the end of their leases
    perdure:{limit:T:K}:rate:N         hash      slice of time → how many passed the rate of key K over N milliseconds
    perdure:{streams:R}:places         hash      streams of run R that were written to
    perdure:{streams:R}:about:P        hash      of the stream at place P: edition, numbers, bytes, how it ended, who waits
    perdure:{streams:R}:tail:P         stream    its chunks that are in no piece yet; the id of an entry is the number of its first
    perdure:{streams:R}:pieces:P       sorted    its pieces in the blob store, by the number of their last chunk
    perdure:{streams:R}:readers:P      sorted    its readers, by how far each is
    perdure:{workers}:seen             sorted    workers by the time of their last beat, in milliseconds of the server
    perdure:{workers}:beats            hash      worker → what it said last
    perdure:{queues}:names             set       queues that had a task lately; kept REGISTRY_SECONDS
    perdure:{scripts}:hashes           hash      operation → hash of its script, for workers in other languages

Streams have one consumer group each, WORKERS or COORDINATORS. A stream of tasks goes with its last entry, one of
results soon after, and its group and consumers with it; the hash and the sorted set of a queue go with their last
member. Limits end by themselves, and streams go with their run, or STREAM_SECONDS after the last word. So an idle Perdure leaves the workers' beats and the three registries, and nothing
else.

Channels, for wake-ups (they save time, nothing depends on them):

    perdure:wake:queue:Q    there are tasks            perdure:wake:worker:W     it should beat: something is to stop
    perdure:wake:results    says in which partitions   perdure:wake:process:P    a wish to begin was answered
    perdure:wake:begins     says in which partition    perdure:wake:topic:T      whatever the topic means to its listeners
    perdure:wake:scripts    a process misses a script  perdure:wake:limits       says which key has room
    perdure:wake:streams:P  says which stream has news for a process that waits
"""

from __future__ import annotations

import functools
import re
from urllib.parse import quote

WORKERS = "workers"
COORDINATORS = "coordinators"
ADOPTED = "adopted"

BEGIN_SECONDS = 60
FORGOTTEN_SECONDS = 3600
REGISTRY_SECONDS = 7 * 24 * 3600
STREAM_SECONDS = 24 * 3600

_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,64}(?::[A-Za-z0-9_.-]{1,64})*\Z")


class Keys:
    def __init__(self, prefix: str = "perdure") -> None:
        if not _PREFIX.match(prefix):
            raise ValueError(f"prefix {prefix!r} may hold letters, digits, '_', '-', '.' and, in between, ':'")
        self.prefix = prefix
        self.workers_seen = f"{prefix}:{{workers}}:seen"
        self.workers_beats = f"{prefix}:{{workers}}:beats"
        self.queues = f"{prefix}:{{queues}}:names"
        self.scripts = f"{prefix}:{{scripts}}:hashes"
        self.wake_scripts = f"{prefix}:wake:scripts"
        self.wake_results = f"{prefix}:wake:results"
        self.wake_begins = f"{prefix}:wake:begins"
        self.wake_limits = f"{prefix}:wake:limits"

    # queues

    def held(self, queue: str) -> str:
        return f"{self._queue(queue)}:held"

    def lanes(self, queue: str) -> str:
        return f"{self._queue(queue)}:lanes"

    def lane(self, queue: str, lane: str = "") -> str:
        """The stream of a lane; without a lane, the prefix that all of them share."""
        return f"{self._queue(queue)}:tasks:{lane}"

    def turns(self, queue: str, priority: int) -> str:
        return f"{self._queue(queue)}:turns:{priority}"

    def waiting(self, queue: str, priority: int, tenant: str = "default") -> str:
        return f"{self._queue(queue)}:waiting:{priority}:{name_of(tenant)}"

    def forgotten(self, queue: str) -> str:
        return f"{self._queue(queue)}:forgotten"

    def wake_queue(self, queue: str) -> str:
        return f"{self.prefix}:wake:queue:{encode(queue)}"

    def _queue(self, queue: str) -> str:
        return f"{self.prefix}:{{queue:{encode(queue)}}}"

    # partitions

    def results(self, partition: int) -> str:
        return f"{self._partition(partition)}:results"

    def begins(self, partition: int) -> str:
        return f"{self._partition(partition)}:begins"

    def grant(self, partition: int, ask: str) -> str:
        return f"{self._partition(partition)}:grant:{ask}"

    def _partition(self, partition: int) -> str:
        return f"{self.prefix}:{{partition:{partition}}}"

    # limits; the slots of a key, and each of its rates, expire when no attempt uses them

    def slots(self, tenant: str, key: str) -> str:
        return f"{self._limit(tenant, key)}:slots"

    def rate(self, tenant: str, key: str, milliseconds: int) -> str:
        return f"{self._limit(tenant, key)}:rate:{milliseconds}"

    def _limit(self, tenant: str, key: str) -> str:
        return f"{self.prefix}:{{limit:{encode(tenant)}:{encode(key)}}}"

    # streams of a run

    def places(self, run_id: str) -> str:
        return f"{self.streams(run_id)}:places"

    def stream(self, run_id: str, place: str) -> list[str]:
        """All that one stream has: about, tail, pieces, readers; and the places of its run."""
        base, name = self.streams(run_id), encode(place)
        return [*(f"{base}:{what}:{name}" for what in ("about", "tail", "pieces", "readers")), f"{base}:places"]

    def streams(self, run_id: str) -> str:
        return f"{self.prefix}:{{streams:{encode(run_id)}}}"

    # wake-ups

    def wake_streams(self, process: str = "") -> str:
        """The channel of a process; without one, what those of all processes begin with."""
        return f"{self.prefix}:wake:streams:{encode(process)}"

    def wake_worker(self, worker: str) -> str:
        return f"{self.prefix}:wake:worker:{encode(worker)}"

    def wake_process(self, process: str) -> str:
        return f"{self.prefix}:wake:process:{encode(process)}"

    def wake_topic(self, topic: str) -> str:
        return f"{self.prefix}:wake:topic:{encode(topic)}"


_PROBES: dict[str, tuple[str, ...]] = {
    "tasks": ("XLEN",),
    "results": ("XLEN",),
    "lanes": ("ZSCORE", ""),
    "turns": ("ZSCORE", ""),
    "waiting": ("ZSCORE", ""),
    "forgotten": ("ZSCORE", ""),
    "slots": ("ZSCORE", ""),
    "seen": ("ZSCORE", ""),
    "held": ("HGET", ""),
    "begins": ("HGET", ""),
    "rate": ("HGET", ""),
    "beats": ("HGET", ""),
    "hashes": ("HGET", ""),
    "names": ("SMEMBERS",),
    "grant": ("GET",),
    "places": ("HGET", ""),
    "about": ("HGET", ""),
    "tail": ("XLEN",),
    "pieces": ("ZSCORE", ""),
    "readers": ("ZSCORE", ""),
}


def probe(key: str) -> tuple[str, ...]:
    """A command that only a key of the right type answers, and that every user of the key is allowed to give."""
    command, *arguments = _PROBES[key.partition("}:")[2].partition(":")[0]]
    return (command, key, *arguments)


@functools.lru_cache(maxsize=10_000)
def lane_of(priority: int, type: str, function: str, tenant: str = "default") -> str:
    lane = f"{priority}:{encode(type)}:{encode(function)}"
    return lane if tenant == "default" else f"{lane}@{name_of(tenant)}"


def name_of(tenant: str) -> str:
    """What a tenant is called in lanes and in the order of turns."""
    return "" if tenant == "default" else encode(tenant)


@functools.lru_cache(maxsize=10_000)
def encode(name: str) -> str:
    """The name with braces and colons encoded, which mean something in a key. Letters, digits, '_-.~' stay."""
    return quote(name, safe="")
