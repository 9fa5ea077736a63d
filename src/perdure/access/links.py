"""Links that let one approver make one decision once, without another credential.

A token is 256 random bits; the archive has only its hash, with the approval, the decision, the approver and the expiry
it is bound to. Looking at a link changes nothing, so a scanner that opens it decides nothing. Every way in which a
token may be wrong has the same answer.
"""

from __future__ import annotations

import base64
import hashlib
import re

from perdure.access.errors import LinkInvalid
from perdure.access.principal import Principal
from perdure.access.roles import Permission, Role
from perdure.archive import Archive
from perdure.archive.credentials import Link
from perdure.clock import Clock, new_key

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


class Links:
    def __init__(self, archive: Archive, clock: Clock) -> None:
        self._archive = archive
        self._clock = clock

    async def make(
        self, *, tenant: str, approval_id: str, run_id: str, decision: str, approver: str, expires_at: float
    ) -> str:
        """Make a link; returns its token, to be sent to this approver and to no other."""
        token = base64.urlsafe_b64encode(new_key(32)).decode().rstrip("=")
        link = Link(
            token_hash=_hash(token),
            tenant=tenant,
            approval_id=approval_id,
            run_id=run_id,
            decision=decision,
            approver=approver,
            created_at=self._clock.now(),
            expires_at=expires_at,
        )
        await self._archive.create_link(link)
        return token

    async def get(self, token: str) -> Link:
        """The link of a token, for the page that asks for confirmation."""
        link = await self._archive.find_link(_hash(token)) if _TOKEN.fullmatch(token) else None
        if link is None or link.consumed_at is not None or link.expires_at <= self._clock.now():
            raise _invalid()
        return link

    async def consume(self, token: str, *, approval_id: str, decision: str) -> Link:
        """Use the token up. Exactly one caller gets the link."""
        link = None
        if _TOKEN.fullmatch(token):
            link = await self._archive.consume_link(
                _hash(token), approval_id=approval_id, decision=decision, now=self._clock.now()
            )
        if link is None:
            raise _invalid()
        # Crash here: the token is used up and nothing is decided; the approver asks for another link.
        return link

    async def release(self, link: Link) -> None:
        """Make the token usable again after `consume`, when the decision was certainly not taken."""
        assert link.consumed_at is not None
        await self._archive.release_link(link.token_hash, link.consumed_at)


def link_principal(link: Link) -> Principal:
    """The principal who decides by a link: the approver, who may do nothing else with it."""
    return Principal(
        tenant=link.tenant,
        name=link.approver,
        kind="link",
        roles=(Role.APPROVER,),
        scopes=(Permission.APPROVALS_DECIDE,),
        permissions=frozenset({Permission.APPROVALS_DECIDE}),
    )


def _invalid() -> LinkInvalid:
    return LinkInvalid("this link is not valid: it was used, has expired, or is for something else; ask for another")


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
