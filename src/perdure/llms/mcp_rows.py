"""MCP servers whose tools agents may call, as the operator's file names them.

[mcp.github]
url = "https://api.githubcopilot.com/mcp"
auth = {type = "bearer", secret = "GITHUB_KEY"}     # goes to the origin of the url and nowhere else
tools = ["search_*"]                                # which of its tools there are for agents
pins = "github.pins.json"                           # what a person has looked at: `perdure tools pin github`

[mcp.files]
command = ["uvx", "mcp-server-files", "/srv/files"]  # a program of this machine, over stdio
secrets = {FILES_KEY = "FILES_KEY"}                  # its environment, from secrets
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from perdure.egress.errors import EgressRefused
from perdure.egress.urls import parse
from perdure.errors import SettingsInvalid
from perdure.llms.profile_rows import Auth, host_of
from perdure.model.labels import Label, read_words
from perdure.plain_text import cut

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")
MAX_PINS = 1024 * 1024


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    url: str = ""
    command: tuple[str, ...] = ()
    auth: Auth | None = None
    secrets: dict[str, str] = {}
    tools: tuple[str, ...] = ("*",)
    pins: str = ""
    """The file of the pins; beside the operator's file, if it is no whole path."""
    returns: str | tuple[str, ...] = ()
    allow_http: bool = False
    """Whether the key may travel unencrypted to a host that is not this one."""
    tenants: tuple[str, ...] = ("*",)

    @property
    def also(self) -> str:
        """What its calls may reach besides public hosts: its own host and port, and nothing else."""
        return host_of(parse(self.url))

    @property
    def label(self) -> Label:
        """The label of what the tools of the server give."""
        strange = Label("untrusted", "private" if self.auth is not None or self.secrets else "public")
        return read_words(self.returns or (), strange)

    @property
    def keys(self) -> set[str]:
        """The secrets that are its keys."""
        return {*self.secrets.values(), *([self.auth.secret] if self.auth is not None else [])}

    def find_problems(self) -> list[str]:
        found = []
        if bool(self.url) == bool(self.command):
            found.append("it has one of 'url' and 'command'")
        if self.url:
            found += self._check_url()
            if self.secrets:
                found.append("secrets: they are the environment of a 'command'; a key for a 'url' is 'auth'")
        elif self.auth is not None:
            found.append("auth: it is for a 'url'; a 'command' gets 'secrets' as its environment")
        for variable, secret in self.secrets.items():
            if not _VARIABLE.fullmatch(variable) or not _VARIABLE.fullmatch(
                secret
            ):  # not quoted: it may be the key itself
                found.append(
                    'secrets: each is a variable and the name of a secret, such as {GITHUB_TOKEN = "GITHUB_KEY"}'
                )
        try:
            _ = self.label
        except ValueError as error:
            found.append(f"returns: {error}")
        return found + (self.auth.find_problems() if self.auth is not None else [])

    def _check_url(self) -> list[str]:
        try:
            url = parse(self.url)
        except EgressRefused as error:
            return [f"url: {error.message}"]
        is_here = url.host == "localhost" or (url.address is not None and url.address.is_loopback)
        if self.auth is not None and url.scheme == "http" and not is_here and not self.allow_http:
            return ["url is http://, so its key would travel in the open; use https, or say allow_http = true"]
        return []


def read_pins(path: str) -> dict[str, str]:
    """The hash of each tool that a person has pinned; without the file, none. Raises SettingsInvalid."""
    file = Path(path)
    try:
        data: Any = msgspec.json.decode(file.read_bytes()[: MAX_PINS + 1])
        pins = msgspec.convert(data, dict[str, str])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsInvalid(f"cannot read {path}: {error.strerror}; it holds the pins of an MCP server") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingsInvalid(
            f"{path} holds no pins: {cut(str(error), 200)}; write it with perdure tools pin"
        ) from None
    if not all(_HASH.fullmatch(one) for one in pins.values()):
        raise SettingsInvalid(f"{path} holds no pins; write it with perdure tools pin")
    return pins


def write_pins(path: str, pins: dict[str, str]) -> None:
    """Keep what a person has looked at. Raises SettingsInvalid."""
    file = Path(path)
    try:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(pins, order="sorted"), indent=2) + b"\n")
    except OSError as error:
        raise SettingsInvalid(f"cannot write {path}: {error.strerror}") from None
