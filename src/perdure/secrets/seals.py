"""Sensitive fields: encrypted where the worker hands its output over, opened where a handler or a condition reads them.

A sealed value stands in an output as `{"$perdure:sealed": "enc:v1:<key id>:<base64>:<node>.<path>"}`. It is bound to
its tenant, to its run (with its children) and to its field, so that a sealed value copied elsewhere cannot be opened.

It uses AES-256-GCM under a key derived for the tenant. The nonce is derived from what is encrypted and what it is bound
to, so the same field sealed again on a retry is the same text, and two different ones never share a nonce.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from perdure.errors import PerdureError
from perdure.kernel.run_ids import root_of
from perdure.kernel.segments import SEALED, is_sealed
from perdure.secrets.keyring import Keyring

_NONCE_BYTES = 12


class CannotOpen(PerdureError):
    """A sealed value is damaged, or belongs to another tenant, run or field."""

    code = "cannot_open"


class Sealer:
    """Seals and opens values for one tenant and one tree of runs."""

    def __init__(
        self, keyring: Keyring, tenant: str, run_id: str, get_key: Callable[[str], bytes] | None = None
    ) -> None:
        self._keyring = keyring
        self._get_key = get_key or keyring.key
        self._tenant = tenant
        self._root = root_of(run_id)

    def seal(self, output: Any, node: str, paths: Iterable[str]) -> Any:
        """The output with the fields at `paths` sealed. A path that leads nowhere seals nothing."""
        for path in paths:
            output = _change(output, split_path(path), "", lambda value, at: self._seal(value, f"{node}{at}"))
        return output

    def open_text(self, sealed: str) -> str:
        """A sealed value, opened, as part of a text."""
        value = self._open(sealed)
        return value if type(value) is str else msgspec.json.encode(value).decode()

    def open(self, value: Any) -> Any:
        """The value with every sealed value in it opened. Raises CannotOpen or UnknownKey."""
        kind = type(value)
        if kind is dict:
            if is_sealed(value):
                return self._open(value[SEALED])
            return {key: self.open(item) for key, item in value.items()}
        if kind is list:
            return [self.open(item) for item in value]
        return value

    def _seal(self, value: Any, field: str) -> Any:
        if is_sealed(value):
            return value
        name = self._keyring.current
        key, nonce_key = self._derive(name)
        plain, bound = msgspec.json.encode(value), self._bind(field)
        nonce = hmac.digest(nonce_key, len(bound).to_bytes(4, "big") + bound + plain, "sha256")[:_NONCE_BYTES]
        sealed = nonce + AESGCM(key).encrypt(nonce, plain, bound)
        return {SEALED: f"enc:v1:{name}:{base64.b64encode(sealed).decode()}:{field}"}

    def _open(self, text: str) -> Any:
        parts = text.split(":", 4)
        if len(parts) != 5 or parts[:2] != ["enc", "v1"]:
            raise CannotOpen("a sealed value has a form that this version does not know")
        _, _, name, encoded, field = parts
        key, _ = self._derive(name)
        try:
            sealed = base64.b64decode(encoded, validate=True)
            if base64.b64encode(sealed).decode() != encoded:
                raise ValueError("there is one way to write it")
            plain = AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._bind(field))
        except (InvalidTag, ValueError, binascii.Error):
            raise CannotOpen(
                f"the sealed value of {field!r} cannot be opened: it was changed, or belongs to another tenant or run"
            ) from None
        return msgspec.json.decode(plain)

    def _derive(self, name: str) -> tuple[bytes, bytes]:
        """The tenant's keys, by HKDF's second step alone: the ring's keys are uniform (RFC 5869, section 3.3)."""
        master = self._get_key(name)
        info = f"perdure sealed v1\0{self._tenant}".encode()
        key = hmac.digest(master, info + b"\x01", "sha256")
        return key, hmac.digest(master, key + info + b"\x02", "sha256")

    def _bind(self, field: str) -> bytes:
        return msgspec.json.encode([self._tenant, self._root, field])


def split_path(path: str) -> list[str]:
    """The names in a path. `rows[0].ssn` is the same as `rows.ssn`: a list is gone through as a whole."""
    return [name for name in re.split(r"[.\[\]]+", path.removeprefix("$")) if name and not name.isdigit()] or ["*"]


def _change(value: Any, path: list[str], at: str, change: Callable[[Any, str], Any]) -> Any:
    """Apply `change` to what `path` leads to. A list is gone through; `*` means every field, or the value itself."""
    if not path:
        return change(value, at)
    if type(value) is list:
        return [_change(item, path, at, change) for item in value]
    name, *rest = path
    if name == "*" and type(value) is not dict:
        return change(value, at)
    if type(value) is not dict or is_sealed(value):
        return value
    names = list(value) if name == "*" else [name] if name in value else []
    if not names:
        return value
    return {**value, **{one: _change(value[one], rest, f"{at}.{one}", change) for one in names}}
