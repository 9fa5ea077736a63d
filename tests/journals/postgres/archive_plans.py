"""The queries of the archive, for `test_plans`: what its tables hold, what is asked, and the index that must be used."""

from __future__ import annotations

from typing import Any

ROWS = 10_000
FILL = f"""
INSERT INTO perdure.version_notes SELECT 'tenant' || n % 5, 'flow' || n / 20, n % 20 + 1, 'ada', n, ''
FROM generate_series(1, {ROWS}) n ON CONFLICT DO NOTHING;
INSERT INTO perdure.deleted_workflows SELECT 'tenant' || n % 5, 'flow' || n, 1 FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.aliases SELECT 'tenant' || n % 5, 'flow' || n / 20, 'alias' || n, 4, true FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.alias_moves SELECT tenant, workflow, alias, r, '[[1,100.0]]', 'ada', 1, ''
FROM perdure.aliases, generate_series(1, 4) r;
INSERT INTO perdure.api_keys SELECT 'k' || n, 'tenant' || n % 5, 'ci', '', '[]', '[]', 'ada', n FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.links SELECT sha256(n::text::bytea), 'tenant1', 'a' || n, 'run' || n, 'approve', 'ada', n, n
FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.callbacks SELECT sha256(n::text::bytea), 'tenant1', '', n FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.approvals SELECT 'told' || n, 'run' || lpad((n % 5000)::text, 8, '0'), 'n', 'told', 'tenant1', n, null, null, ''
FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.sessions SELECT sha256(n::text::bytea), 's' || n, 'tenant' || n % 5, 'k' || n % 500, 'key', 'ada', '', '[]', '', n, n, n
FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.saved_views SELECT 'tenant' || n % 5, 'k' || n % 500, 'view' || n, '', 'ada', n FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.assets SELECT 'tenant' || n % 500, 'name' || n, 1, '', '', '', 1, '', '', '', '', n, null FROM generate_series(1, {ROWS}) n;
INSERT INTO agent_entries SELECT 'tenant' || n % 5, 'session', 'chat' || n % 500, lpad(n::text, 8, '0'), 'ada', 'run' || n, n, '' FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.notifications
SELECT 'told' || n, 'tenant1', CASE WHEN n % 1000 = 0 THEN 'waiting' ELSE 'delivered' END, 1, n, n, null, ''
FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.audit SELECT 'tenant' || n % 5, n / 5 + 1, n, 'user' || n % 1000, 'action' || n % 1000, 'object' || n % 1000,
    '', '', '', ''
FROM generate_series(0, {ROWS - 1}) n;
INSERT INTO perdure.audit_heads SELECT 'tenant' || n, {ROWS} / 5, '' FROM generate_series(0, 4) n;
INSERT INTO perdure.logs SELECT 'run' || lpad((n % 20)::text, 8, '0'), n, 'tenant' || n % 5, 'node' || n / 20 % 100, 1, 1, n,
    'info', ''
FROM generate_series(1, {ROWS}) n;
INSERT INTO perdure.log_heads SELECT 'run' || lpad(n::text, 8, '0'), {ROWS} FROM generate_series(0, 4999) n;
"""

LIMIT = {"limit": 10}
FLOW = {"tenant": "tenant3", "workflow": "flow3"}
KEY = {"tenant": "tenant1", "key_id": "k501"}
HASH = {"token_hash": bytes(32)}
TENANT = {"tenant": "tenant3"}
PLACE = {"cursor_at": 9000.0, "cursor_seq": 1800}
SESSIONS = {**TENANT, "owner": "k3", "now": 1.0, "seen_after": 1.0}
VIEW = {**TENANT, "owner": "k3", "name": "view3"}
ENTRIES = {**TENANT, "space": "session"}
ASSET = {**TENANT, "name": "name3", "version": 1}
LOGS = {"run_id": "run00000003", "tenant": "tenant3", "after": 500, **LIMIT}

