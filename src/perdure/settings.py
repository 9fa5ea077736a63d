"""Settings: `perdure.toml` < environment (`PERDURE_…`) < flags, and where each value came from.

The only file that reads the environment. It knows names, types and ranges; it does not know what the values are for,
and it opens nothing but the settings file.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec

from perdure.capacity import MAX_BACKLOG, MAX_NODES, PARTITIONS, SANDBOX_MEMORY_MB
from perdure.errors import SettingsInvalid
from perdure.spelling import suggest
from perdure.tempo import TEMPO, Tempo

PREFIX = "PERDURE_"
SECRET_PREFIX = "PERDURE_SECRET_"  # noqa: S105  names of variables, not a secret
DEFAULT_FILE = "perdure.toml"

Url = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9+.-]*:\S+$")]
Seconds = Annotated[float, msgspec.Meta(ge=0.01, le=86_400)]
Rate = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Claim = Annotated[str, msgspec.Meta(min_length=1)]


class Row(NamedTuple):
    """One setting as `perdure config show` prints it; passwords are masked."""

    name: str
    value: object
    source: str


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    database_url: Url = "sqlite:///.perdure/perdure.db"
    """Journal and archive. After three slashes a path is relative to the working directory, after four absolute."""

    redis_url: Annotated[str, msgspec.Meta(pattern=r"^$|^(rediss?|unix)://\S+$")] = ""
    """The Redis server between processes, with a postgresql:// database; empty: everything in one process."""

    redis_prefix: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "perdure"
    """How every key in Redis begins; deployments that share a server have one prefix each."""

    signing_keys: str = ""
    """The keys that messages between processes are signed with, `id:base64,…`, the current one first. `serve` and
    `worker` do not start without them, unless this is `none`."""

    blob_url: Annotated[str, msgspec.Meta(pattern=r"^$|^[a-z][a-z0-9+.-]*:\S+$")] = ""
    """Where values too large for an event go: `file:folder`, `s3://bucket/prefix`, …; empty: beside the database."""

    worker_heartbeat_seconds: Seconds = TEMPO.heartbeat_seconds
    """How often a worker says that it lives."""

    worker_dead_seconds: Seconds = TEMPO.dead_seconds
    """Silence after which a worker counts as dead and its work is tried again."""

    lease_seconds: Seconds = TEMPO.lease_seconds
    """How long a coordinator that went silent keeps its share of the runs."""

    stale_result_seconds: Seconds = TEMPO.stale_seconds
    """Age at which a result that no coordinator took is handed to another one."""

    stale_claim_seconds: Seconds = TEMPO.look_for_stale_seconds
    """How often a coordinator looks for such results."""

    sweep_seconds: Seconds = TEMPO.sweep_seconds
    """How often the journal is compared with what is really under way."""

    queue_limits: str = ""
    """How many tasks of a queue may run at once over all processes, or start within a time: `gpu=2, mail=100/60s`."""

    max_backlog: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = MAX_BACKLOG
    """How many tasks may wait in one process; beyond that, new runs are refused with `overloaded`."""

    max_nodes: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """How many nodes a definition may have, eight edges counted as one; 0: 5,000 with `auth` other than `open`, else any
    number. A decision about all of them holds up everything else in the process."""

    folder_roots: str = ""
    """The folders under which sources of triggers may read files, `:` between them; empty: none."""

    trigger_slots: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1000
    """How many sources a process asks at once. Those that are idle between two looks do not count; it takes 10,000 of them."""

    sandbox_memory_mb: Annotated[int, msgspec.Meta(ge=1, le=4096)] = SANDBOX_MEMORY_MB
    """The most memory of one Python condition (its `max_memory_mb`); up to four of them run at once in a process."""

    partitions: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = PARTITIONS
    """Shares of the runs that coordinators divide among themselves; fixed when the database is made."""

    retention_days: Annotated[int, msgspec.Meta(ge=1, le=36_500)] = 30
    """How long ended runs are kept."""

    event_days: Annotated[int, msgspec.Meta(ge=1, le=36_500)] = 7
    """How long events are kept, and their ids are known."""
    llm_cache_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 7
    """How long answers of models are kept that nodes with a `cache` may use again; `perdure gc` forgets them."""
    session_days: Annotated[int, msgspec.Meta(ge=1, le=36_500)] = 90
    """How long turns and notes of sessions of agents are kept, and pipelines that may become tools."""

    max_events: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 1_000_000
    """How many events of a tenant are kept. Of more, the oldest that no trigger has still to read are forgotten; if there are none, no event is taken."""

    triggers: bool = True
    """Whether `perdure dev` and `perdure serve` drive triggers: schedules fire, and what is pushed starts runs."""

    secrets_file: str = ""
    """A TOML file with secrets, by tenant and queue."""

    secrets_provider: str = ""
    """A source of secrets from the entry-point group `perdure.secret_providers`."""

    encryption_keys: str = ""
    """The keys that seal sensitive fields, `id:base64,…`, the current one first; empty: a file beside the database."""

    agents_file: str = ""
    """A TOML file with the language models that workflows may name, their providers and prices; empty: the vendors' alone."""

    egress_allow: str = ""
    """Hosts and networks beyond the public ones that nodes may call: `api.internal:8443, 10.1.0.0/16:*`."""

    auth: Literal["open", "keys", "jwt", "keys,jwt"] = "open"
    """Who may use the server: anyone (on the loopback interface only), or holders of an API key, a token, or either."""

    task_modules: str = ""
    """Modules whose functions tasks may name as `module:name`, with commas between them; `*`: any. With `auth` other
    than `open`, and wherever this is set, functions of other modules are refused, unless they are registered or
    imported with --import."""

    jwt_secret: str = ""
    """The secret that signs tokens with HS256; at least 32 bytes."""

    jwt_keys_file: str = ""
    """A file with the public key that verifies tokens, in PEM, or with a JSON Web Key Set."""

    jwt_algorithms: str = ""
    """Accepted algorithms, with commas between them; empty: HS256 for a secret, the asymmetric ones for a file."""

    jwt_audience: str = ""
    """What `aud` of a token must be or hold; empty: anything."""

    jwt_issuer: str = ""
    """What `iss` of a token must be; empty: anything."""

    jwt_tenant_claim: Claim = "tenant"
    """The claim that holds the tenant."""

    jwt_roles_claim: Claim = "roles"
    """The claim that holds the roles: a list, or a text with spaces."""

    rate_limit_per_key: Rate = 2000.0
    """How many requests a second a key, or the subject of a token, may make of one process; 0: any number."""

    rate_limit_per_tenant: Rate = 4000.0
    """The same limit for all keys and subjects of a tenant together."""

    max_connections: Count = 2000
    """How many connections one process has at once; fewer where the system gives it fewer files."""

    max_connections_per_address: Count = 1000
    """The same limit for one address; behind a proxy every connection comes from the proxy's."""

    max_streams_per_key: Count = 100
    """How many live streams, exports and waiting requests a key, or the subject of a token, may have open in one process."""

    max_streams_per_tenant: Count = 400
    """The same limit for all keys and subjects of a tenant together."""

    max_triggers: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 1000
    """How many triggers a tenant may have."""

    asset_max_bytes: Annotated[int, msgspec.Meta(ge=1)] = 5 * 1024**3
    """The largest file that a function may return as an asset, or that may be uploaded."""

    tenant_asset_bytes: Annotated[int, msgspec.Meta(ge=0)] = 100 * 1024**3
    """How many bytes of promoted and uploaded assets a tenant may keep, all versions together; 0: none."""

    hook_max_bytes: Annotated[int, msgspec.Meta(ge=1, le=1024 * 1024)] = 1024 * 1024
    """The largest body that a webhook may be sent."""

    hook_rate: Rate = 100.0
    """How many deliveries a second one webhook takes in one process; 0: any number."""

    allow_unsigned_hooks: bool = False
    """Whether a webhook may prove nothing (`verify: {scheme: none}`): then its address is its only secret."""

    public_url: Annotated[str, msgspec.Meta(pattern=r"^$|^https?://\S+$")] = ""
    """Where others reach the server: for links to approvals, and for the answers of webhooks; empty: paths alone."""

    ui: bool = True
    """Whether the server has the web interface at `/`."""

    mcp: bool = False
    """Whether the server offers workflows with `expose: {mcp: true}` to MCP clients, at `/mcp`. `perdure dev` does unless this says no."""

    mcp_approvals: bool = False
    """Whether an MCP client may decide approvals there, with a key that may decide them."""

    server_url: Annotated[str, msgspec.Meta(pattern=r"^$|^https?://\S+$")] = ""
    """The server that commands and clients work on; empty: commands work on the database."""

    api_key: str = ""
    """The API key that commands and clients show to that server."""

    log_format: Literal["text", "json"] = "text"
    """What serving processes write to standard error: lines for people, or one JSON object a line."""

    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """The lowest level of log lines that serving processes write."""

    sources: dict[str, str] = {}
    """Where each value came from: `default`, the file, the variable or the flag. Not a setting."""

    @classmethod
    def load(
        cls,
        flags: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        path: Path | str | None = None,
    ) -> Settings:
        """Read all three places. A flag that is None was not given. Without `path`, `perdure.toml` may be missing."""
        file = _find_file() if path is None else Path(path)
        layers = [
            {} if file is None else _read_file(file),
            _read_environment(os.environ if environ is None else environ),
            _read_flags(flags or {}),
        ]
        values: dict[str, Any] = {}
        sources = dict.fromkeys(NAMES, "default")
        for layer in layers:
            for name, (value, source) in layer.items():
                values[name] = _convert(name, value, source)
                sources[name] = source
        if path is None and file is not None and file.is_absolute():  # of a folder above: paths begin there
            values |= _beside(file, values, sources)
        settings = cls(**values, sources=sources)
        settings._check()
        return settings

    @property
    def tempo(self) -> Tempo:
        return Tempo(
            heartbeat_seconds=self.worker_heartbeat_seconds,
            dead_seconds=self.worker_dead_seconds,
            sweep_seconds=self.sweep_seconds,
            lease_seconds=self.lease_seconds,
            stale_seconds=self.stale_result_seconds,
            look_for_stale_seconds=self.stale_claim_seconds,
        )

    @property
    def allowed_modules(self) -> tuple[str, ...] | None:
        """The modules that definitions may name; None: any, because the authors of workflows own the machine."""
        if self.auth == "open" and not self.task_modules:
            return None
        return tuple(name.strip() for name in self.task_modules.split(",") if name.strip())

    @property
    def most_nodes(self) -> int | None:
        """How large a definition may be; None: any, because the authors of workflows own the machine."""
        return self.max_nodes or (None if self.auth == "open" else MAX_NODES)

    def rows(self) -> list[Row]:
        return [Row(name, self._shown(name), self.sources.get(name, "default")) for name in NAMES]

    def _shown(self, name: str) -> object:
        value = getattr(self, name)
        return "***" if value and name in _HIDDEN else _mask(value)

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{row.name}={row.value!r}' for row in self.rows())})"

    def _check(self) -> None:
        if self.worker_dead_seconds <= self.worker_heartbeat_seconds:
            raise SettingsInvalid(
                f"expected worker_dead_seconds ({self.sources['worker_dead_seconds']}) greater than "
                f"worker_heartbeat_seconds ({self.sources['worker_heartbeat_seconds']}), "
                f"got {self.worker_dead_seconds:g} and {self.worker_heartbeat_seconds:g}; "
                "a worker would count as dead between two heartbeats"
            )


