"""The archive: what the service keeps beside the runs. This file is the port; its adapters stand with the journals.

It owns the words of this storage, and the three rules that every adapter shares: what a valid alias is (`check_alias`),
which version an alias means for a given key (`choose_version`), and how audit entries are chained (`audit_hash`). It
must not know HTTP, permissions, secrets of keys, or what an event means.

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

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from perdure.agent_entries import AgentEntries
from perdure.errors import PerdureError
from perdure.purses import BudgetKeeper
from perdure.records import LedgerSum, Page, RunRecord

LATEST = "latest"
"""The alias that moves by itself: the highest version. It is never stored."""
LOG_LINES = 10_000
"""How many lines of one run are kept; the oldest make room."""
LOG_LINE_BYTES = 4096
"""The longest line; a longer one is cut, with a mark."""
PRUNE_ROWS = 100_000
"""How many events and log lines one transaction of `prune_runs` deletes; only a single run may have more."""

_ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_BUCKETS = 10_000


class InvalidAlias(PerdureError):
    code = "invalid_alias"
    status = 422


# -- workflows ---------------------------------------------------------------------------------------------------------


class VersionNote(msgspec.Struct, frozen=True, kw_only=True):
    """Who registered a version, when and why."""

    tenant: str
    workflow: str
    version: int
    by: str
    at: float
    reason: str = ""


class Share(msgspec.Struct, frozen=True):
    """A version and the percentage of starts that get it."""

    version: int
    percent: float = 100.0


class Alias(msgspec.Struct, frozen=True, kw_only=True):
    """A name for a version, or for several by percentage. The first gets the lowest buckets, so raising its percentage
    moves no key away from it."""

    tenant: str
    workflow: str
    alias: str
    shares: tuple[Share, ...]
    revision: int = 0
    """1 for the first place the alias pointed to, one more for each move. Given by the archive."""
    by: str
    at: float
    reason: str = ""


def check_alias(alias: Alias) -> None:
    """Refuse an invalid alias, naming everything that is wrong with it."""
    problems = []
    if alias.alias == LATEST:
        problems.append("'latest' moves by itself; choose another name")
    elif not _ALIAS.fullmatch(alias.alias):
        problems.append("its name must begin with a letter and hold letters, digits, '.', '_' and '-', at most 64")
    versions = [share.version for share in alias.shares]
    if not versions:
        problems.append("it points to no version")
    if len(set(versions)) != len(versions):
        problems.append("it names a version twice")
    if any(not 0 < share.percent <= 100 for share in alias.shares):
        problems.append("each percentage must be above 0 and at most 100")
    elif versions and abs(sum(share.percent for share in alias.shares) - 100) > 1e-6:
        problems.append(f"its percentages sum to {sum(share.percent for share in alias.shares):g}, not to 100")
    if problems:
        raise InvalidAlias(f"alias {alias.alias[:80]!r} of workflow {alias.workflow}: {'; '.join(problems)}")


def choose_version(alias: Alias, key: str) -> int:
    """The version for this key (a run id, a customer, …): always the same until the alias moves."""
    digest = hashlib.sha256(f"{alias.tenant}\0{alias.workflow}\0{alias.alias}\0{key}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") % _BUCKETS * 100 / _BUCKETS
    reached = 0.0
    for share in alias.shares:
        reached += share.percent
        if place < reached:
            return share.version
    return alias.shares[-1].version


# -- keys and links ----------------------------------------------------------------------------------------------------


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without its secret. It is valid while it is neither revoked nor expired."""

    key_id: str
    tenant: str
    name: str
    secret_hash: bytes
    """SHA-256 of the secret: 256 random bits need no salt."""
    roles: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    """Permissions the key is limited to; empty: all that its roles have."""
    created_by: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
    """When the key was last used, to the minute."""

    @property
    def prefix(self) -> str:
        """The part of the key that may be shown."""
        return f"perdure_{self.key_id}"


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A single-use link to one decision of one approver about one approval."""

    token_hash: bytes
    tenant: str
    approval_id: str
    run_id: str
    decision: str
    approver: str
    created_at: float
    expires_at: float
    consumed_at: float | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser has instead of a key or token, without its secret. It is gone when it is ended."""

    token_hash: bytes
    """SHA-256 of what the cookie holds: 256 random bits."""
    session_id: str
    tenant: str
    owner: str
    """The credential it was opened with: the id of a key, or the subject of a token."""
    kind: Literal["key", "jwt"]
    name: str
    key_id: str = ""
    roles: tuple[str, ...] = ()
    """What the token gave; a key is looked up again and has its own."""
    agent: str = ""
    """The browser's own name for itself."""
    created_at: float
    seen_at: float
    """When it was last used, to the minute."""
    expires_at: float


