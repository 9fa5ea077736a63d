"""The operator's file (setting `agents_file`): which providers there are, what their models are called here, what they cost.

    [providers.local]
    kind = "openai_chat"
    base_url = "http://127.0.0.1:8080/v1"

    [models.fast]
    provider = "openai"
    model = "gpt-5-mini"

Workflows name models and nothing else of this: a URL or a key in a workflow is no model. Keys are secrets, named here and
never written here. `openai`, `anthropic` and `gemini` are there without being named; they need their secret.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from perdure.egress.errors import EgressRefused
from perdure.egress.urls import Url, parse
from perdure.errors import SettingsInvalid
from perdure.llms.anthropic import Anthropic
from perdure.llms.mcp_rows import McpServer
from perdure.llms.misfits import find_misfits
from perdure.llms.openai_chat import OpenAIChat
from perdure.llms.openai_responses import OpenAIResponses
from perdure.llms.policy_rows import Policy
from perdure.llms.port import Codec, LlmError, Request, Speaker
from perdure.llms.prices import Price, find_price
from perdure.llms.profile_rows import Profile, host_of
from perdure.plain_text import cut
from perdure.spelling import suggest

Kind = Literal["openai_chat", "openai_responses", "anthropic"]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
MAX_OUTPUT = 4_096
MAX_FILE = 1024 * 1024
MOST_PROBLEMS = 20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MODEL = re.compile(r"[A-Za-z0-9_.:/@+-]{1,200}")
_SECTIONS = ("providers", "models", "prices", "policy", "profiles", "mcp")


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    kind: Kind
    base_url: str
    secret: str = ""
    """The name of the secret that is its key; empty: it wants none."""
    stream: bool = True
    limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """What a server of kind openai_chat calls the most tokens of an answer."""
    allow_http: bool = False
    """Whether the key may travel unencrypted to a host that is not this one."""
    first_seconds: Seconds = 60.0
    """How long the first token may take."""
    between_seconds: Seconds = 30.0
    """How long a stream may be silent after that."""
    max_calls: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    """How many calls one process makes of it at once; others wait."""
    tenants: tuple[str, ...] = ("*",)

    @property
    def url(self) -> Url:
        return parse(self.base_url.rstrip("/") + self.codec.path)

    @property
    def also(self) -> str:
        """What its calls may reach besides public hosts: its own host and port, and nothing else."""
        return host_of(self.url)

    @property
    def codec(self) -> Codec:
        if self.kind == "anthropic":
            return Anthropic()
        if self.kind == "openai_responses":
            return OpenAIResponses()
        return OpenAIChat(self.limit_field, cache_key="api.openai.com" in self.base_url)


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    provider: str
    model: str
    context: Annotated[int, msgspec.Meta(ge=1, le=100_000_000)] | None = None
    """How many tokens it reads and writes at most; longer prompts are refused before they are sent."""
    max_output: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = MAX_OUTPUT
    tools: Literal["native", "schema", "none"] = "native"
    schema: Literal["native", "prompt"] = "native"
    """Whether the provider keeps answers to a JSON Schema; otherwise it is written into the prompt."""
    private: bool = False
    """Whether a what-if may show it what is private and was said to another model."""
    tenants: tuple[str, ...] = ("*",)


def _vendor(name: str, kind: Kind, base_url: str) -> Provider:
    return Provider(kind=kind, base_url=base_url, secret=f"{name.upper()}_API_KEY")


BUILT_IN = {
    "openai": _vendor("openai", "openai_responses", "https://api.openai.com/v1"),
    "anthropic": _vendor("anthropic", "anthropic", "https://api.anthropic.com/v1"),
    "gemini": _vendor("gemini", "openai_chat", "https://generativelanguage.googleapis.com/v1beta/openai"),
}


class Found(msgspec.Struct, frozen=True):
    """A model that may be called, with all that a call needs except the key."""

    name: str
    """What the workflow calls it."""
    row: Model
    provider: Provider
    price: Price | None
    speaker: Speaker | None = None
    """Who answers in this process, in the place of the provider."""

    def told_tools(self, request: Request) -> bool:
        """Whether it is told of the tools in words, because it has none of its own."""
        return self.row.tools == "schema" and bool(request.prefix.tools)

    @property
    def full(self) -> str:
        return f"{self.row.provider}/{self.row.model}"


class Models(msgspec.Struct, frozen=True):
    providers: dict[str, Provider] = msgspec.field(default_factory=lambda: dict(BUILT_IN))
    models: dict[str, Model] = {}
    prices: dict[str, Price] = {}
    speaker: Speaker | None = None
    """Who answers for all of them, in a test."""
    policy: tuple[Policy, ...] = ()
    """What agents may do, whatever workflows say."""
    profiles: dict[str, Profile] = {}
    """Services that agents may call."""
    mcp: dict[str, McpServer] = {}
    """Servers whose tools agents may call."""

    def policies(self, tenant: str) -> list[Policy]:
        return [one for one in self.policy if "*" in one.tenants or tenant in one.tenants]

    def get(self, name: str, tenant: str) -> Found:
        """The model that a workflow of this tenant names. Raises LlmError."""
        row = self.models.get(name)
        if row is None:
            provider, slash, model = name.partition("/")
            if slash and provider in self.providers and _MODEL.fullmatch(model):
                row = self._find(provider, model)
        provider_row = None if row is None else self.providers[row.provider]
        if row is None or provider_row is None or not (_has(row, tenant) and _has(provider_row, tenant)):
            raise LlmError("llm:unknown_model", self._explain(name, tenant), sent=False)
        price = find_price(self.prices, row.provider, row.model)
        return Found(name, row, provider_row, price, self.speaker)

    def _find(self, provider: str, model: str) -> Model | None:
        """A model by the name that its provider has for it. Where the file has models of a provider, those and the ones it has prices for
        are all: another would be asked with the operator's key, past what the file says of tenants and sizes (X08)."""
        rows = [one for one in self.models.values() if one.provider == provider]
        if (row := next((one for one in rows if one.model == model), None)) is not None:
            return row
        return None if rows and f"{provider}/{model}" not in self.prices else Model(provider=provider, model=model)

    def find_problem(self, name: str) -> str | None:
        """Why no tenant can call a model of this name; None if one may."""
        if name in self.models or name.partition("/")[0] in self.providers:
            return None
        return self._explain(name, "*")

    def find_profile(self, name: str, tenant: str | None = None) -> Profile | None:
        """The profile of this name, if the tenant may use it; without a tenant, of any."""
        found = self.profiles.get(name)
        return found if found is not None and (tenant is None or _has(found, tenant)) else None

    def find_mcp(self, name: str, tenant: str | None = None) -> McpServer | None:
        """The MCP server of this name, if the tenant may use it; without a tenant, of any."""
        found = self.mcp.get(name)
        return found if found is not None and (tenant is None or _has(found, tenant)) else None

    def find_owner_of(self, secret: str) -> str | None:
        """The provider whose key a secret is, by the operator's file; None: it is a secret like any other. Of vendors that the file does
        not name, keys are secrets of the tenant: workflows may have used them before there was a file."""
        used = {row.provider for row in self.models.values()}
        for name, provider in self.providers.items():
            if provider.secret == secret and (name in used or BUILT_IN.get(name) is not provider):
                return f"the models of {name}"
        owners = [
            f"the profile {name}" for name, one in self.profiles.items() if one.auth and one.auth.secret == secret
        ]
        owners += [f"the MCP server {name}" for name, server in self.mcp.items() if secret in server.keys]
        return next(iter(owners), None)

    def names(self, tenant: str) -> list[str]:
        return sorted(
            name
            for name, row in self.models.items()
            if _has(row, tenant) and _has(self.providers[row.provider], tenant)
        )

    def _explain(self, name: str, tenant: str) -> str:
        known = self.names(tenant)
        if not known:
            return (
                f"there is no model {cut(ascii(name), 100)} here; the operator names models in the file of the setting "
                "agents_file, or write provider/model, such as openai/gpt-5-mini"
            )
        return f"there is no model {cut(ascii(name), 100)} here; {suggest(name, tuple(known))}"