DEFAULTS = Settings()

Layer = dict[str, tuple[object, str]]

_FIELDS = {field.name: field for field in msgspec.structs.fields(Settings) if field.name != "sources"}
NAMES = tuple(_FIELDS)
_HIDDEN = frozenset({"api_key", "encryption_keys", "jwt_secret", "signing_keys"})


def _find_file() -> Path | None:
    """`perdure.toml` here or in the nearest folder above, up to the repository or home; never another user's."""
    if (here := Path(DEFAULT_FILE)).exists():
        return here
    for folder in (Path.cwd(), *Path.cwd().parents):
        file = folder / DEFAULT_FILE
        if file.is_file() and file.stat().st_uid in (os.getuid() if hasattr(os, "getuid") else 0, 0):
            return file
        if (folder / ".git").exists() or folder == Path.home():
            return None
    return None


def _beside(file: Path, values: Mapping[str, Any], sources: dict[str, str]) -> dict[str, Any]:
    """Relative paths that the file names, and the database where nothing names one, are relative to its folder."""
    found: dict[str, Any] = {}
    for name in ("database_url", "blob_url", "secrets_file", "agents_file", "jwt_keys_file"):
        if sources[name] != str(file) and not (name == "database_url" and sources[name] == "default"):
            continue
        value = str(values.get(name, _FIELDS[name].default))
        match = re.fullmatch(r"(sqlite:///|file:|(?![a-z][a-z0-9+.-]*:))([^/].*)", value)
        if match is not None:
            path = (file.parent / match[2]).as_posix()
            found[name] = f"{match[1]}/{path.lstrip('/')}"
            sources[name] = str(file)
    return found