PLANS: list[tuple[str, dict[str, Any], str]] = [
    ("find_notes", {**FLOW, "versions": [4, 9]}, "version_notes_pkey"),
    ("count_users", {"tenant": "small", "workflow": "flow9"}, "runs_unended"),
    ("count_users", {"tenant": "small", "workflow": "flow9", "version": 1}, "runs_unended"),
    ("list_users", {**FLOW, **LIMIT}, "runs_unended"),
    (
        "list_users",
        {**FLOW, "cursor_version": 1, "cursor_run": "run00009000", **LIMIT},
        "runs_unended",
    ),
    ("list_users", {**FLOW, "version": 1, "after": "run00009000", **LIMIT}, "runs_unended"),
    ("find_alias", {**FLOW, "alias": "alias63"}, "aliases_pkey"),
    ("list_aliases", {**FLOW, **LIMIT}, "aliases_pkey"),
    ("list_aliases", {**FLOW, "after": "alias61", **LIMIT}, "aliases_pkey"),
    ("list_alias_moves", {**FLOW, "alias": "alias63", "before": 3, **LIMIT}, "alias_moves_pkey"),
    ("delete_alias", {**FLOW, "alias": "alias63"}, "aliases_pkey"),
    ("find_key", {"key_id": "k500"}, "api_keys_pkey"),
    ("list_keys", {**TENANT, **LIMIT}, "api_keys_by_tenant"),
    ("list_keys", {**TENANT, "cursor_at": 9000.0, "cursor_key": "k9000", **LIMIT}, "api_keys_by_tenant"),
    ("revoke_key", {**KEY, "revoked_at": 1.0}, "api_keys_pkey"),
    ("touch_keys", {"key_ids": ["k1", "k2"], "times": [1.0, 2.0]}, "api_keys_pkey"),
    ("find_link", HASH, "links_pkey"),
    ("consume_link", {**HASH, "approval_id": "a1", "decision": "approve", "now": 1.0}, "links_pkey"),
    ("release_link", {**HASH, "consumed_at": 1.0}, "links_pkey"),
    ("find_asset", ASSET, "assets_pkey"),
    ("list_assets", {**TENANT, "after_name": "", "after_version": 0, "last_name": "z", **LIMIT}, "assets_pkey"),
    ("list_all_assets", {"after_tenant": "tenant3", "after_name": "", "after_version": 0, **LIMIT}, "assets_pkey"),
    ("measure_assets", TENANT, "assets_pkey"),
    ("delete_asset", {**ASSET, "now": 1.0}, "assets_pkey"),
    ("find_view", VIEW, "saved_views_pkey"),
    ("delete_budget", {**TENANT, "scope": "tenant"}, "budgets_pkey"),
    (
        "sum_ledger",
        {**TENANT, "grouping": "day", "since": "2026-11-01", "until": "2026-12-01", "workflow": "", **LIMIT},
        "ledger_pkey",
    ),
    ("list_views", {**TENANT, "owner": "k3", **LIMIT}, "saved_views_pkey"),
    ("delete_view", VIEW, "saved_views_pkey"),
    ("list_entries", {**ENTRIES, "name": "chat3", "before": "00009000", **LIMIT}, "agent_entries_pkey"),
    (
        "list_all_entries",
        {"after_tenant": "tenant3", "after_space": "", "after_name": "", "after_place": "", **LIMIT},
        "agent_entries_pkey",
    ),
    ("delete_entries", {**ENTRIES, "name": "chat3"}, "agent_entries_pkey"),
    ("find_session", HASH, "sessions_pkey"),
    ("touch_session", {**HASH, "seen_at": 1.0}, "sessions_pkey"),
    ("list_sessions", {**SESSIONS, **LIMIT}, "sessions_by_owner"),
    ("list_sessions", {**SESSIONS, "cursor_at": 9000.0, "cursor_session": "s3", **LIMIT}, "sessions_by_owner"),
    ("end_session", {**TENANT, "owner": "k3", "session_id": "s3"}, "sessions_session_id_key"),
    ("claim_notifications", {"now": 1e9, "until": 2e9, **LIMIT}, "notifications_due"),
    ("find_notification", {"tenant": "tenant1", "approval_id": "told7"}, "notifications_pkey"),
    (
        "settle_notification",
        {
            "approval_id": "told7",
            "attempts": 1,
            "state": "failed",
            "next_at": 1.0,
            "delivered_at": 1.0,
            "last_error": b"",
        },
        "notifications_pkey",
    ),
    ("find_callback", {"callback_hash": bytes(32)}, "callbacks_pkey"),
    ("read_audit", {**TENANT, "after": 3000, **LIMIT}, "audit_pkey"),
    ("find_audit_head", TENANT, "audit_heads_pkey"),
    ("list_audit", {**TENANT, **LIMIT}, "audit_by_time"),
    ("list_audit", {**TENANT, "since": 100.0, "until": 9000.0, **PLACE, **LIMIT}, "audit_by_time"),
    ("list_audit", {**TENANT, "principal": "user503", **LIMIT}, "audit_by_principal"),
    ("list_audit", {**TENANT, "action": "action503", **PLACE, **LIMIT}, "audit_by_action"),
    ("list_audit", {**TENANT, "object": "object503", **PLACE, **LIMIT}, "audit_by_object"),
    ("read_logs", LOGS, "logs_pkey"),
]
LARGE: list[tuple[str, dict[str, Any], str]] = [
    ("prune_links", {"before": 1e9}, "links_by_expiry"),
    ("prune_sessions", {"before": 1e9}, "sessions_by_expiry"),
    ("prune_entries", {"space": "session", "before": 1e9}, "agent_entries_by_age"),
    ("prune_callbacks", {"before": 1e9}, "callbacks_by_time"),
]

# Functions, whose inside is looked at.
FUNCTIONS: dict[str, dict[str, Any]] = {
    "put_alias": {
        "tenant": "default",
        "workflow": "flow7",
        "alias": "live",
        "versions": [1, 2],
        "shares": "[[1,100.0]]",
        "moved_by": "ada",
        "moved_at": 1.0,
        "reason": b"",
        "expected": None,
    },
    "delete_workflow": {"tenant": "default", "workflow": "flow7", "version": 3},
    "append_audit": {
        "tenants": ["new", "tenant3"],
        "times": [1.0, 2.0],
        "principals": ["ada"] * 2,
        "actions": ["a"] * 2,
        "objects": ["o"] * 2,
        "details": [b""] * 2,
        "request_ids": [""] * 2,
        "payloads": [b""] * 2,
    },
    "append_logs": {
        "run_ids": ["run00000023", "run00000509"],
        "tenants": ["tenant3", "small"],
        "nodes": ["n"] * 2,
        "visits": [1] * 2,
        "attempts": [1] * 2,
        "times": [1.0] * 2,
        "levels": ["info"] * 2,
        "messages": [b""] * 2,
        "kept_lines": 10_000,
    },
    "prune_runs": {"before": 1e9, "most_runs": 20, "most_rows": 100_000},
}

# Inserts.
UNPLANNED = {
    "note_version",
    "create_key",
    "create_link",
    "create_session",
    "save_budget",
    "save_view",
    "keep_asset",
    "keep_callback",
    *FUNCTIONS,
}
