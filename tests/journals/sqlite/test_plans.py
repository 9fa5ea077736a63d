"""Query plans: what runs often or over much reads an index, and sorts nothing."""

import sqlite3
from contextlib import closing

import pytest

from perdure.journals.sqlite import SqliteJournal, statements

MANY = {"partitions": "[1,2]"}

# (query, parameters given, index that must be named)
PLANS = [
    ("append_find_run", {}, "sqlite_autoindex_runs_1"),
    ("append_find_commit", {}, "events_by_run"),
    ("append_find_epoch", {}, "INTEGER PRIMARY KEY"),
    ("append_advance_run", {}, "INTEGER PRIMARY KEY"),
    ("append_update_run", {}, "INTEGER PRIMARY KEY"),
    ("append_clear_timer", {}, "PRIMARY KEY"),
    ("append_consume_notice", {}, "INTEGER PRIMARY KEY"),
    ("answer_command", {}, "command_id"),
    ("find_run", {}, "sqlite_autoindex_runs_1"),
    ("find_commit", {}, "sqlite_autoindex_runs_1"),
    ("find_seqs", {}, "sqlite_autoindex_runs_1"),
    ("find_outlines", {}, "events_by_run"),
    ("find_outlines", {}, "dead_letters_by_run"),
    ("find_snapshot", {}, "INTEGER PRIMARY KEY"),
    ("find_idempotency", {}, "PRIMARY KEY"),
    ("find_answer", {}, "command_id"),
    ("find_workflow", {}, "PRIMARY KEY"),
    ("find_workflow", {"version": 1}, "PRIMARY KEY"),
    ("find_workflow_version", {}, "definition_hash"),
    ("get_approval", {}, "approval_id"),
    ("get_dead_letter", {}, "dead_letter_id"),
    ("find_trigger", {}, "PRIMARY KEY"),
    ("find_hook", {}, "triggers_by_hook"),
    ("count_triggers", {}, "PRIMARY KEY (tenant=?)"),
    ("list_triggers", {"tenant": "t", "live": True}, "PRIMARY KEY (tenant=?)"),
    ("list_triggers", {"tenant": "t", "kind": "k", "cursor_name": "n"}, "PRIMARY KEY (tenant=?"),
    ("append_clear_subscription", {}, "PRIMARY KEY"),
    ("append_occurrence", {}, "subscriptions"),
    ("find_occurrence", {}, "occurrences_by_id"),
    ("read_occurrences", {}, "occurrences_by_topic"),
    ("read_occurrences", {"key": "k", "since": 1.0}, "occurrences_by_key"),
    ("last_occurrence", {}, "SEARCH occurrences"),
    ("list_subscribers", {}, "subscriptions_by_topic"),
    ("list_subscribers", MANY, "subscriptions_by_topic"),
    ("read_subscriptions", {}, "subscriptions_by_run"),
    ("prune_occurrences", {}, "occurrences_by_age"),
    ("count_occurrences", {}, "occurrences_by_tenant (tenant=?)"),
    ("drop_occurrences", {}, "occurrences_by_tenant (tenant=?)"),
    ("count_subscribers", {}, "subscriptions_by_topic (tenant=? AND topic=?)"),
    ("count_subscribers", {"key": "k"}, "subscriptions_by_topic (tenant=? AND topic=? AND key=?)"),
    ("list_runs", {"tenant": "t", "plain": True}, "runs_by_tenant (tenant=?)"),
    ("get_definition", {}, "hash"),
    ("incarnation", {}, "PRIMARY KEY"),
    ("read_events", {}, "events_by_run"),
    ("list_active_runs", {}, "runs_active"),
    ("list_active_runs", MANY, "runs_active"),
    ("list_due_timers", {}, "timers_by_due"),
    ("list_due_timers", MANY, "timers_by_due"),
    ("list_due_timers", {"run_ids": '["r1"]'}, "timers_by_due"),
    ("next_timer", {}, "timers_by_due"),
    ("next_timer", MANY, "timers_by_due"),
    ("read_notices", {}, "INTEGER PRIMARY KEY"),
    ("read_notices", MANY, "INTEGER PRIMARY KEY"),
    ("read_commands", {}, "commands_waiting"),
    ("read_commands", MANY, "commands_waiting"),
    ("list_runs", {}, "runs_by_creation"),
    ("list_runs", {"cursor_at": 1}, "runs_by_creation"),
    ("list_runs", {"since": 1, "until": 2}, "runs_by_creation"),
    ("list_runs", {"tenant": "t"}, "runs_by_tenant (tenant=?)"),
    ("list_runs", {"tenant": "t", "cursor_at": 1}, "runs_by_tenant (tenant=? AND created_at"),
    ("list_runs", {"tenant": "t", "top": True, "sound": True}, "runs_by_tenant (tenant=?)"),
    ("list_runs", {"since": 1, "until": 2, "tenant": "t"}, "runs_by_tenant (tenant=? AND created_at"),
    ("list_runs", {"tenant": "t", "states": "[]"}, "runs_by_tenant (tenant=?)"),
    ("list_runs", {"state": "s"}, "runs_by_state"),
    ("list_runs", {"state": "s", "tenant": "t"}, "runs_by_tenant_state (tenant=? AND state=?)"),
    ("list_runs", {"state": "s", "cursor_at": 1, "tenant": "t"}, "runs_by_tenant_state (tenant=? AND state=?"),
    ("list_runs", {"workflow": "w", "tenant": "t"}, "runs_by_tenant_workflow (tenant=? AND workflow=?)"),
    ("list_runs", {"parent": "p", "of_tenant": "t"}, "runs_by_parent"),
    ("list_runs", {"quarantined": True, "of_tenant": "t"}, "runs_quarantined"),
    ("list_runs", {"states": "[]"}, "runs_by_creation"),
    ("list_runs", {"workflow": "w"}, "runs_by_workflow"),
    ("list_runs", {"workflow": "w", "cursor_at": 1}, "runs_by_workflow"),
    ("list_runs", {"parent": "p"}, "runs_by_parent"),
    ("list_runs", {"quarantined": True}, "runs_quarantined"),
    ("list_runs", {"tenant": "t", "oldest": True, "after_at": 1}, "runs_by_tenant (tenant=? AND created_at"),
    ("list_runs", {"tenant": "t", "error": b"x"}, "runs_by_tenant_error (tenant=?)"),
    (
        "list_runs",
        {"tenant": "t", "id_from": "a", "id_tenant": "t"},
        "runs_by_tenant_id (tenant=? AND run_id>? AND run_id<?)",
    ),
    ("list_runs_by_end", {"tenant": "t", "cursor_at": 1}, "runs_by_tenant_end (tenant=? AND ended_at"),
    (
        "list_runs_by_end",
        {"tenant": "t", "ended_since": 1, "state": "s"},
        "runs_by_tenant_end (tenant=? AND ended_at>?)",
    ),
    ("list_runs_by_end", {"ended_since": 1}, "runs_ended (ended_at>?)"),
    ("list_runs_by_tag", {}, "PRIMARY KEY (name=? AND value=?)"),
    ("list_runs_by_tag", {"tenant": "t"}, "run_tags_by_tenant (tenant=? AND name=? AND value=?)"),
    ("list_runs_by_tag", {"tenant": "t", "cursor_at": 1}, "run_tags_by_tenant (tenant=? AND name=? AND value=?"),
    ("list_runs_by_tag", {"cursor_at": 1, "state": "s", "workflow": "w"}, "PRIMARY KEY (name=? AND value=?"),
    ("list_approvals", {}, "approvals_by_time"),
    ("list_approvals", {"state": "s", "tenant": "t", "cursor_at": 1}, "approvals_by_state"),
    ("list_approvals", {"run_id": "r"}, "approvals_by_run"),
    ("list_dead_letters", {}, "dead_letters_by_time"),
    ("list_dead_letters", {"state": "s", "tenant": "t", "cursor_at": 1}, "dead_letters_by_state"),
    ("list_dead_letters", {"run_id": "r"}, "dead_letters_by_run"),
    ("list_workflows", {}, "PRIMARY KEY (tenant=?)"),
    ("list_workflow_versions", {"before": 2}, "PRIMARY KEY (tenant=? AND name=? AND version<?)"),
    ("prune_commands", {}, "commands_answered"),
    ("prune_idempotency", {}, "idempotency_left"),
    # the archive
    ("find_notes", {}, "PRIMARY KEY (tenant=? AND workflow=? AND version=?)"),
    ("count_users", {}, "runs_unended (tenant=? AND workflow=?)"),
    ("count_users", {"version": 1}, "runs_unended (tenant=? AND workflow=? AND workflow_version=?)"),
    ("list_users", {}, "runs_unended"),
    ("list_users", {"cursor_run": "r"}, "runs_unended"),
    ("list_users", {"version": 1, "after": "r"}, "runs_unended"),
    ("find_versions", {"versions": "[]"}, "PRIMARY KEY (tenant=? AND name=? AND version=?)"),
    ("find_versions", {"version": 1}, "PRIMARY KEY (tenant=? AND name=? AND version=?)"),
    ("find_alias", {}, "PRIMARY KEY (tenant=? AND workflow=? AND alias=?)"),
    ("find_alias_row", {}, "PRIMARY KEY (tenant=? AND workflow=? AND alias=?)"),
    ("find_alias_of_version", {}, "PRIMARY KEY (tenant=? AND workflow=? AND alias=? AND revision=?)"),
    ("list_aliases", {"after": "a"}, "PRIMARY KEY (tenant=? AND workflow=? AND alias>?)"),
    ("list_alias_moves", {"before": 3}, "PRIMARY KEY (tenant=? AND workflow=? AND alias=? AND revision<?)"),
    ("delete_alias", {}, "PRIMARY KEY (tenant=? AND workflow=? AND alias=?)"),
    ("delete_aliases", {}, "PRIMARY KEY (tenant=? AND workflow=?)"),
    ("delete_alias_moves", {}, "PRIMARY KEY (tenant=? AND workflow=?)"),
    ("delete_notes", {"version": 1}, "PRIMARY KEY (tenant=? AND workflow=? AND version=?)"),
    ("delete_workflow", {"version": 1}, "PRIMARY KEY (tenant=? AND name=? AND version=?)"),
    ("find_key", {}, "sqlite_autoindex_api_keys_1"),
    ("list_keys", {}, "api_keys_by_tenant"),
    ("list_keys", {"cursor_at": 1}, "api_keys_by_tenant"),
    ("revoke_key", {}, "sqlite_autoindex_api_keys_1"),
    ("touch_keys", {}, "sqlite_autoindex_api_keys_1"),
    ("find_link", {}, "PRIMARY KEY"),
    ("consume_link", {}, "PRIMARY KEY"),
    ("release_link", {}, "PRIMARY KEY"),
    ("prune_links", {}, "links_by_expiry"),
    ("find_view", {}, "PRIMARY KEY (tenant=? AND owner=? AND name=?)"),
    ("list_views", {}, "PRIMARY KEY (tenant=? AND owner=?)"),
    ("delete_view", {}, "PRIMARY KEY (tenant=? AND owner=? AND name=?)"),
    ("find_asset", {}, "PRIMARY KEY (tenant=? AND name=? AND version=?)"),
    ("list_assets", {}, "PRIMARY KEY (tenant=?"),
    ("list_all_assets", {}, "PRIMARY KEY"),
    ("measure_assets", {}, "PRIMARY KEY (tenant=?)"),
    ("keep_asset", {}, "PRIMARY KEY (tenant=? AND name=?)"),
    ("delete_budget", {}, "PRIMARY KEY (tenant=? AND scope=?)"),
    ("delete_asset", {}, "PRIMARY KEY (tenant=? AND name=? AND version=?)"),
    ("find_session", {}, "PRIMARY KEY"),
    ("touch_session", {}, "PRIMARY KEY"),
    ("list_sessions", {}, "sessions_by_owner (tenant=? AND owner=?"),
    ("list_sessions", {"cursor_at": 1}, "sessions_by_owner (tenant=? AND owner=?"),
    ("end_session", {}, "sqlite_autoindex_sessions_2"),
    ("list_entries", {}, "PRIMARY KEY (tenant=? AND space=? AND name=? AND place<?)"),
    ("list_entry_names", {}, "PRIMARY KEY (tenant=? AND space=? AND name>?)"),
    ("list_all_entries", {}, "PRIMARY KEY"),
    ("delete_entries", {}, "PRIMARY KEY (tenant=? AND space=? AND name=?)"),
    ("prune_entries", {}, "agent_entries_by_age"),
    ("prune_sessions", {}, "sessions_by_expiry"),
    ("claim_notifications", {}, "notifications_due (next_at<?)"),
    ("settle_notification", {}, "PRIMARY KEY"),
    ("find_notification", {}, "PRIMARY KEY"),
    ("find_callback", {}, "PRIMARY KEY"),
    ("prune_callbacks", {}, "callbacks_by_time"),
    ("read_audit", {}, "sqlite_autoindex_audit_1 (tenant=? AND seq>?)"),
    ("find_audit_head", {}, "PRIMARY KEY"),
    ("list_audit", {}, "audit_by_time"),
    ("list_audit", {"since": 1, "until": 2, "cursor_at": 1}, "audit_by_time"),
    ("list_audit", {"principal": "p"}, "audit_by_principal"),
    ("list_audit", {"action": "a", "cursor_at": 1}, "audit_by_action"),
    ("list_audit", {"object": "o", "since": 1}, "audit_by_object"),
    ("read_logs", {}, "PRIMARY KEY (run_id=? AND position>?)"),
    ("read_logs", {"node": "n"}, "PRIMARY KEY (run_id=? AND position>?)"),
    ("find_log_head", {}, "runs_by_tenant_id (tenant=? AND run_id=?)"),
    ("cut_logs", {}, "PRIMARY KEY (run_id=? AND position<?)"),
    ("list_prunable_runs", {}, "runs_ended"),
    ("lock_prunable_runs", {}, "sqlite_autoindex_runs_1"),
    ("prune_events", {}, "events_by_run"),
    ("prune_run", {}, "INTEGER PRIMARY KEY"),
    ("leave_run_keys", {}, "idempotency_by_run"),
    ("prune_run_links", {}, "links_by_run"),
    ("prune_run_subscriptions", {}, "subscriptions_by_run"),
    ("prune_run_logs", {}, "PRIMARY KEY (run_id=?)"),
    ("prune_run_log_heads", {}, "PRIMARY KEY"),
]

