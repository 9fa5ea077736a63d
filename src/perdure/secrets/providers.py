"""Where the values of `{{ secrets.name }}` come from: the environment, a file, or a third-party provider.

It owns the scopes: which tenant and which queue may have a value. Values leave only by `find`; nothing here prints,
logs or stores one.
"""

from __future__ import annotations

import importlib.metadata
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from perdure.errors import SettingsInvalid

GROUP = "perdure.secret_providers"


class Provider(Protocol):
    """A source of secrets. Workers call it from any thread; a provider that is slow should cache its values."""

    def find(self, name: str, tenant: str, queue: str) -> str | None:
        """The value for a task of this tenant in this queue, or None if the provider has none for it."""
        ...

    def names(self) -> Iterable[tuple[str, str, str]]:
        """The secrets there are, as (name, tenant, queue), with `*` for any. Never values."""
        ...


class Environment:
    """Secrets in variables `PERDURE_SECRET_<NAME>`, for every tenant and queue."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def find(self, name: str, tenant: str, queue: str) -> str | None:
        found = self._values.get(name)
        return found if found is not None else self._values.get(name.upper())

    def names(self) -> Iterable[tuple[str, str, str]]:
        return [(name, "*", "*") for name in sorted(self._values)]


class _Reach(msgspec.Struct, forbid_unknown_fields=True):
    secrets: dict[str, str]
    tenant: str = "*"
    queue: str = "*"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    secrets: dict[str, str] = {}
    scope: list[_Reach] = []


class SecretsFile:
    """A TOML file that only its owner may read:

    [secrets]
    api_key = "…"                 # for everyone

    [[scope]]                     # for one tenant, one queue, or both
    tenant = "acme"
    queue = "payments"
    secrets = { api_key = "…" }

    The narrowest scope that has the name wins: tenant and queue, tenant, queue, everyone.
    """

    def __init__(self, path: Path) -> None:
        self._scopes: dict[tuple[str, str], dict[str, str]] = {}
        content = _read(path)
        for scope in [_Reach(content.secrets), *content.scope]:
            self._scopes.setdefault((scope.tenant, scope.queue), {}).update(scope.secrets)

    def find(self, name: str, tenant: str, queue: str) -> str | None:
        for key in ((tenant, queue), (tenant, "*"), ("*", queue), ("*", "*")):
            found = self._scopes.get(key, {}).get(name)
            if found is not None:
                return found
        return None

    def names(self) -> Iterable[tuple[str, str, str]]:
        return sorted((name, tenant, queue) for (tenant, queue), values in self._scopes.items() for name in values)


class Secrets:
    """All providers; the first that has a value wins."""

    def __init__(self, providers: Iterable[tuple[str, Provider]] = ()) -> None:
        self._providers = list(providers)

    def get(self, name: str, tenant: str, queue: str) -> str:
        """The value of a secret. Raises LookupError if no provider has it."""
        for _, provider in self._providers:
            found = provider.find(name, tenant, queue)
            if found is not None:
                return found
        raise LookupError(name)

    def rows(self) -> list[dict[str, str]]:
        return [
            {"name": name, "tenant": tenant, "queue": queue, "source": source}
            for source, provider in self._providers
            for name, tenant, queue in provider.names()
        ]


def open_secrets(environment: Mapping[str, str], file: str | None = None, provider: str | None = None) -> Secrets:
    """The configured sources: a named provider first, then the file, then the environment."""
    found: list[tuple[str, Provider]] = []
    if provider:
        found.append((provider, _load(provider)))
    if file:
        found.append((file, SecretsFile(Path(file))))
    found.append(("environment", Environment(environment)))
    return Secrets(found)


def _read(path: Path) -> _File:
    try:
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SettingsInvalid(
                f"secrets file {path} can be read by others (mode {stat.S_IMODE(mode):o}); run: chmod 600 {path}"
            )
        content: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsInvalid(f"cannot read the secrets file {path}: {error.strerror}") from None
    except ValueError:
        # The parser's own message quotes the line, which holds a secret.
        raise SettingsInvalid(f"the secrets file {path} is not valid TOML") from None
    try:
        return msgspec.convert(content, _File)
    except msgspec.ValidationError as error:
        raise SettingsInvalid(f"the secrets file {path}: {error}") from None


def _load(name: str) -> Provider:
    points = importlib.metadata.entry_points(group=GROUP)
    for point in points:
        if point.name == name:
            try:
                made: Provider = point.load()()
            except Exception as error:
                raise SettingsInvalid(
                    f"secret provider {name!r} ({point.value}) cannot be made: {type(error).__name__}: {error}"
                ) from error
            return made
    known = ", ".join(sorted(point.name for point in points)) or "none"
    raise SettingsInvalid(f"no secret provider {name!r} is installed (entry points {GROUP!r}: {known})")
