"""What one process knows of secrets: their values by tenant and queue, what was revealed, and the keys of sealed
fields.

It owns the scrubber: whatever was revealed here is taken out of whatever leaves the process. It is made by `engine.py`,
and used by workers (to fill in, to scrub, to seal and open) and by coordinators (to open what a condition reads).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perdure.secrets.keyring import Keyring, UnknownKey
from perdure.secrets.providers import Secrets
from perdure.secrets.scrubber import Scrubber, install
from perdure.secrets.seals import Sealer


class Signer(Protocol):
    """The keys that processes sign with what they leave where others can write."""

    def sign(self, kind: str, tenant: str, message: bytes) -> str: ...

    def verify(self, kind: str, message: bytes, signature: bytes) -> str | None:
        """The tenant that a message belongs to. Raises PerdureError."""
        ...


class Vault:
    def __init__(
        self,
        secrets: Secrets | None = None,
        keyring: Callable[[], Keyring] | None = None,
        signer: Signer | None = None,
    ) -> None:
        """`keyring` is called when a key is needed for the first time, and again when one is not known."""
        self._secrets = secrets or Secrets()
        self._read_keyring = keyring
        self._keyring: Keyring | None = None
        self._uninstall: Callable[[], None] | None = None
        self.scrubber = Scrubber()
        self.signer = signer
        """None: this deployment signs nothing."""

    def reveal(self, name: str, tenant: str, queue: str) -> str:
        """The value of a secret, which this process hides from now on. Raises LookupError."""
        value = self._secrets.get(name, tenant, queue)
        if self._uninstall is None:
            self._uninstall = install(self.scrubber)
        self.scrubber.add(value)
        return value

    def sealer(self, tenant: str, run_id: str) -> Sealer:
        return Sealer(self._ring(), tenant, run_id, self._get_key)

    def _ring(self) -> Keyring:
        if self._keyring is None:
            if self._read_keyring is None:
                raise UnknownKey("this process has no keys for sensitive fields; set PERDURE_ENCRYPTION_KEYS")
            self._keyring = self._read_keyring()
        return self._keyring

    def _get_key(self, name: str) -> bytes:
        """The key of this name; read again if it is not known, since the keys may have been rotated."""
        if name not in self._ring().ids:
            self._keyring = None
        return self._ring().key(name)

    def close(self) -> None:
        if self._uninstall is not None:
            self._uninstall()
            self._uninstall = None
