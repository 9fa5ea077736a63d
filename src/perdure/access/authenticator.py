"""From an `Authorization` header to a principal. It owns the modes of the setting `auth` and how long a key is
remembered.

A key is looked up in the archive and remembered for at most `REMEMBER_SECONDS`, so that a revoked one fails within a
second in every process. That a key does not exist is remembered too: known and unknown ids take the same way.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from perdure.access.errors import Unauthenticated
from perdure.access.keys import PREFIX, is_in_force, is_valid, nobody, read_key
from perdure.access.principal import LOCAL, Identity, Principal, make_principal
from perdure.archive import Archive
from perdure.archive.credentials import ApiKey
from perdure.clock import Clock
from perdure.errors import SettingsInvalid, StoreUnavailable
from perdure.settings import Settings

if TYPE_CHECKING:
    from perdure.access.tokens import Tokens

REMEMBER_SECONDS = 0.5
REMEMBERED_KEYS = 10_000
TOUCH_SECONDS = 60.0
"""How old the noted last use of a key may be."""

logger = logging.getLogger("perdure.access")


class Authenticator:
    """Finds the principal of a request. `tokens` is None where tokens are not accepted. If open, every caller is
    `LOCAL`, whatever they send."""

    def __init__(
        self, archive: Archive, clock: Clock, *, keys: bool, tokens: Tokens | None = None, is_open: bool = False
    ) -> None:
        self._archive = archive
        self._clock = clock
        self._keys = keys
        self._tokens = tokens
        self.is_open = is_open
        self._remembered: OrderedDict[str, tuple[float, ApiKey]] = OrderedDict()
        self._touched: OrderedDict[str, float] = OrderedDict()

    async def authenticate(self, authorization: str | None) -> Principal:
        if self.is_open:
            return LOCAL
        if not authorization:
            raise Unauthenticated(f"this needs a credential: send the header 'Authorization: Bearer <{self._wanted}>'")
        scheme, _, credential = authorization.partition(" ")
        credential = credential.strip()
        if scheme.lower() != "bearer" or not credential:
            raise Unauthenticated(
                f"the header 'Authorization' cannot be read; send 'Authorization: Bearer <{self._wanted}>'"
            )
        return (await self.check(credential)).principal

    async def check(self, credential: str) -> Identity:
        """Who has this key or token, and until when. Raises `Unauthenticated`."""
        if self._keys and credential.startswith(PREFIX):
            return await self._by_key(credential)
        if self._tokens is None:
            raise _no_such_key()
        return self._tokens.check(credential)

    @property
    def accepts_tokens(self) -> bool:
        return self._tokens is not None

    async def principal_of_key(self, key_id: str) -> Principal:
        """The principal of a key that was shown before; `Unauthenticated` once it is revoked, expired or not accepted."""
        key = await self._get_key(key_id)
        if not self._keys or not is_in_force(key, self._clock.now()):
            raise _no_such_key()
        return _principal(key)

    @property
    def _wanted(self) -> str:
        kinds = ["API key"] * self._keys + ["token"] * (self._tokens is not None)
        return " or ".join(kinds)

    async def _by_key(self, text: str) -> Identity:
        presented = read_key(text)
        if presented is None:
            raise _no_such_key()
        key = await self._get_key(presented.key_id)
        now = self._clock.now()
        if not is_valid(key, presented, now):
            raise _no_such_key()
        await self._touch(key, now)
        return Identity(_principal(key), key.expires_at)

    async def _get_key(self, key_id: str) -> ApiKey:
        asked_at = self._clock.monotonic()
        known = self._remembered.get(key_id)
        if known is not None and asked_at - known[0] < REMEMBER_SECONDS:
            return known[1]
        key = await self._archive.find_key(key_id) or nobody(key_id)
        # As old as the question: the answer may be from just after it.
        self._remembered[key_id] = (asked_at, key)
        self._remembered.move_to_end(key_id)
        while len(self._remembered) > REMEMBERED_KEYS:
            self._remembered.popitem(last=False)
        return key

    async def _touch(self, key: ApiKey, now: float) -> None:
        """Note the use of a key, now and then."""
        last = max(key.last_used_at or 0.0, self._touched.get(key.key_id, 0.0))
        if now - last < TOUCH_SECONDS:
            return
        self._touched[key.key_id] = now
        while len(self._touched) > REMEMBERED_KEYS:
            self._touched.popitem(last=False)
        try:
            await self._archive.touch_keys({key.key_id: now})
        except StoreUnavailable as error:
            logger.warning("key %s: the time of its last use could not be stored: %s", key.key_id, error)


def _principal(key: ApiKey) -> Principal:
    return make_principal(
        tenant=key.tenant, name=key.name, kind="key", roles=key.roles, scopes=key.scopes, key_id=key.key_id
    )


def _no_such_key() -> Unauthenticated:
    return Unauthenticated("the credential is not valid; check that it is complete, not expired and not revoked")


def open_authenticator(settings: Settings, archive: Archive, clock: Clock) -> Authenticator:
    """The authenticator that the settings ask for; `SettingsInvalid` if that cannot work."""
    modes = settings.auth.split(",")
    tokens = None
    if "jwt" in modes:
        from perdure.access.tokens import TokenRules, Tokens  # a tenth of the time in which a command starts

        tokens = Tokens(
            TokenRules(
                secret=settings.jwt_secret,
                keys_file=settings.jwt_keys_file,
                algorithms=tuple(name.strip() for name in settings.jwt_algorithms.split(",") if name.strip()),
                audience=settings.jwt_audience,
                issuer=settings.jwt_issuer,
                tenant_claim=settings.jwt_tenant_claim,
                roles_claim=settings.jwt_roles_claim,
            )
        )
    return Authenticator(archive, clock, keys="keys" in modes, tokens=tokens, is_open="open" in modes)


def check_exposure(settings: Settings, host: str) -> None:
    """Refuse settings that would open a server beyond the loopback interface."""
    if settings.auth == "open" and not is_loopback(host):
        raise SettingsInvalid(
            f"the server would listen on {host or 'every address'} and let everybody in; set PERDURE_AUTH=keys (and make a "
            "key with `perdure keys create`) or PERDURE_AUTH=jwt, or listen on 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether a host is the loopback interface. Names other than localhost may lead anywhere, so they do not count."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
