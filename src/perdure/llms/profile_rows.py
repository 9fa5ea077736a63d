"""Services that agents may use, as the operator's file names them: HTTP APIs with a document (`profiles`).

[profiles.weather]
origin = "https://api.weather.example"
spec = "https://api.weather.example/openapi.json"
sha256 = "…"                                        # of the document; without it, what it says is believed no more than a web page
auth = {type = "bearer", secret = "WEATHER_KEY"}    # goes to the origin and nowhere else
operations = {"get*" = "read", "*" = "send"}        # which may be called, and what a call may do; the first that fits
"""

from __future__ import annotations

import base64
import re
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from perdure.egress.errors import EgressRefused
from perdure.egress.urls import Url, parse
from perdure.model.labels import UNTRUSTED, Label, read_words

Effect = Literal["read", "write", "send"]
_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OWN = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "cookie", "content-type"})


class Auth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    type: Literal["bearer", "basic", "header"]
    secret: str
    name: str = ""
    """The name of the header, where `type` is `header`."""
    username: str = ""

    def headers(self, key: str) -> dict[str, str]:
        """What a node of type http would be given as `auth`."""
        match self.type:
            case "bearer":
                return {"type": "bearer", "token": key}
            case "basic":
                return {"type": "basic", "username": self.username, "password": key}
        return {"type": "header", "name": self.name, "value": key}

    def as_headers(self, key: str) -> dict[str, str]:
        """The headers of a request."""
        if self.type == "bearer":
            return {"authorization": f"Bearer {key}"}
        if self.type == "basic":
            return {"authorization": f"Basic {base64.b64encode(f'{self.username}:{key}'.encode()).decode()}"}
        return {self.name.lower(): key}

    @property
    def header(self) -> str:
        """The header that it sets, in lower case."""
        return self.name.lower() if self.type == "header" else "authorization"

    def find_problems(self) -> list[str]:
        found = []
        if not _SECRET.fullmatch(self.secret):  # not quoted: it may be the key itself
            found.append("auth.secret must be the name of a secret, such as WEATHER_KEY, never the key itself")
        if (self.type == "header") != bool(self.name):
            found.append("auth.name is the name of the header, for type header")
        elif self.name and (not _HEADER.fullmatch(self.name) or self.name.lower() in _OWN):
            found.append("auth.name is not the name of a header that can be set")
        if (self.type == "basic") != bool(self.username):
            found.append("auth.username is the user, for type basic")
        return found


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    origin: str
    """Where its calls go: https://host, without a path."""
    spec: str
    """Where its OpenAPI document is."""
    sha256: str = ""
    auth: Auth | None = None
    operations: dict[str, Effect] = {}
    """What calls of operations may do, by their ids with `*`; the first that fits. Empty: GET and HEAD read, all others send."""
    returns: str | tuple[str, ...] = ()
    allow_http: bool = False
    """Whether the key may travel unencrypted to a host that is not this one."""
    tenants: tuple[str, ...] = ("*",)

    @property
    def url(self) -> Url:
        return parse(self.origin)

    @property
    def also(self) -> str:
        """What its calls may reach besides public hosts: its own host and port, and nothing else."""
        return host_of(self.url)

    @property
    def label(self) -> Label:
        """The label of what calls of the API give."""
        private = Label("untrusted", "private")
        return read_words(self.returns or (), private if self.auth else UNTRUSTED)

    def effect_of(self, operation: str, method: str) -> Effect | None:
        """What a call may do; None: it may not be made."""
        if not self.operations:
            return "read" if method in ("GET", "HEAD") else "send"
        return next((effect for name, effect in self.operations.items() if fnmatchcase(operation, name)), None)

    def find_problems(self) -> list[str]:
        found = []
        for name in ("origin", "spec"):
            try:
                url = parse(getattr(self, name))
            except EgressRefused as error:
                found.append(f"{name}: {error.message}")
                continue
            if name == "origin" and (url.path != "/" or url.query):
                found.append("origin: write https://host, without a path; the paths are in the document")
            is_here = url.host == "localhost" or (url.address is not None and url.address.is_loopback)
            if (
                name == "origin"
                and self.auth is not None
                and url.scheme == "http"
                and not is_here
                and not self.allow_http
            ):
                found.append(
                    "origin is http://, so its key would travel in the open; use https, or say allow_http = true"
                )
        if self.sha256 and not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            found.append("sha256 is 64 digits from 0 to 9 and a to f")
        try:
            _ = self.label
        except ValueError as error:
            found.append(f"returns: {error}")
        return found + (self.auth.find_problems() if self.auth is not None else [])


def host_of(url: Url) -> str:
    return f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