def _has(row: Provider | Model | Profile | McpServer, tenant: str) -> bool:
    return "*" in (tenant, *row.tenants) or tenant in row.tenants


# -- reading -----------------------------------------------------------------------------------------------------------


def open_models(path: str) -> Models:
    """The models of the operator's file; without one, those of the vendors. Raises SettingsInvalid with every problem."""
    if not path:
        return Models()
    file = Path(path)
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise SettingsInvalid(f"agents file {path} has more than {MAX_FILE:,} bytes")
        content = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise SettingsInvalid(f"cannot read agents file {path}: {error.strerror}; setting agents_file") from None
    except ValueError as error:
        raise SettingsInvalid(f"agents file {path} is not valid TOML: {cut(str(error), 200)}") from None
    problems: list[str] = []
    models = read_models(content, problems)
    if problems:
        rest = f"\n  … and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
        told = problems[0] if len(problems) == 1 else "".join(f"\n  {one}" for one in problems[:MOST_PROBLEMS])
        raise SettingsInvalid(f"agents file {path}: {told}{rest}".replace(": \n", ":\n"))
    servers = {name: msgspec.structs.replace(one, pins=_beside(file, one.pins)) for name, one in models.mcp.items()}
    return msgspec.structs.replace(models, mcp=servers)


