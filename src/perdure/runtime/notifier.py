"""The notifier: tells other systems of approvals that wait, by signed webhooks, at least once.

Each notification was stored together with its approval. Every coordinator may run a notifier: what one claims, the
others do not get until the time of the claim has passed. How a message is signed is in `perdure.secrets.signatures`, where
it may be sent in `perdure.egress`. The response to a message decides nothing; a decision is a request of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from datetime import UTC, datetime
from typing import Any

import msgspec

from perdure import egress
from perdure.archive import Archive
from perdure.archive.notifications import Notification
from perdure.clock import Clock
from perdure.egress.errors import EgressError, NetworkFailed, TimedOut
from perdure.egress.urls import Url, parse
from perdure.errors import NotFound, PerdureError, StoreUnavailable
from perdure.journal import ApprovalRow, Journal
from perdure.kernel import events as e
from perdure.kernel.state import State
from perdure.plain_text import cut
from perdure.runtime.patience import OutageLog, first_of
from perdure.runtime.signing_secrets import reveal_unless_a_key
from perdure.secrets.signatures import read_keys, sign
from perdure.secrets.vault import Vault

logger = logging.getLogger("perdure.notifier")

QUEUE = "webhooks"
"""The queue that webhook secrets are looked up for, so that such a secret can be kept from every handler."""
PAUSE_SECONDS = 5.0
"""How often the notifier looks for what another process left; what this process asks for is sent at once."""
ANSWER_SECONDS = 10.0
CLAIM_SECONDS = 60.0
FIRST_RETRY_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 3600.0
GIVE_UP_SECONDS = 86_400.0
SILENT_SECONDS = 30.0
"""How long a host that did not answer is left alone, so that messages to other hosts need not wait behind it."""
BATCH = 100
_MOST_SILENT = 10_000
_ANSWER_BYTES = 1024 * 1024
_LONGEST_ERROR = 500
_GONE = 410


class Notifier:
    def __init__(
        self,
        journal: Journal,
        archive: Archive,
        vault: Vault,
        clock: Clock,
        *,
        public_url: str = "",
        pause_seconds: float = PAUSE_SECONDS,
        first_retry_seconds: float = FIRST_RETRY_SECONDS,
    ) -> None:
        """`public_url` is where other systems reach the API; without it they are told the path alone."""
        self._journal = journal
        self._archive = archive
        self._vault = vault
        self._clock = clock
        self._public_url = public_url.rstrip("/")
        self._pause = pause_seconds
        self._first_retry = first_retry_seconds
        self._wake = asyncio.Event()
        self._silent: dict[tuple[str, str, str, int], float] = {}
        """Until when each origin that did not answer is left alone, by tenant and origin."""
        self._outages = OutageLog(clock, logger, "notifications cannot be sent")

    def note(self, state: State, events: list[Any]) -> None:
        """Wake the notifier if events that became durable in this process ask for a message. Runs without approvals pay
        nothing for this."""
        if state.approvals and any(isinstance(one, e.ApprovalRequested) and one.notify is not None for one in events):
            self._wake.set()

    async def run(self) -> None:
        try:
            while True:
                try:
                    while await self.deliver() == BATCH:
                        pass
                except StoreUnavailable as error:
                    self._outages.say(error)
                await first_of(self._wake.wait(), self._clock.sleep(self._pause * (0.5 + self._clock.random())))
                self._wake.clear()
        finally:
            await egress.close()

    async def deliver(self) -> int:
        """Try each message that is due once, at most a batch of them, and return how many there were."""
        now = self._clock.now()
        claimed = await self._archive.claim_notifications(now, now + CLAIM_SECONDS, BATCH)
        # Crash here, or anywhere below: what was claimed is due again when the time of the claim has passed.
        await asyncio.gather(*(self._try(one) for one in claimed))
        return len(claimed)

    async def _try(self, claimed: Notification) -> None:
        try:
            settled = await self._send(claimed)
        except StoreUnavailable as error:
            self._outages.say(error)
            return
        except PerdureError as error:
            settled = self._later(claimed, error.message)
        except Exception as error:  # a message that cannot be sent must not stop the others
            logger.exception("approval %s: the notification failed; it is tried again", claimed.approval_id)
            settled = self._later(claimed, type(error).__name__)
        try:
            await self._archive.settle_notification(settled)
        except StoreUnavailable as error:
            self._outages.say(error)  # the message is sent again, and the receiver recognizes its id

    async def _send(self, claimed: Notification) -> Notification:
        try:
            row = await self._journal.get_approval(claimed.approval_id)
        except NotFound:
            return _settle(claimed, "stopped")  # its run was pruned meanwhile
        if row.state != "pending":
            return _settle(claimed, "stopped")
        notify = msgspec.json.decode(row.body)["notify"]
        url = parse(notify["url"])
        answer = await self._post(url, notify["secret"], row)
        if 200 <= answer < 300:
            return _settle(claimed, "delivered", delivered_at=self._clock.now())
        message = f"{url.shown} answered {answer}"
        return _settle(claimed, "failed", last_error=message) if answer == _GONE else self._later(claimed, message)

    async def _post(self, url: Url, secret: str, row: ApprovalRow) -> int:
        from perdure.egress.client import Request

        try:
            keys = read_keys(reveal_unless_a_key(self._vault, secret, row.tenant, QUEUE))
        except LookupError:
            raise EgressError(f"there is no secret {secret} for tenant {row.tenant}; set it, and it is sent") from None
        body = await self._body(url, row)
        headers = {"content-type": "application/json", **sign(keys, message_id(row), int(self._clock.now()), body)}
        request = Request(
            url=url,
            method="POST",
            headers=headers,
            body=body,
            redirects=0,
            seconds=ANSWER_SECONDS,
            max_bytes=_ANSWER_BYTES,
        )
        where = (row.tenant, *url.origin)
        if self._silent.get(where, 0.0) > self._clock.monotonic():
            raise EgressError(f"{url.host} did not answer another request a moment ago")
        self._silent.pop(where, None)
        try:
            return (await egress.shared().send(request)).status
        except (TimedOut, NetworkFailed):
            if len(self._silent) >= _MOST_SILENT:
                self._silent.clear()
            self._silent[where] = self._clock.monotonic() + SILENT_SECONDS
            raise

    async def _body(self, url: Url, row: ApprovalRow) -> bytes:
        """The message: what people are shown, with sealed fields masked as stored, and without secrets known here."""
        about = msgspec.json.decode(row.body)
        run = await self._journal.find_run(row.run_id)
        first = await self._journal.read_events(row.run_id, 0, 1)
        created = e.decode(first[0].body) if first else None
        data = {
            "approval_id": row.approval_id,
            "run_id": row.run_id,
            "node": row.node,
            "correlation_id": (created.correlation_id or None) if isinstance(created, e.RunCreated) else None,
            "workflow": None if run is None else run.row.workflow,
            "version": None if run is None else run.row.workflow_version,
            "shown": about["shown"],
            "approvers": about["approvers"],
            "quorum": about["quorum"],
            "requested_at": row.requested_at,
            "expires_at": row.expires_at,
            "answer_url": f"{self._public_url}/api/v1/hooks/approvals/{row.approval_id}",
            "answer_as": webhook_name(url),
        }
        at = datetime.fromtimestamp(row.requested_at, UTC).isoformat(timespec="milliseconds")
        message = {"type": "approval.requested", "timestamp": at.replace("+00:00", "Z"), "data": data}
        return bytes(self._vault.scrubber.json(msgspec.json.encode(message)))

    def _later(self, claimed: Notification, why: str) -> Notification:
        """The notification, to be tried again after a pause about twice the last one; given up after a day."""
        now = self._clock.now()
        why = cut(why, _LONGEST_ERROR)
        if now - claimed.created_at >= GIVE_UP_SECONDS:
            return _settle(claimed, "failed", last_error=why)
        pause = min(self._first_retry * 2 ** min(claimed.attempts - 1, 30), LONGEST_RETRY_SECONDS)
        # Jitter: messages that failed together must not come back together.
        return _settle(claimed, "waiting", next_at=now + pause * (0.5 + self._clock.random()), last_error=why)


def message_id(row: ApprovalRow) -> str:
    """The id of a message: the same however often it is sent, in characters that a header may have."""
    return "msg_" + hashlib.sha256(f"{row.tenant}\0{row.approval_id}".encode()).hexdigest()[:32]


def webhook_name(url: Url) -> str:
    """The name of the approver when the system at this URL answers."""
    return f"webhook:{url.host}"


def _settle(claimed: Notification, state: str, **more: Any) -> Notification:
    return msgspec.structs.replace(claimed, **{"state": state, "last_error": "", **more})