COUNTED = [
    ("read_purses", {}, "PRIMARY KEY (tenant=? AND day>?)"),
    ("sum_ledger", {}, "PRIMARY KEY (tenant=? AND day>? AND day<?)"),
    ("list_topics", {}, "INTEGER PRIMARY KEY"),
    ("count_runs", {"tenant": "t"}, "runs_by_tenant (tenant=?)"),
    ("count_runs", {"tenant": "t", "state": "s"}, "runs_by_tenant_state (tenant=? AND state=?)"),
    ("count_runs", {"tenant": "t", "since": 1, "until": 2, "bucket": 1}, "runs_by_tenant (tenant=? AND created_at>?"),
    ("count_runs", {"tenant": "t", "by_end": True, "ended_since": 1}, "runs_by_tenant_end (tenant=? AND ended_at>?)"),
]

# Inserts, and updates by a key that the caller names: nothing to plan.
UNPLANNED = {
    "append_audit",
    "append_audit_head",
    "append_log_head",
    "append_logs",
    "create_key",
    "create_link",
    "create_session",
    "save_budget",
    "append_agent_entry",
    "save_entry",
    "save_view",
    "note_deleted",
    "note_version",
    "put_alias",
    "put_alias_move",
    "append_approval",
    "append_ledger",
    "append_trigger",
    "append_set_subscription",
    "put_occurrence",
    "append_create_idempotency",
    "append_create_run",
    "append_create_tags",
    "append_dead_letter",
    "append_events",
    "append_notice",
    "append_set_timer",
    "append_snapshot",
    "delete_notices",
    "keep_callback",
    "mark_quarantined",
    "put_command",
    "put_definition",
    "raise_epochs",
    "raise_incarnation",
    "check_writable",
    "register_workflow",
    "unquarantine",
}


