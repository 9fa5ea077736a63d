"""Graphs of LangGraph as handlers of Perdure: each checkpoint, and what each of its nodes wrote, is a step.

    from perdure.ext.langgraph import PerdureSaver

    @perdure.task
    async def research(ctx: perdure.Context, question: str) -> dict:
        saver = PerdureSaver(ctx)
        graph = builder.compile(checkpointer=saver)
        return await saver.run(graph, {"question": question})

Killed anywhere and entered again, the graph goes on from its last checkpoint, and nodes that had ended do not run again. Nobody has
to invoke it again. Needs `pip install 'perdure[langgraph]'`.
"""

from __future__ import annotations

import base64
import copy
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, get_checkpoint_metadata
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from perdure.asks import Approval, Ask
from perdure.outcomes import Failure

Entry = dict[str, Any]
"""What one call did, as data: it is what its step keeps, and is done again when the handler is entered again."""


class PerdureSaver(InMemorySaver):
    """Keeps the checkpoints of one handler's graphs: `ctx` is the handler's, and what is put is durable when `put` returns.

    They are of this handler alone: another run has its own. `name` tells two savers of one handler apart.
    """

    def __init__(self, ctx: Any, *, name: str = "langgraph", serde: Any = None) -> None:
        super().__init__(serde=serde)
        self._ctx = ctx
        self._prefix = f"{name}/"
        self._turn = threading.Lock()
        self._last = [0]  # shared by the copies that `with_allowlist` makes
        kept = ((int(step[len(self._prefix) :]), step) for step in ctx.list_steps(self._prefix))
        for number, step in sorted(kept):
            self._apply(ctx.find_step(step))
            self._last[0] = number

    async def run(
        self,
        graph: Any,
        given: Any,
        config: Mapping[str, Any] | None = None,
        *,
        thread: str = "main",
        ask: Callable[[Any], Ask] | None = None,
    ) -> Any:
        """Run a graph to its end, from where it was. Where it interrupts, people are asked, and no worker waits for them.

        `ask` makes what is asked for of what `interrupt` was given; an approval that shows it, by default. `interrupt` returns
        the answer as `ctx.ask` gives it.
        """
        terms = {**(config or {})}
        terms["configurable"] = {**terms.get("configurable", {}), "thread_id": thread}
        while True:
            state = await graph.aget_state(terms, subgraphs=True)
            asked = {one.id: one for one in _interrupts(state)}
            if state.created_at is None:
                way = given
            elif asked:
                make = ask or _approval
                way = Command(resume=await self._ctx.ask({name: make(one.value) for name, one in asked.items()}))
            else:
                way = None
            value = await graph.ainvoke(way, terms, durability="sync")
            state = await graph.aget_state(terms)
            if not state.next:
                return value

    # What changes something: kept as a step, then done.

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        entry, place = self._of_put(config, checkpoint, metadata, new_versions)
        await self._keep(entry)
        return place

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        entry, place = self._of_put(config, checkpoint, metadata, new_versions)
        self._keep_here(entry)
        return place

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        await self._keep(self._of_writes(config, writes, task_id, task_path))

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self._keep_here(self._of_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._keep({"did": "delete", "thread": thread_id})

    def delete_thread(self, thread_id: str) -> None:
        self._keep_here({"did": "delete", "thread": thread_id})

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._keep({"did": "delete_runs", "runs": list(run_ids)})

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._keep_here({"did": "delete_runs", "runs": list(run_ids)})

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._keep({"did": "copy", "thread": source_thread_id, "to": target_thread_id})

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._keep_here({"did": "copy", "thread": source_thread_id, "to": target_thread_id})

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._keep({"did": "prune", "threads": list(thread_ids), "strategy": strategy})

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._keep_here({"did": "prune", "threads": list(thread_ids), "strategy": strategy})

    # What is read comes from memory, which has all that the steps have.

    async def alist(self, config: Any, **terms: Any) -> AsyncIterator[CheckpointTuple]:
        for one in self.list(config, **terms):
            yield one

    async def _keep(self, entry: Entry) -> None:
        await self._ctx.step(self._next(), lambda: entry)
        self._apply(entry)

    def _keep_here(self, entry: Entry) -> None:
        done = self._ctx.step(self._next(), lambda: entry)
        if hasattr(done, "close"):  # it would have to be awaited
            done.close()
            message = "an async handler awaits its graph: use graph.ainvoke, or `await saver.run(graph, …)`"
            raise Failure("not_durable", message, retryable=False)
        with self._turn:
            self._apply(entry)

    def _next(self) -> str:
        """The name of the next step. Those side by side may end in any order, so one that was never kept leaves a gap."""
        with self._turn:
            self._last[0] += 1
            return f"{self._prefix}{self._last[0]}"

    def _of_put(self, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> tuple[Entry, Any]:
        about = config["configurable"]
        place = {"thread": about["thread_id"], "ns": about.get("checkpoint_ns", ""), "id": checkpoint["id"]}
        rest = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        values = checkpoint["channel_values"]
        entry = {
            "did": "put",
            **place,
            "parent": about.get("checkpoint_id"),
            "checkpoint": self._packed(rest),
            "metadata": self._packed(get_checkpoint_metadata(config, metadata)),
            # only what this checkpoint changed: what it did not is with the one that did
            "values": [
                [channel, version, self._packed(values[channel]) if channel in values else None]
                for channel, version in versions.items()
            ],
        }
        made = {"thread_id": place["thread"], "checkpoint_ns": place["ns"], "checkpoint_id": place["id"]}
        return entry, {"configurable": made}

    def _of_writes(self, config: Any, writes: Any, task_id: str, path: str) -> Entry:
        about = config["configurable"]
        return {
            "did": "write",
            "thread": about["thread_id"],
            "ns": about.get("checkpoint_ns", ""),
            "id": about["checkpoint_id"],
            "task": task_id,
            "path": path,
            "writes": [[channel, self._packed(value)] for channel, value in writes],
        }

    def _packed(self, value: Any) -> list[str]:
        kind, data = self.serde.dumps_typed(value)
        return [kind, base64.b64encode(data).decode()]

    def _apply(self, entry: Entry) -> None:
        match entry["did"]:
            case "put":
                self._put(entry)
            case "write":
                self._write(entry)
            case "delete":
                super().delete_thread(entry["thread"])
            case "delete_runs":
                self._forget(lambda meta: meta.get("run_id") in entry["runs"])
            case "copy":
                self._copy(entry["thread"], entry["to"])
            case "prune":
                for thread in entry["threads"]:
                    if entry["strategy"] == "delete":
                        super().delete_thread(thread)
                    else:
                        self._prune(thread)

    def _put(self, entry: Entry) -> None:
        thread, ns = entry["thread"], entry["ns"]
        for channel, version, value in entry["values"]:
            self.blobs[(thread, ns, channel, version)] = ("empty", b"") if value is None else _unpacked(value)
        rest, metadata = _unpacked(entry["checkpoint"]), _unpacked(entry["metadata"])
        self.storage[thread][ns][entry["id"]] = (rest, metadata, entry["parent"])

    def _write(self, entry: Entry) -> None:
        stored = self.writes[(entry["thread"], entry["ns"], entry["id"])]
        for number, (channel, value) in enumerate(entry["writes"]):
            key = (entry["task"], WRITES_IDX_MAP.get(channel, number))
            if key[1] < 0 or key not in stored:  # a node's own writes are kept as they were first; marks are replaced
                stored[key] = (entry["task"], channel, _unpacked(value), entry["path"])

    def _forget(self, is_meant: Callable[[Any], bool]) -> None:
        for thread, spaces in self.storage.items():
            for ns, found in spaces.items():
                for one in [one for one, row in found.items() if is_meant(self.serde.loads_typed(row[1]))]:
                    del found[one]
                    self.writes.pop((thread, ns, one), None)

    def _copy(self, source: str, target: str) -> None:
        for ns, found in self.storage[source].items():
            self.storage[target][ns].update(found)
        for place in [place for place in self.writes if place[0] == source]:
            self.writes[(target, *place[1:])] = copy.copy(self.writes[place])
        for key in [key for key in self.blobs if key[0] == source]:
            self.blobs[(target, *key[1:])] = self.blobs[key]

    def _prune(self, thread: str) -> None:
        """Keep the newest checkpoint of each namespace, and those before it from which a channel without a value of its own
        is made (`DeltaChannel`)."""
        for ns, found in self.storage[thread].items():
            needed: set[str] = set()
            one: str | None = max(found, default=None)
            missing: set[str] | None = None
            while one is not None and one in found:
                needed.add(one)
                versions = self.serde.loads_typed(found[one][0])["channel_versions"]
                has = set(self._load_blobs(thread, ns, versions))
                missing = (set(versions) if missing is None else missing) - has
                one = found[one][2] if missing else None
            for gone in set(found) - needed:
                del found[gone]
                self.writes.pop((thread, ns, gone), None)


def _unpacked(value: list[str]) -> tuple[str, bytes]:
    return value[0], base64.b64decode(value[1])


def _approval(shown: Any) -> Ask:
    return Approval(show=shown)


def _interrupts(state: Any) -> list[Any]:
    """What the graph waits for, of its inner graphs, too: theirs are newer than what their outer graph remembers of them."""
    found: list[Any] = []
    for task in state.tasks:
        inner = getattr(task.state, "tasks", None)
        found += task.interrupts if inner is None else _interrupts(task.state)
    return found
