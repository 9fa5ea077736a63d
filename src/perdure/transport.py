"""The transport: carries tasks to workers, results to coordinators, and wake-ups. This file is the port.

It owns the message formats and what delivery means. It must not know graphs, journals or what a result leads to. A
transport may lose, repeat and reorder; it never decides. Losing all of it costs time and nothing else, because what is
queued or running stands in the journal, and a coordinator sends it again (T1).

The life of a task: a coordinator `publish`es it; a worker `claim`s it, `beat`s while it works and `report`s one result;
a coordinator `receive`s the result and `acknowledge`s it once what it led to is durable. A coordinator that wants a
task back `recall`s it: the task is withdrawn if no worker has it. A coordinator that wants it stopped `stop`s it: the
worker learns of it from the answer to its next beat, so the word cannot get lost. `begin` is for effects that may
happen at most once: the worker starts only after the coordinator has made the start durable and said so.

A `Transport` connects the parts of one process, or of several that know each other; a `SharedTransport` connects any
number of processes, each of which is told for which runs it receives results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol, Self

import msgspec

from perdure.errors import PerdureError
from perdure.kernel.address import Address, run_of_task
from perdure.kernel.segments import HasSegments, pack, refuse, unpack
from perdure.limits import Limits
from perdure.model.money import Budget, Usage
from perdure.streams import Flowed, Flowing, Streams

MESSAGE_VERSION = 1


class TransportUnavailable(PerdureError):
    """The transport did not answer. Whether the message went through is not known, and need not be: send it again."""

    code = "transport_unavailable"
    status = 503


class TransportClosed(TransportUnavailable):
    code = "transport_closed"


class TasksTooLarge(Exception):
    """Some of the tasks are too large to be sent, ever; the others were sent."""

    def __init__(self, sizes: dict[str, int], most: int) -> None:
        super().__init__(f"{len(sizes)} tasks have more than {most:,} bytes")
        self.sizes = sizes
        """Bytes of the message, by task."""
        self.most = most


class TransportFull(TransportUnavailable):
    """The transport holds as many tasks as it may. None of the new ones was taken, and the sweep sends them again."""

    code = "transport_full"


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A message about one attempt. Its address is flat on the wire (docs/reference/worker-protocol.md), else whole."""

    v: int = MESSAGE_VERSION
    tenant: str = "default"
    run_id: str
    node: str
    scope: tuple[int, ...] = ()
    item: int | None = None
    attempt: int = 1
    generation: int = 1
    undo: bool = False

    @classmethod
    def at(cls, address: Address, **fields: Any) -> Self:
        """A message about the attempt at this address, which it keeps. (Where there is one for every node, its fields are given
        one by one instead: two dictionaries of them take longer than all the rest.)"""
        message = cls(
            run_id=address.run_id,
            node=address.node,
            scope=address.scope,
            item=address.item,
            attempt=address.attempt,
            generation=address.generation,
            undo=address.undo,
            **fields,
        )
        return message.keep(address)

    def keep(self, address: Address) -> Self:
        """Itself, with the address that its fields were taken from and its name, which then need not be made again."""
        kept = self.__dict__
        kept["address"], kept["task_id"] = address, address.task_id
        return self

    @cached_property
    def address(self) -> Address:
        return Address(self.run_id, self.node, self.scope, self.item, self.attempt, self.generation, self.undo)

    @cached_property
    def task_id(self) -> str:
        return self.address.task_id


class AgentTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the workflow says about the ways and the calls of an agent."""

    policies: tuple[dict[str, Any], ...] = ()
    """Those of the workflow."""
    approve: bool | None = None
    """Whether people are asked about its route; None: by what it has read."""
    sinks: tuple[str, ...] = ()
    """The routes behind which something may be written or sent before people are asked."""
    max_fanout: int | None = None
    """How many it may choose."""


class Task(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A request to execute one attempt."""

    type: str
    function: str = ""
    """The registered function it calls: only workers that registered it get it. As `module:name`, those that do not lack it."""
    config: Any = None
    inputs: dict[str, Any] = {}
    """The outputs of the edges that were taken, by node."""
    tries: int = 0
    """The number of the attempt as people count it, if another than `attempt`, the fence (rule 2)."""
    idempotency_key: str
    checkpoint: Any = None
    begun: tuple[str, ...] = ()
    """Steps that may happen at most once, began in an earlier attempt and have no result (rule 81)."""
    metered: bool = False
    """Whether money that its calls cost is limited, so that one of unknown price must not be made."""
    routes: tuple[str, ...] = ()
    """The nodes that the handler may choose, where its branch is `agent_driven`."""
    label: str = ""
    """How far what the config was made of is to be believed, and how private it is; for agents."""
    terms: AgentTerms | None = None
    memory: dict[str, Any] = {}  # what earlier runs left, for agents
    asked: dict[str, str] = {}
    """The steps in the checkpoint, and perhaps more, that are asks: the hash of what was asked, by name."""
    queue: str = "default"
    priority: int = 0
    timeout_seconds: float | None = None
    heartbeat_timeout_seconds: float | None = None
    isolation: Literal["thread", "process"] = "thread"
    effect: Literal["pure", "idempotent", "at_most_once"] = "idempotent"
    sensitive: tuple[str, ...] = ()
    """Paths of the task's output that the worker seals before it reports."""
    sealed: bool = False
    """Whether config, inputs or checkpoint may hold sealed fields."""
    sealed_for: str = ""
    """The run under whose name those fields are sealed, if that is not the root of this run's tree."""
    incarnation: int = 1
    expires_at: float | None = None
    """When this copy of the task becomes worthless: a coordinator that still wants it executed sends it anew."""
    correlation_id: str = ""
    """What the caller that started the run, or the parent run, calls this work."""
    flow: Flowing | None = None
    """The streams that it gives and reads."""
    packed: bool = False
    """On the wire: config, inputs and checkpoint hold secrets or blobs, written as in `perdure.kernel.segments`."""


_encode = msgspec.json.Encoder(enc_hook=refuse).encode


def encode_message(message: Any) -> bytes:
    """The message as JSON. The values of a task that hold segments are packed, and its `packed` says so."""
    try:
        return _encode(message)
    except HasSegments:
        return _encode(_pack(message))


def _pack(message: Any) -> Any:
    if not isinstance(message, Task):
        return msgspec.structs.replace(message, task=_pack(message.task))  # a message that carries a task
    return msgspec.structs.replace(
        message,
        packed=True,
        config=pack(message.config),
        inputs=pack(message.inputs),
        checkpoint=pack(message.checkpoint),
    )


def unpack_task(task: Task) -> Task:
    """The task as it was before it went on the wire. Raises ValueError for bytes that no version of Perdure writes."""
    if not task.packed:
        return task
    return msgspec.structs.replace(
        task,
        packed=False,
        config=unpack(task.config),
        inputs=unpack(task.inputs),
        checkpoint=unpack(task.checkpoint),
    )