@pytest.fixture
async def connection(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "perdure.db")
    await journal.close()
    with closing(sqlite3.connect(tmp_path / "perdure.db")) as connection:
        yield connection


def plan_of(connection: sqlite3.Connection, name: str, given: dict[str, object]) -> list[str]:
    sql = statements.query(name, given)
    parameters: object = (None,) * sql.count("?") if "?" in sql else _Anything(given)
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]  # type: ignore[arg-type]


class _Anything(dict[str, object]):
    def __missing__(self, key: str) -> object:
        return None


@pytest.mark.parametrize(("name", "given", "index"), PLANS, ids=lambda value: str(value))
async def test_a_hot_query_reads_its_index_and_sorts_nothing(connection, name, given, index):
    plan = plan_of(connection, name, given)
    assert any(index in step for step in plan), plan
    given = ("USING", "json_each", "CONSTANT ROW", "SCAN found")  # of a bounded number that is counted
    tables = [step for step in plan if step.startswith("SCAN") and not any(one in step for one in given)]
    assert tables == [], plan
    assert [step for step in plan if "TEMP B-TREE" in step] == [], plan


@pytest.mark.parametrize(("name", "given", "index"), COUNTED)
async def test_what_is_counted_was_found_by_its_index(connection, name, given, index):
    plan = plan_of(connection, name, given)
    assert any(index in step for step in plan), plan
    before = plan[: plan.index("SCAN counted")]  # the rows that are grouped and sorted are as many as the limit says
    assert [step for step in before if "SCAN" in step or "TEMP B-TREE" in step] == [], plan


async def test_every_query_is_planned_or_has_nothing_to_plan():
    planned = {name for name, _, _ in [*PLANS, *COUNTED]}
    assert planned & UNPLANNED == set()
    assert planned | UNPLANNED == set(statements.names())


async def test_every_table_is_strict(connection):
    tables = connection.execute("SELECT name, strict FROM pragma_table_list WHERE type = 'table'").fetchall()
    assert [name for name, strict in tables if not strict and not name.startswith("sqlite_")] == []


async def test_a_file_is_whole_and_its_settings_are_durable(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "perdure.db")
    assert journal._writer is not None

    def pragmas(connection: sqlite3.Connection) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "integrity_check")
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

    assert await journal._writer.run(pragmas) == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
        "integrity_check": "ok",
    }
    await journal.close()
