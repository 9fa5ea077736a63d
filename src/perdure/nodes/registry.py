"""Which node types there are, and the two ways a type can work. One registry holds built-in and third-party types.

A *worker type* has a handler that a worker calls. A *coordinator type* is trivial: it answers at once from its rendered
config, in the append that made the node ready, with no task and no second commit (PROTOCOL 28). Third-party types are
worker types: code that is not Perdure's does not run where runs are decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, Protocol, get_args

import msgspec

from perdure.errors import PerdureError
from perdure.expressions.json_schema import Schema, SchemaInvalid, compile_schema
from perdure.kernel.values import Wait
from perdure.model.ir import IR
from perdure.model.money import Budget
from perdure.model.triggers import Trigger
from perdure.nodes.plugins import Plugin, PluginBroken, Plugins
from perdure.nodes.shared_values import Opener

BUILT_IN = "built in"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

Capability = Literal["network", "effect", "waits", "person", "children", "code", "files", "model"]
"""What a type can do beyond computing a value, for readers and for policies. The set is closed."""

CAPABILITIES: dict[Capability, str] = {
    "network": "calls other hosts, within the egress rules",
    "effect": "can change something outside the run, so a second execution may matter",
    "waits": "can pause for a time, a signal, a person or another run",
    "person": "asks a person",
    "children": "starts items or other runs",
    "code": "runs code that the workflow names or holds",
    "files": "reads or writes files of the worker's machine",
    "model": "asks a language model",
}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One activation of a coordinator type, with its config rendered."""

    run_id: str
    node: str
    config: Any
    run_inputs: Any
    inputs: dict[str, Any]
    """The outputs of the edges that were taken, by node."""
    at: float
    undo: bool = False


class Done(msgspec.Struct, frozen=True):
    output: Any


class Failed(msgspec.Struct, frozen=True):
    code: str
    message: str


class Suspended(msgspec.Struct, frozen=True, kw_only=True):
    """The node waits: for a person, a time, a signal, a child run or its items."""

    wait: Wait
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    on_timeout: str = "reject"
    escalate_to: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    shown: Any = None
    form: Any = None
    notify: dict[str, str] | None = None
    workflow: str = ""
    inputs: Any = None
    budget: Budget | None = None


class Awaiting(msgspec.Struct, frozen=True):
    """The node wants the next item of a source (rule 54)."""

    trigger: Trigger


Answer = Done | Failed | Suspended | Awaiting
Path = tuple[str | int, ...]


class Handler(Protocol):
    """The function of a worker type. `ctx` is the worker's context: run id, attempt, idempotency key, checkpoints, …"""

    def __call__(self, config: Any, ctx: Any) -> Any: ...