class SavedView(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of a list that was given a name."""

    tenant: str
    owner: str
    """The credential whose view it is; empty: everybody of the tenant has it."""
    name: str
    query: str
    """The filter, as it stands in the address of the list."""
    saved_by: str
    saved_at: float


class AssetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a file that outlives the run it came from."""

    tenant: str
    name: str
    version: int = 0
    """The database gives it, from 1 on."""
    ref: str
    media_type: str
    file_name: str
    size: int
    preview: str = ""
    """What is known of its preview, as JSON; empty: there is none."""
    run_id: str = ""
    """Where it came from; empty: it was uploaded."""
    node: str = ""
    kept_by: str
    kept_at: float


# -- notifications -----------------------------------------------------------------------------------------------------

WANTS_NOTIFICATION = b'{"notify":{'
"""How the body of an approval begins if another system is to be told of it. A database compares these bytes and reads
no further: it writes the notification together with the approval, so there is never one without the other."""


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """What became of telling another system about an approval."""

    approval_id: str
    tenant: str
    state: Literal["waiting", "delivered", "failed", "stopped"] = "waiting"
    """`failed`: the time for trying is over; `stopped`: the approval was no longer pending."""
    attempts: int = 0
    created_at: float
    next_at: float
    """When it may be tried next; during an attempt, when another process may try."""
    delivered_at: float | None = None
    last_error: str = ""


class Callback(msgspec.Struct, frozen=True, kw_only=True):
    """A signed message that was accepted, remembered so that its id cannot be used for another one."""

    callback_hash: bytes
    """SHA-256 of the tenant, of the name of the secret that signed the message, and of the message's id."""
    tenant: str
    digest: bytes
    """SHA-256 of the approval the message is about and of its body."""
    received_at: float


# -- audit -------------------------------------------------------------------------------------------------------------


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what to which object. `detail` is a JSON object, by custom with `before` and `after`; never a secret."""

    tenant: str
    at: float
    principal: str
    action: str
    object: str
    detail: bytes = b"{}"
    request_id: str = ""


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in the chain of its tenant."""

    seq: int
    """The entry's number in its chain: 1, 2, 3, … without a gap."""
    previous_hash: bytes
    hash: bytes
    entry: AuditEntry


class AuditHead(msgspec.Struct, frozen=True):
    """The end of a chain. Kept elsewhere, it proves that nothing before it was changed."""

    seq: int
    hash: bytes


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on audit entries; every one that is given must hold. `since` is inclusive and `until` exclusive."""

    principal: str | None = None
    action: str | None = None
    object: str | None = None
    since: float | None = None
    until: float | None = None


EVERY_ENTRY = AuditFilter()
NO_HASH = bytes(32)
"""The hash that the first entry of a chain names as the one before it."""


def audit_payload(entry: AuditEntry) -> bytes:
    """The one encoding of an entry that is hashed: its fields in order, so that no two entries share one."""
    return msgspec.json.encode(
        [
            entry.tenant,
            repr(float(entry.at)),
            entry.principal,
            entry.action,
            entry.object,
            entry.detail,
            entry.request_id,
        ]
    )


def audit_hash(previous: bytes, seq: int, payload: bytes) -> bytes:
    """SHA-256 of the previous hash, the number as eight bytes, and the payload. PostgreSQL computes the same."""
    return hashlib.sha256(previous + seq.to_bytes(8, "big") + payload).digest()


# -- logs --------------------------------------------------------------------------------------------------------------


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a handler printed, logged or wrote with `ctx.log`."""

    tenant: str
    run_id: str
    node: str
    visit: int = 1
    attempt: int = 1
    at: float
    level: str = "info"
    message: str


class StoredLine(msgspec.Struct, frozen=True):
    """A log line and its position within the run, from 1. A gap means that older lines made room."""

    position: int
    line: LogLine


def cut_message(message: str) -> bytes:
    """The message in at most `LOG_LINE_BYTES`, in whole characters; characters that cannot be encoded are replaced."""
    data = message.encode("utf-8", "replace")
    if len(data) <= LOG_LINE_BYTES:
        return data
    mark = " …".encode()
    return data[: LOG_LINE_BYTES - len(mark)].decode("utf-8", "ignore").encode() + mark


# -- the port ----------------------------------------------------------------------------------------------------------


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
