"""Sessions: what a browser holds instead of a key or token. How they are opened, recognized and ended.

The secret has 256 random bits, is made anew at each login and kept as its SHA-256 only. A session is looked up in the
archive and remembered as long as a key is, and so is the key it was opened with: ended or revoked, it fails within a second in
every process.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import math
import re
from collections import OrderedDict
from typing import TypeVar

import msgspec

from perdure.access.authenticator import REMEMBER_SECONDS, REMEMBERED_KEYS, TOUCH_SECONDS, Authenticator
from perdure.access.errors import Unauthenticated
from perdure.access.principal import Principal, make_principal
from perdure.access.rate_limits import name_of
from perdure.archive import Archive
from perdure.archive.credentials import Session
from perdure.clock import Clock, new_key
from perdure.errors import StoreUnavailable
from perdure.plain_text import clean_line

IDLE_SECONDS = 12 * 3600.0
"""A session that is not used for so long has ended."""
LONGEST_SECONDS = 7 * 86_400.0
MOST_SESSIONS = 100
"""How many sessions one credential keeps; the oldest make room."""
AGENT_CHARACTERS = 200
_ID_BYTES = 8
_SECRET_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")

Value = TypeVar("Value")
logger = logging.getLogger("perdure.access")


class OpenedSession(msgspec.Struct, frozen=True):
    session: Session
    principal: Principal
    text: str
    """The secret itself. It is given to the browser once and never again."""

    def __repr__(self) -> str:
        return f"OpenedSession({self.session.session_id})"


class Sessions:
    def __init__(self, archive: Archive, clock: Clock, authenticator: Authenticator) -> None:
        self._archive = archive
        self._clock = clock
        self._authenticator = authenticator
        self._remembered: OrderedDict[bytes, tuple[float, Session | None]] = OrderedDict()
        self._touched: OrderedDict[bytes, float] = OrderedDict()

    async def open(self, credential: str, *, agent: str = "", before: str | None = None) -> OpenedSession:
        """Open a session for the holder of this key or token. `before` is the secret of the session it replaces."""
        found = await self._authenticator.check(credential)
        principal, now = found.principal, self._clock.now()
        assert principal.kind in ("key", "jwt")
        text = base64.urlsafe_b64encode(new_key(_SECRET_BYTES)).decode().rstrip("=")
        session = Session(
            token_hash=_hash(text),
            session_id=new_key(_ID_BYTES).hex(),
            tenant=principal.tenant,
            owner=name_of(principal),
            kind=principal.kind,
            name=principal.name,
            key_id=principal.key_id,
            roles=() if principal.key_id else principal.roles,
            agent=clean_line(agent[:AGENT_CHARACTERS])[:AGENT_CHARACTERS],
            created_at=now,
            seen_at=now,
            expires_at=min(now + LONGEST_SECONDS, math.inf if found.expires_at is None else found.expires_at),
        )
        await self._archive.create_session(session)
        await self._make_room(session)
        if before is not None:
            await self.end(before)
        return OpenedSession(session, msgspec.structs.replace(principal, session_id=session.session_id), text)

    async def authenticate(self, text: str) -> Principal:
        """The principal of a session; `Unauthenticated` if it has ended."""
        session = await self._find(text)
        now = self._clock.now()
        if session is None or now >= session.expires_at or now >= self._seen(session) + IDLE_SECONDS:
            raise _ended()
        if session.kind == "key":
            principal = await self._authenticator.principal_of_key(session.key_id)
        elif self._authenticator.accepts_tokens:
            principal = make_principal(tenant=session.tenant, name=session.name, kind=session.kind, roles=session.roles)
        else:
            raise _ended()
        if principal.tenant != session.tenant:
            raise _ended()
        await self._touch(session, now)
        return msgspec.structs.replace(principal, session_id=session.session_id)

    async def end(self, text: str) -> Session | None:
        """End the session with this secret, and return it if there was one."""
        if not _TOKEN.fullmatch(text):
            return None
        session = await self._archive.find_session(_hash(text))
        if session is None:
            return None
        ended = await self._archive.end_session(session.tenant, session.owner, session.session_id)
        self._remembered.pop(session.token_hash, None)
        return ended

    async def _make_room(self, session: Session) -> None:
        page = await self._archive.list_sessions(
            session.tenant, session.owner, now=-math.inf, seen_after=-math.inf, limit=MOST_SESSIONS + 10
        )
        for old in page.items[MOST_SESSIONS:]:
            await self._archive.end_session(old.tenant, old.owner, old.session_id)

    async def _find(self, text: str) -> Session | None:
        if not _TOKEN.fullmatch(text):
            return None
        name, asked_at = _hash(text), self._clock.monotonic()
        known = self._remembered.get(name)
        if known is not None and asked_at - known[0] < REMEMBER_SECONDS:
            return known[1]
        session = await self._archive.find_session(name)
        # As old as the question: the answer may be from just after it.
        _remember(self._remembered, name, (asked_at, session))
        return session

    def _seen(self, session: Session) -> float:
        return max(session.seen_at, self._touched.get(session.token_hash, 0.0))

    async def _touch(self, session: Session, now: float) -> None:
        """Note the use of a session, now and then."""
        if now - self._seen(session) < TOUCH_SECONDS:
            return
        _remember(self._touched, session.token_hash, now)
        try:
            await self._archive.touch_session(session.token_hash, now)
        except StoreUnavailable as error:
            logger.warning("session %s: its last use could not be stored: %s", session.session_id, error)


def _remember(where: OrderedDict[bytes, Value], name: bytes, value: Value) -> None:
    where[name] = value
    where.move_to_end(name)
    while len(where) > REMEMBERED_KEYS:
        where.popitem(last=False)


def _ended() -> Unauthenticated:
    return Unauthenticated("the session has ended; log in again")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