class NodeType(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    name: str
    description: str
    """One sentence; `perdure node-types` shows it."""
    config_schema: dict[str, Any] = {}
    """A JSON Schema of the config. It is checked when a workflow is registered, with templates standing for anything,
    and again when rendered."""
    output_schema: dict[str, Any] = {}
    """A JSON Schema of the output, for readers and tools; the one that is enforced is a node's own `output_schema`."""
    version: str = "1"
    capabilities: frozenset[Capability] = frozenset()
    aliases: tuple[str, ...] = ()
    """Other names a definition may use."""
    example: dict[str, Any] = {}
    """A node of this type, as a definition has it, without its id."""
    unknown_hint: str = ""
    """A hint for a key that the schema does not know and that is no typo of one it knows."""
    check: Callable[[dict[str, Any]], Iterable[tuple[Path, str]]] | None = None
    """Finds mistakes that a schema cannot, each with its path; also before rendering: see `has_template`."""
    check_written: Callable[[dict[str, Any]], Iterable[tuple[Path, str]]] | None = None
    """The same for what only its author may not write: it is not called with what templates gave, which is data."""
    warn: Callable[[dict[str, Any]], Iterable[tuple[Path, str]]] | None = None
    """Finds what is allowed but hardly ever meant, each with its path, as warnings. It is called like `check`, and
    only for a config without mistakes."""
    has_parts: bool = False
    """What `check` and `warn` find in one part of a config is so whatever is wrong with another: they are called for the rest of a
    config with mistakes."""
    warn_graph: Callable[[IR, Any], Iterable[tuple[str, str, str]]] | None = None
    """Finds what is hardly ever meant and shows only in the whole workflow: node, code and words, as warnings. It is called
    with the workflow and the registry, for workflows that have a node of this type."""
    answer: Callable[[Call], Answer] | None = None
    """For coordinator types: gives the answer to an activation."""
    on_worker: Callable[[Any], bool] | None = None
    """For a type that has both: whether a config needs a worker. It is not rendered yet; None if it is unknown."""
    handler: Handler | None = None
    """For worker types: what a worker calls. Async, or sync and then called in a thread."""
    inputs_on_demand: bool = False
    """Whether an async handler calls `await ctx.load_inputs()` itself before `ctx.inputs`; others find them loaded."""
    open: Callable[[], Any] | None = None
    """Called once in each process, before the first attempt: what it gives is `ctx.shared`. Sync, then called in a thread, or
    async. Both functions are named at the top level of a module, so that an isolated process finds them."""
    close: Callable[..., Any] | None = None
    """Called once when a worker ends, to close what handlers share: with what `open` gave, if there is one."""

    @cached_property
    def opener(self) -> Opener | None:
        return None if self.open is None else Opener(opener_name(self.name), self.open, self.open, None, self.close)

    palette: Callable[[Any], Any] | None = None
    """For types whose handlers may ask for a patch of their run: what a config lets them add, or None (rule 87)."""

    raw_keys: tuple[str, ...] = ()
    """Top-level config keys that are not rendered when the node is dispatched (a map's inner node)."""
    ref_keys: tuple[str, ...] | None = ()
    """For coordinator types: top-level config keys that `answer` only passes on, so that they may hold references to
    blobs instead of their content. `key[]` is a list whose items are passed on. None: the whole config is."""

    urls: tuple[tuple[str, ...], ...] = ()
    """Where URLs stand in the config: keys from the top, `*` for any item of a list. What templates put into a URL is
    encoded for the part it stands in, and a config with secrets needs the host written out."""

    @cached_property
    def validator(self) -> Schema:
        """The compiled schema of the config: it is asked about every node that is executed, and goes with its type."""
        return compile_schema(self.config_schema)

    def is_answered(self, config: Any) -> bool:
        """Whether the coordinator answers such a node; otherwise it needs a worker."""
        return self.answer is not None and (self.on_worker is None or not self.on_worker(config))


def opener_name(node_type: str) -> str:
    return f"node type {node_type}"


class NodeTypeInvalid(PerdureError):
    code = "invalid_node_type"


def has_template(value: Any) -> bool:
    """Whether a value is a text that is known only when the node runs."""
    return isinstance(value, str) and "{{" in value


class Trouble(msgspec.Struct, frozen=True):
    """A third-party type that cannot be used, and why."""

    name: str
    source: str
    message: str


class Registry:
    """Node types by name. Third-party ones are looked for when a name is not built in, and imported at first use."""

    def __init__(self, plugins: Plugins | None = None) -> None:
        self._types: dict[str, NodeType] = {}
        self._sources: dict[str, str] = {}
        self._names: dict[str, str] = {}
        """Aliases, and the names they stand for."""
        self._plugins = plugins or Plugins(None)
        self._troubles: dict[str, Trouble] = {}
        self._unused: list[Trouble] | None = None

    def add(self, node_type: NodeType, source: str = BUILT_IN) -> None:
        mistakes = find_flaws(node_type)
        if mistakes:
            raise NodeTypeInvalid(f"node type {node_type.name!r}: {'; '.join(mistakes)}")
        for name in (node_type.name, *node_type.aliases):
            if name in self._types or name in self._names:
                raise NodeTypeInvalid(f"node type {name!r} is registered twice")
        self._types[node_type.name] = node_type
        self._sources[node_type.name] = source
        self._names.update(dict.fromkeys(node_type.aliases, node_type.name))

    def find(self, name: str) -> NodeType | None:
        """The type; None if there is none, or if it cannot be loaded: `explain` says which."""
        found = self._types.get(name)
        if found is None and name in self._names:
            found = self._types.get(self._names[name])
        return self._load(name) if found is None else found

    def explain(self, name: str) -> str:
        """Why `find` gave nothing."""
        trouble = self._troubles.get(name)
        if trouble is not None:
            return trouble.message
        return f"no node type {name!r}; known are {', '.join(self.names())}"

    def names(self) -> list[str]:
        """The names of built-in and installed types, loaded or not."""
        return sorted(self._types.keys() | self._offered().keys())

    def is_broken(self, name: str) -> bool:
        """Whether a type is installed and cannot be used."""
        return self.find(name) is None and name in self._troubles

    def worker_names(self) -> list[str]:
        """The types a worker can be asked for, without loading any."""
        return [name for name in self.names() if name not in self._types or self._types[name].handler is not None]

    def source(self, name: str) -> str:
        """Where a type comes from: `built in`, or a distribution and its version."""
        return self._sources.get(name, "")

    def troubles(self) -> list[Trouble]:
        """Every third-party type that is installed and not usable. Loads all of them."""
        for name in self._offered():
            self.find(name)
        return [*self._troubles.values(), *(self._unused or ())]

    def loaded(self) -> Iterator[NodeType]:
        return iter(list(self._types.values()))

    def __iter__(self) -> Iterator[NodeType]:
        """All types that can be used, by name; broken ones are left out."""
        found = (self.find(name) for name in self.names())
        return iter([node_type for node_type in found if node_type is not None])

    # -- third-party types ---------------------------------------------------------------------------------------------

    def _offered(self) -> dict[str, list[Plugin]]:
        """The types that installed distributions bring, by name, except names that are built in."""
        offered = self._plugins.by_name()
        taken = {name for name in offered if self._is_built_in(name)}
        if self._unused is None:
            self._unused = [
                Trouble(name, plugin.source, f"{plugin.source} brings {name!r}, which is built in; it is not used")
                for name in sorted(taken)
                for plugin in offered[name]
            ]
        return {name: plugins for name, plugins in offered.items() if name not in taken}

    def _is_built_in(self, name: str) -> bool:
        return self._sources.get(self._names.get(name, name)) == BUILT_IN

    def _load(self, name: str) -> NodeType | None:
        plugins = self._offered().get(name)
        if plugins is None or name in self._troubles:
            return None
        sources = ", ".join(plugin.source for plugin in plugins)
        try:
            if len(plugins) > 1:
                raise PluginBroken(f"node type {name!r} comes from {sources}; uninstall all but one")
            self.add(_read_plugin(plugins[0]), sources)
        except PerdureError as error:
            message = error.message if isinstance(error, PluginBroken) else f"{sources}: {error.message}"
            self._troubles[name] = Trouble(name, sources, message)
            return None
        return self._types[name]


def _read_plugin(plugin: Plugin) -> NodeType:
    loaded = plugin.load()
    where = f"node type {plugin.name!r} of {plugin.source}"
    if not isinstance(loaded, NodeType):
        raise PluginBroken(f"{where}: {plugin.value} is a {type(loaded).__name__}; expected a perdure.NodeType")
    if loaded.name != plugin.name:
        raise PluginBroken(f"{where}: {plugin.value} calls itself {loaded.name!r}; give both the same name")
    if loaded.answer is not None:
        raise PluginBroken(f"{where}: `answer` is for built-in types; give it a handler")
    return loaded


def find_flaws(node_type: NodeType) -> list[str]:
    """What is wrong with a type itself."""
    flaws = []
    both = node_type.answer is not None and node_type.handler is not None
    if node_type.answer is None and node_type.handler is None:
        flaws.append("it needs an answer or a handler")
    elif both is not (node_type.on_worker is not None):
        flaws.append("it needs either an answer or a handler, or both and `on_worker`")
    flaws += [
        f"{name!r} is no name: letters, digits, '_', '.' and '-', at most 64"
        for name in (node_type.name, *node_type.aliases)
        if not _NAME.fullmatch(str(name))
    ]
    if not str(node_type.description).strip():
        flaws.append("it has no description")
    unknown = sorted(set(map(str, node_type.capabilities)) - set(get_args(Capability)))
    if unknown:
        flaws.append(f"unknown capabilities {', '.join(unknown)}; known are {', '.join(CAPABILITIES)}")
    for key in ("config_schema", "output_schema"):
        try:
            compile_schema(getattr(node_type, key))
        except (SchemaInvalid, TypeError) as error:
            flaws.append(f"{key}: {error}")
    return flaws