def _beside(file: Path, name: str) -> str:
    """A file that is named in this one; empty: none is."""
    return str(file.parent / name) if name else ""


def read_models(content: dict[str, Any], problems: list[str]) -> Models:
    problems += [
        f"unknown section '{cut(one, 80)}'; {suggest(one, _SECTIONS)}" for one in content if one not in _SECTIONS
    ]
    providers = {**BUILT_IN, **_read(content, "providers", Provider, problems)}
    models = _read(content, "models", Model, problems)
    prices = _read(content, "prices", Price, problems, name=re.compile(r"[^/\s]{1,64}/\S{1,200}"))
    for name, provider in providers.items():
        problems += [f"providers.{name}: {problem}" for problem in _check_provider(provider)]
    for name, row in models.items():
        if row.provider not in providers and row.provider not in (content.get("providers") or {}):
            problems.append(
                f"models.{name}: no provider '{cut(row.provider, 80)}'; {suggest(row.provider, tuple(providers))}"
            )
        if not _MODEL.fullmatch(row.model):
            problems.append(f"models.{name}: 'model' is what the provider calls it, without spaces")
    problems += [
        f"prices.'{name}': no provider '{name.partition('/')[0]}'; a price is named provider/model"
        for name in prices
        if name.partition("/")[0] not in providers
    ]
    profiles = _read(content, "profiles", Profile, problems)
    for name, profile in profiles.items():
        problems += [f"profiles.{name}: {problem}" for problem in profile.find_problems()]
    servers = _read(content, "mcp", McpServer, problems)
    for name, server in servers.items():
        problems += [f"mcp.{name}: {problem}" for problem in server.find_problems()]
    known = {name: row for name, row in models.items() if row.provider in providers}
    policy = _read_policy(content.get("policy", []), problems)
    return Models(providers, known, prices, policy=policy, profiles=profiles, mcp=servers)


def _read_policy(rows: Any, problems: list[str]) -> tuple[Policy, ...]:
    if not isinstance(rows, list):
        problems.append("'policy' must be a list of rules: [{when = …, then = …}]")
        return ()
    found = []
    for number, row in enumerate(rows):
        try:
            policy = msgspec.convert(row, Policy)
        except msgspec.ValidationError as error:
            where = f"policy[{number}]"
            problems += find_misfits(Policy, row, where) or [f"{where}: {cut(str(error), 200)}"]
            continue
        if (problem := policy.find_problem()) is not None:
            problems.append(f"policy[{number}].when: {problem}")
        found.append(policy)
    return tuple(found)


def _read(
    content: dict[str, Any], section: str, kind: type[Any], problems: list[str], name: re.Pattern[str] = _NAME
) -> dict[str, Any]:
    rows = content.get(section, {})
    if not isinstance(rows, dict):
        problems.append(f"'{section}' must be a table")
        return {}
    found = {}
    for key, row in rows.items():
        if not name.fullmatch(key):
            problems.append(f"{section}: {cut(ascii(key), 80)} is no name")
            continue
        try:
            found[key] = msgspec.convert(row, kind)
        except msgspec.ValidationError as error:
            problems += find_misfits(kind, row, f"{section}.{key}") or [f"{section}.{key}: {cut(str(error), 200)}"]
    return found


def _check_provider(provider: Provider) -> list[str]:
    problems = []
    if provider.secret and not _SECRET.fullmatch(provider.secret):  # not quoted: it may be the key itself
        problems.append("'secret' must be the name of a secret, such as OPENAI_API_KEY, never the key itself")
    try:
        url = provider.url
    except EgressRefused as error:
        return [*problems, f"base_url: {error.message}"]
    if url.query:
        problems.append("base_url has a query; leave it out")
    is_here = url.host == "localhost" or (url.address is not None and url.address.is_loopback)
    if provider.secret and url.scheme == "http" and not is_here and not provider.allow_http:
        problems.append("base_url is http://, so its key would travel in the open; use https, or say allow_http = true")
    return problems
