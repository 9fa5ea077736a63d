"""The archive: what the service keeps beside the runs. This is the port; its adapters stand with the journals.

The words of this storage are in the files beside: aliases, credentials, audit entries, log lines, notifications, agents' memory.

It must not know HTTP, permissions, secrets of keys, or what an event means.

1. Every row belongs to a tenant, and every operation names it. Only `find_key`, `find_link`, the session that a cookie
   names, the notifications and the housekeeping do not: a credential is looked up by its hash or id before its tenant is known, and its row then names
   it.
2. What is asked for under another tenant does not exist: `NotFound`, None or an empty page, as if it were not there.
3. Each call is one transaction. It ends as calls of the journal do: it returns, or raises `JournalUnavailable` (nothing
   was written) or `OutcomeUnknown` (perhaps it was; every write here may be repeated unless its docstring says
   otherwise).
4. No secret is stored: of keys, links and sessions there is only the SHA-256.
5. Audit entries are added and read. Databases refuse to change or delete them.

Errors are those of `perdure.journal`, and here:

    perdure.errors.NotFound       there is no such workflow, version, alias or key in this tenant
    perdure.errors.Refused        code `workflow_in_use` or `alias_moved`
    InvalidAlias               the alias breaks a rule of `check_alias`
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from perdure.archive.agent_entries import AgentEntries
from perdure.archive.aliases import Alias, VersionNote
from perdure.archive.audit_chain import EVERY_ENTRY, AuditEntry, AuditFilter, AuditHead, AuditRecord
from perdure.archive.credentials import ApiKey, Link, Session
from perdure.archive.kept_rows import AssetRow, SavedView
from perdure.archive.notifications import Callback, Notification
from perdure.archive.stored_lines import LogLine, StoredLine
from perdure.purses import BudgetKeeper
from perdure.records import LedgerSum, Page, RunRecord

PRUNE_ROWS = 100_000
"""How many events and log lines one transaction of `prune_runs` deletes; only a single run may have more."""


class Archive(AgentEntries, BudgetKeeper, Protocol):
    """The port of an archive, used as `journal.archive` from the event loop that opened its journal."""

    # workflow versions
    async def note_version(self, note: VersionNote) -> None:
        """Note a registration; called with every one, but the first note of a version stands."""
        ...

    async def find_notes(self, tenant: str, workflow: str, versions: Collection[int]) -> Mapping[int, VersionNote]:
        """The notes by version; versions without a note are missing."""
        ...

    async def count_users(self, tenant: str, workflow: str, version: int | None = None) -> int:
        """How many runs that have not ended use this version, or any version. Quarantined ones count."""
        ...

    async def list_users(
        self, tenant: str, workflow: str, version: int | None = None, *, limit: int = 100, cursor: str | None = None
    ) -> Page[RunRecord]:
        """The runs that `count_users` counts, by version and id."""
        ...

    async def delete_workflow(self, tenant: str, workflow: str, version: int | None = None) -> int:
        """Delete a version, or all of them with their notes and aliases; returns how many. `NotFound`; `Refused`
        (`workflow_in_use`) while runs that have not ended use it, or an alias points to that one version. Numbers are
        never given out again."""
        ...

    # aliases
    async def put_alias(self, alias: Alias, *, expected_revision: int | None = None) -> Alias:
        """Make or move an alias; the one returned has the new revision. `InvalidAlias`; `NotFound` if a version does
        not exist; `Refused` (`alias_moved`) unless it is at `expected_revision` (0: does not exist). Repeating it is
        another move."""
        ...

    async def find_alias(self, tenant: str, workflow: str, alias: str) -> Alias | None: ...

    async def list_aliases(
        self, tenant: str, workflow: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Alias]:
        """The aliases of a workflow, by name."""
        ...

    async def list_alias_moves(
        self, tenant: str, workflow: str, alias: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Alias]:
        """Where an alias has pointed, the present first. The history goes with the workflow, not with the alias."""
        ...

    async def delete_alias(self, tenant: str, workflow: str, alias: str) -> None:
        """Delete an alias; `NotFound` if there is none. Made again, it goes on counting its revisions."""
        ...

    # API keys
    async def create_key(self, key: ApiKey) -> None: ...

    async def find_key(self, key_id: str) -> ApiKey | None: ...

    async def list_keys(self, tenant: str, *, limit: int = 100, cursor: str | None = None) -> Page[ApiKey]:
        """The keys of a tenant, newest first, revoked ones too."""
        ...

    async def revoke_key(self, tenant: str, key_id: str, at: float) -> ApiKey:
        """Revoke a key; `NotFound` if there is none. Revoking again changes nothing."""
        ...

    async def touch_keys(self, used: Mapping[str, float]) -> None:
        """Store when each key was last used; an earlier time changes nothing."""
        ...

    # links
    async def create_link(self, link: Link) -> None: ...

    async def find_link(self, token_hash: bytes) -> Link | None:
        """The link, for the page that asks for confirmation. Looking changes nothing."""
        ...

    async def consume_link(self, token_hash: bytes, *, approval_id: str, decision: str, now: float) -> Link | None:
        """The link, to exactly one caller; None to all others, or if it is unknown, expired or for something else."""
        ...

    async def release_link(self, token_hash: bytes, consumed_at: float) -> None:
        """Take back a consumption after which certainly nothing was decided (`JournalUnavailable`)."""
        ...

    # saved views
    async def save_view(self, view: SavedView) -> None:
        """Keep it under its name; one that the owner had under that name is replaced."""
        ...

    async def find_view(self, tenant: str, owner: str, name: str) -> SavedView | None: ...

    async def list_views(self, tenant: str, owner: str, limit: int = 100) -> list[SavedView]:
        """The views of one owner, by name."""
        ...

    async def delete_view(self, tenant: str, owner: str, name: str) -> SavedView | None:
        """Delete it and return it; None if there is none."""
        ...

    # the ledger, which appends write
    async def sum_ledger(
        self,
        tenant: str,
        by: Literal["day", "workflow", "model", "tenant"],
        since: str,
        until: str,
        *,
        workflow: str = "",
        limit: int = 1000,
    ) -> list[LedgerSum]:
        """What a tenant has used from the day `since` to the day before `until`, summed up by what they share, by name. With a
        `workflow` only that one. A million rows are added up at most, of the first days."""
        ...

    # assets
    async def keep_asset(self, asset: AssetRow) -> int:
        """Keep a file under its name, and give the number of this version: one more than any that was given before."""
        ...

    async def find_asset(self, tenant: str, name: str, version: int | None = None) -> AssetRow | None:
        """Find a version of an asset; without a number, the newest that was not deleted."""
        ...

    async def list_assets(
        self, tenant: str, name: str = "", *, limit: int = 100, cursor: str | None = None
    ) -> Page[AssetRow]:
        """The versions of one name, or of all, by name and version."""
        ...

    async def list_all_assets(self, *, limit: int = 100, cursor: str | None = None) -> Page[AssetRow]:
        """The assets of all tenants, for the collection of garbage."""
        ...

    async def measure_assets(self, tenant: str) -> int:
        """The bytes of all versions of a tenant together."""
        ...

    async def delete_asset(self, tenant: str, name: str, version: int, now: float) -> AssetRow | None:
        """Delete a version and return it; None if there is none. Its number is not given again."""
        ...

    # sessions
    async def create_session(self, session: Session) -> None: ...

    async def find_session(self, token_hash: bytes) -> Session | None: ...

    async def touch_session(self, token_hash: bytes, at: float) -> None:
        """Store when a session was last used; an earlier time, or one for a session that has ended, changes nothing."""
        ...

    async def list_sessions(
        self, tenant: str, owner: str, *, now: float, seen_after: float, limit: int = 100, cursor: str | None = None
    ) -> Page[Session]:
        """The sessions of one credential that have not expired and were used after this time, newest first."""
        ...

    async def end_session(self, tenant: str, owner: str, session_id: str) -> Session | None:
        """Delete a session of this credential, and return it; None if there is none."""
        ...

    # notifications
    async def claim_notifications(self, now: float, until: float, limit: int = 100) -> list[Notification]:
        """The notifications that are due, each to one caller, with the attempt counted; to others from `until` on."""
        ...

    async def settle_notification(self, notification: Notification) -> bool:
        """Store what came of an attempt. Returns False, and writes nothing, if another attempt has begun meanwhile."""
        ...

    async def find_notification(self, tenant: str, approval_id: str) -> Notification | None:
        """The notification of an approval; None if no other system was to be told."""
        ...

    async def keep_callback(self, callback: Callback) -> Callback | None:
        """Keep a new callback, and return None. If one was kept under the same hash, that one stays and is returned."""
        ...

    # audit
    async def append_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Add entries to the end of their tenants' chains, in this order. Not repeatable: twice is two entries."""
        ...

    async def read_audit(self, tenant: str, after: int = 0, limit: int = 1000) -> list[AuditRecord]:
        """Entries in order, those with a number above `after`."""
        ...

    async def find_audit_head(self, tenant: str) -> AuditHead | None:
        """The end of the chain as the archive knows it; stored apart from the entries, so that a cut end is noticed."""
        ...

    async def list_audit(
        self, tenant: str, where: AuditFilter = EVERY_ENTRY, *, limit: int = 100, cursor: str | None = None
    ) -> Page[AuditRecord]:
        """The entries that match, newest first."""
        ...

    # logs of handlers
    async def append_logs(self, lines: Sequence[LogLine]) -> None:
        """Add log lines. Not repeatable: twice is twice the lines. Of each run the newest `LOG_LINES` are kept."""
        ...

    async def read_logs(
        self, tenant: str, run_id: str, *, node: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[StoredLine]:
        """Log lines in order, those above `after`."""
        ...

    # housekeeping, over all tenants
    async def prune_runs(self, ended_before: float, limit: int = 100) -> int:
        """Delete runs that ended before this time, with everything that is kept of them, oldest first, in one
        transaction of at most `limit` runs and `PRUNE_ROWS` events and log lines; returns how many, so 0 means there
        are no more. A run stays while its parent exists or a child of it has not ended; children follow in the next
        call. Idempotency keys stay behind."""
        ...

    async def prune_idempotency(self, ended_before: float) -> int:
        """Forget idempotency keys whose run is deleted and had ended before this time, a bounded number at a time; 0
        means there are no more. The key of a run that exists stays, whatever its age (PROTOCOL 11)."""
        ...

    async def prune_links(self, expired_before: float) -> int:
        """Forget old links, a bounded number at a time; 0 means there are no more."""
        ...

    async def prune_sessions(self, expired_before: float) -> int:
        """Forget old sessions in the same way."""
        ...

    async def prune_callbacks(self, received_before: float) -> int:
        """Forget old callbacks in the same way."""
        ...