class Result(Message, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one attempt."""

    kind: Literal["completed", "failed", "handed_back", "checkpointed", "suspended"]
    output: Any = None
    step: str = ""
    """The step whose result a checkpoint is; empty if it is data of the handler's own."""
    begins: str = ""
    """With `step`: not a checkpoint but the wish, by this name, to begin a step that may happen at most once (rule 81); with
    `not_done`, the word that the step of that wish did not happen."""
    effect: Literal["idempotent", "at_most_once"] = "at_most_once"
    """With `begins`: whether the step may happen more than once."""
    reserve: Usage | None = None
    """With `begins`: what the step may use; what is handed back with it is so because that was refused (rule 82)."""
    limit: Budget | None = None
    """With `reserve`: what the config of the node allows."""
    model: str = ""
    """With `reserve`: what the usage is counted under, besides the node."""
    usage: Usage | None = None
    """What the step used whose result this checkpoint is (rule 83)."""
    number: int = 0
    """The number of a checkpoint within its attempt, from 1 on. A checkpoint that is delivered again is known by it."""
    asks: tuple[dict[str, Any], ...] = ()
    """What the handler asks for, if it is suspended (rule 77): each as `perdure.kernel.values.Ask`."""
    output_ref: str | None = None
    size: int = 0
    choice: tuple[str, ...] | None = None
    reasoning: str = ""
    renews: bool = False
    """With `completed`: the iteration ends, and the run goes on as a new one, whose inputs are the output if there is one (rule 15)."""
    code: str = ""
    message: str = ""
    details: Any = None
    retryable: bool = True
    retry_after: float | None = None
    not_done: bool = False
    ask: str = ""
    """The last wish to begin this attempt, if its worker had one."""
    stopped: bool = False
    """Whether the attempt failed because its worker was told to stop it."""
    started_at: float | None = None
    worker: str = ""
    incarnation: int = 1
    flow: Flowed | None = None
    """With `checkpointed`: that its stream has opened, a piece of it that is stored, or how far it has read others; with
    `completed`: how its stream ended."""

    @property
    def answers_to(self) -> str:
        """What a refusal names: the wish for a call that costs something, as there may be several at once and the attempt
        goes on without it; of any other checkpoint the attempt, which is over."""
        return self.begins if self.reserve is not None and not self.not_done else self.task_id


LONGEST_CODE = 200
LONGEST_MESSAGE = 10_000
LONGEST_ID = 128
"""The most characters of the id of a node."""
MOST_CHOSEN = 1_000
MOST_PARTS = 10_000
"""Pieces of the streams of one attempt."""
LONGEST_REF = 1_000
LONGEST_RETRY_SECONDS = 100 * 366 * 86_400
LARGEST_NUMBER = 2**53
LARGEST_BLOB = 256 * 1024 * 1024
"""The most that a blob counts for, whatever its worker says: no output that a worker stores is larger."""
LATEST = 253_402_300_799
"""The end of the year 9999: no calendar has a day for a later time."""
LARGEST_DETAILS = 32 * 1024
DEEPEST_OUTPUT = 200


def run_of(task_id: str) -> str:
    """The run of a task, for adapters, which know no more of its address."""
    return run_of_task(task_id)


def cut_text(text: str, most: int) -> str:
    """The text without NUL, and with at most so many characters and one that says that it was cut."""
    text = text.replace("\0", "\ufffd")
    return text if len(text) <= most else f"{text[:most]}…"


def unreadable(message: Message, why: str, worker: str = "") -> Result:
    """The failure of an attempt whose result cannot be written or read. What it did is not known."""
    return Result.at(
        message.address,
        tenant=message.tenant,
        kind="failed",
        code="bad_output",
        message=cut_text(why, LONGEST_MESSAGE),
        retryable=False,
        worker=worker,
    )


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A result as it was received; `receipt` acknowledges it."""

    receipt: str
    result: Result


class BeginRequest(msgspec.Struct, frozen=True):
    """A worker asks to begin an attempt whose effect may happen at most once."""

    task: Task
    worker: str
    ask: str = ""
    """The name of the wish: its answer is to no other, and a worker that gives it up never begins by it."""


class CheckpointsRefused(Exception):
    """No checkpoint of these tasks was kept: another attempt is current, and no further step may begin. Or these calls, by
    the name of the wish, were not let begin."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(f"refused: {', '.join(sorted(names))}")
        self.names = frozenset(names)


class CannotSend(Exception):
    """Nothing was sent: some of the results cannot be made into messages, now or later."""

    def __init__(self, problems: Mapping[int, str]) -> None:
        """`problems` says of each such result, by its place among those given, what is wrong."""
        super().__init__("; ".join(problems.values()))
        self.problems = problems


MOST_SLOTS = 10_000
"""How many tasks one worker may have at a time. A beat that says more is refused: it is no worker's."""


LONGEST_PROGRESS = 2_000
"""Characters of JSON in which a handler says how far it is."""
MOST_PROGRESS = 64
"""Tasks of one beat that say how far they are."""
_FEW = msgspec.Meta(max_length=MOST_PROGRESS)


class WorkerBeat(msgspec.Struct, frozen=True):
    """What a worker says of itself, from a thread of its own."""

    worker: str
    running: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_SLOTS)] = ()
    slots: Annotated[int, msgspec.Meta(ge=0, le=MOST_SLOTS)] = 0
    queues: tuple[str, ...] = ("default",)
    types: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    lag_seconds: float = 0.0
    started: Annotated[dict[str, float], msgspec.Meta(max_length=MOST_SLOTS)] | None = None
    """Since when handlers are at work, for those that have been for a moment; None if this worker does not say."""
    host: str = ""
    pid: int = 0
    lacking: tuple[str, ...] = ()
    """Functions, as `module:name`, that this worker found it cannot import."""
    progress: Annotated[dict[str, Annotated[str, msgspec.Meta(max_length=LONGEST_PROGRESS)]], _FEW] = {}
    """How far handlers say they are, as JSON, by task: the latest of each (rule 74)."""


class QueueSeen(msgspec.Struct, frozen=True):
    queue: str
    waiting: int
    """Tasks that were sent and that no worker has claimed."""
    claimed: int


class WorkerSeen(msgspec.Struct, frozen=True):
    beat: WorkerBeat
    silent_seconds: float
    """Seconds since the last beat, by the transport's own clock: an age, so that it means the same in every process."""


def can_claim(beat: WorkerBeat, queue: str, type: str, function: str = "") -> bool:
    """Whether this worker would be given such a task. A task that no worker can take should be held, not published."""
    return queue in beat.queues and fits(type, function, beat.types, beat.functions, beat.lacking)


def fits(
    type: str, function: str, types: Collection[str] | None, functions: Collection[str], lacking: Collection[str] = ()
) -> bool:
    """Whether a worker with these types and functions can execute the task; with None for `types`, it can execute
    everything. A function named as `module:name` fits every worker that has not found itself lacking it."""
    if types is None:
        return True
    has = not function or function in functions or (":" in function and function not in lacking)
    return type in types and has