def _read_file(file: Path) -> Layer:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsInvalid(f"cannot read settings from {file}: {error}") from error
    for name in content:
        if name not in _FIELDS:
            raise _unknown(name, NAMES, f" in {file}")
    return {name: (value, str(file)) for name, value in content.items()}


def _read_environment(environ: Mapping[str, str]) -> Layer:
    variables = {PREFIX + name.upper(): name for name in NAMES}
    layer: Layer = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable.startswith(SECRET_PREFIX):
            continue
        if variable not in variables:
            raise _unknown(variable, tuple(variables), " in the environment")
        layer[variables[variable]] = (environ[variable], variable)
    return layer


def read_secrets(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The values of the variables `PERDURE_SECRET_<NAME>`, by name."""
    found = os.environ if environ is None else environ
    return {name.removeprefix(SECRET_PREFIX): found[name] for name in found if name.startswith(SECRET_PREFIX)}


def without_secrets(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a process that runs others' code: without secrets, which it is given where a node names them,
    and without the keys of this process. The API key stays: it is what a function calls the API with."""
    found = os.environ if environ is None else environ
    hidden = {PREFIX + name.upper() for name in _HIDDEN - {"api_key"}}
    return {name: found[name] for name in found if not name.startswith(SECRET_PREFIX) and name not in hidden}


def _read_flags(flags: Mapping[str, object]) -> Layer:
    for name in flags:
        if name not in _FIELDS:
            raise _unknown(name, NAMES, " among the flags")
    return {name: (value, f"--{name.replace('_', '-')}") for name, value in flags.items() if value is not None}


def _convert(name: str, value: object, source: str) -> Any:
    try:
        # Variables are always text, so text is read as the type it should have; nothing else is converted.
        return msgspec.convert(value, _FIELDS[name].type, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        if name in _HIDDEN:
            problem = "expected text"
        elif name.endswith("_url"):  # a URL may hold a password, so it stays out of the message
            problem = "expected a URL such as " + repr(_FIELDS[name].default)
        elif choices := [one for one in get_args(_FIELDS[name].type) if isinstance(one, str)]:
            problem = f"expected {', '.join(choices[:-1])} or {choices[-1]}, got {value!r}"
        else:
            problem = f"{str(error)[0].lower()}{str(error)[1:]}, got {value!r}"
        raise SettingsInvalid(f"setting {name} from {source}: {problem}") from error


def _unknown(name: str, known: tuple[str, ...], where: str) -> SettingsInvalid:
    return SettingsInvalid(f"unknown setting '{name}'{where}; {suggest(name, known)}")


def _mask(value: object) -> object:
    """Hide the password of a URL: everything between the user's colon and the last @ before the path."""
    return re.sub(r"(://[^/:@]*):[^/]*@", r"\1:***@", value) if isinstance(value, str) else value


def show_device(device: str) -> None:
    """Let libraries of this process, and of those it starts, see one device: they read this before they are used first."""
    os.environ["CUDA_VISIBLE_DEVICES"] = device


def wants_plain(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the user wants no colour (no-color.org), or the terminal can only print. Not a setting of Perdure."""
    where = os.environ if environ is None else environ
    return bool(where.get("NO_COLOR")) or where.get("TERM") == "dumb"