class Transport(Protocol):
    @property
    def limits(self) -> Limits:
        """How many attempts may be out under one key, over all processes that this transport connects."""
        ...

    # coordinator
    async def publish(self, tasks: Sequence[Task]) -> None:
        """Send tasks. A task that the transport holds already is not sent twice. Raises TasksTooLarge."""
        ...

    async def recall(self, task_ids: Sequence[str]) -> dict[str, Literal["withdrawn", "claimed", "unknown"]]: ...

    async def stop(self, task_ids: Sequence[str]) -> None: ...

    async def receive(self, limit: int) -> list[Delivery]:
        """Wait for results, and return at least one."""
        ...

    def on_result(self, hear: Callable[[Delivery], None] | None) -> None:
        """Call `hear` with each result as it is reported, if that is in this process; `receive` gives all others. It only
        saves time."""
        ...

    async def acknowledge(self, receipts: Sequence[str], refused: Collection[str] = ()) -> None:
        """Confirm that what these results led to is durable. `refused` are those among them that are checkpoints of
        attempts that are over."""
        ...

    async def receive_begin(self) -> BeginRequest: ...

    async def grant_begin(self, task_id: str, granted: bool, ask: str = "") -> None:
        """Answer a wish to begin. Another wish for this task than `ask` stays without an answer."""
        ...

    async def find_missing(self, task_ids: Collection[str]) -> set[str]:
        """The tasks that are neither queued nor claimed any more: the sweep sends them again (PROTOCOL 14)."""
        ...

    async def list_workers(self) -> list[WorkerSeen]: ...

    async def list_queues(self) -> list[QueueSeen]:
        """The queues that hold a task, by name."""
        ...

    async def forget_worker(self, worker: str) -> list[str]:
        """Remove a dead worker; returns the tasks it had claimed."""
        ...

    # worker
    def on_task(self, worker: str, queues: Sequence[str], take: Callable[[Task], bool] | None) -> None:
        """Offer `take` each task of these queues as it is published, while a claim of the worker waits, if all that is in this
        process: the worker has a task for which it answers True, and its claim is for one less; one that is for none any more
        returns nothing. For a worker that takes every task; it only saves time."""
        ...

    async def claim(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        types: Collection[str] | None = None,
        functions: Collection[str] = (),
        lacking: Collection[str] = (),
    ) -> list[Task]:
        """Wait for tasks that fit, and return at least one and up to `limit`: highest priority first, then oldest
        first. `lacking` is read each time: the worker may find out more while it waits."""
        ...

    async def begin(self, task: Task, worker: str, ask: str = "") -> bool:
        """Wish to begin, and wait for the answer. `ask` names the wish. If this raises, the start may be durable, and
        the worker must not begin."""
        ...

    async def report(self, results: Sequence[Result]) -> None:
        """Report results. Raises CheckpointsRefused if all were taken but the attempts of some checkpoints are over, and
        CannotSend if none was sent because of some that never can be."""
        ...

    def report_now(self, result: Result) -> bool:
        """Report a result without waiting. False: that cannot be, nothing was reported, and `report` has to be called."""
        ...

    def beat(self, beat: WorkerBeat) -> tuple[str, ...]:
        """Say that the worker is alive. Returns the tasks that should stop. Called from a thread."""
        ...

    def on_stop(self, worker: str, wake: Callable[[], None] | None) -> None:
        """Call `wake`, from any thread, when the next beat would answer stop. It only saves time."""
        ...

    async def close(self) -> None: ...


class SharedTransport(Transport, Protocol):
    """A transport for several coordinators, each with its own partitions of the runs: `receive` and `receive_begin`
    give what belongs to those."""

    @property
    def streams(self) -> Streams:
        """Chunks on their way between attempts of any process."""
        ...

    def take_over(self, partitions: Collection[int]) -> None:
        """Receive for these partitions too, first what others received and did not acknowledge (PROTOCOL 17)."""
        ...

    def hand_back(self, partitions: Collection[int]) -> None:
        """Receive no more for these partitions; the coordinator that takes them over gets what was not acknowledged."""
        ...

    async def wake(self, topic: str, said: str = "") -> None:
        """Send a hint to every listener on this topic, in any process. It may get lost: listeners also poll."""
        ...

    def on_wake(self, topic: str, handler: Callable[[str], None]) -> Callable[[], None]:
        """Call `handler` with what is said on the topic, and with an empty text when something may have been missed.
        Returns a function that ends this."""
        ...
