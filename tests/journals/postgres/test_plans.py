"""Query plans over many rows: what runs often reads an index, sorts nothing and touches few rows, as sessions really plan."""

import asyncio
import itertools
import json
import re
from typing import Any

import pytest
import pytest_asyncio

from perdure.journal import ApprovalRow, Commit, DeadLetterRow, Epoch, IdempotencyKey, Snapshot, TriggerRow
from perdure.journals.postgres import appender, migrate_postgres, statements
from perdure.journals.postgres.connections import Options, connect
from tests.conformance.journal.commits import commit
from tests.journals.postgres import archive_plans
from tests.servers.postgres import installations

RUNS = 10_000
FILL = f"""
INSERT INTO perdure.runs
SELECT format('run%s', lpad(n::text, 8, '0')), 3, 'c' || n,
       CASE WHEN n % 400 = 1 THEN 'failed' WHEN n % 4 = 1 THEN 'completed' WHEN n % 4 = 2 THEN 'cancelled' ELSE 'running' END,
       CASE n % 300 WHEN 3 THEN 'rare' ELSE 'flow' || n % 10 END, 1, 'sha256:x', n % 8,
       CASE n % 500 WHEN 9 THEN 'small' ELSE 'tenant' || n % 5 END, '{{}}', 1, 1, n % 20 = 0, n, n,
       CASE n % 4 WHEN 1 THEN n WHEN 2 THEN n END, NULL, CASE n % 10 WHEN 0 THEN 'parent' || n % 100 END,
       CASE n % 500 WHEN 0 THEN 'why'::bytea END
FROM generate_series(1, {RUNS}) n;
INSERT INTO perdure.events
SELECT run_id, n, 'node.completed', 1, CASE n WHEN 3 THEN commit_id END, 'body' FROM perdure.runs, generate_series(1, 3) n;
INSERT INTO perdure.events SELECT 'run00000001', seq, 'node.completed', 1, NULL, 'body' FROM generate_series(4, 5000) seq;
INSERT INTO perdure.run_tags SELECT 'team', ('t' || partition)::bytea, created_at, run_id, tenant FROM perdure.runs;
INSERT INTO perdure.snapshots SELECT run_id, 3, 1, 'state' FROM perdure.runs;
INSERT INTO perdure.timers SELECT run_id, 'timer', created_at, partition FROM perdure.runs;
INSERT INTO perdure.approvals (approval_id, run_id, node, state, tenant, requested_at, body)
SELECT 'a' || n, format('run%s', lpad((n / 4)::text, 8, '0')), 'n', CASE n % 200 WHEN 3 THEN 'pending' ELSE 'approved' END,
       'tenant' || n % 5, n, ''
FROM generate_series(1, {RUNS}) n;
INSERT INTO perdure.dead_letters (dead_letter_id, run_id, node, state, tenant, created_at, body)
SELECT approval_id, run_id, node, state, tenant, requested_at, body FROM perdure.approvals;
INSERT INTO perdure.triggers
SELECT CASE n % 500 WHEN 9 THEN 'few' ELSE 'tenant' || n % 5 END, 'trigger' || n, 'x' || n, 0, 'x' || n, 'webhook', 'active', 1, 'w', 'hook' || n, '', NULL, NULL, 0, 0, 0, NULL, ''
FROM generate_series(1, {RUNS}) n;
INSERT INTO perdure.occurrences (tenant, topic, key, id, at, body)
SELECT CASE n % 500 WHEN 9 THEN 'few' ELSE 'tenant' || n % 5 END, 'event:' || n % 50, 'key' || n % 1000, 'id' || n, n, '' FROM generate_series(1, {RUNS}) n;
INSERT INTO perdure.subscriptions
SELECT 'tenant' || n % 5, 'event:' || n % 50, CASE n % 2 WHEN 0 THEN '' ELSE 'key' || n % 1000 END, 'run' || n, 'run' || n || '/wait', n, CASE WHEN n % 100 > 0 THEN 1.0 END, n % 8
FROM generate_series(1, {RUNS}) n;
INSERT INTO perdure.notices (partition, run_id, from_run_id, body) SELECT partition, run_id, 'child', '' FROM perdure.runs;
INSERT INTO perdure.commands (command_id, run_id, partition, put_at, body, answered_at)
SELECT 'k' || run_id, run_id, partition, 1, '', CASE WHEN created_at > 2000 THEN created_at END FROM perdure.runs;
INSERT INTO perdure.idempotency SELECT 'default', run_id::bytea, 'h', run_id, created_at, created_at FROM perdure.runs;
INSERT INTO perdure.definitions SELECT 'd' || n, 'ir', '' FROM generate_series(1, {RUNS}) n;
INSERT INTO perdure.workflows SELECT 'default', 'flow' || n / 4, n % 4 + 1, 'd' || n, 'i', 1 FROM generate_series(1, {RUNS}) n;
ANALYZE;
"""

NUMBERS = itertools.count()
FIRST = 100
"""Rows that a query which returns ten may look at."""
LIMIT = {"limit": 10}
HALF = {"partitions": [0, 2, 4, 6]}
CURSOR = {"cursor_at": 9000.0, "cursor_key": "run00009000"}
PLACE = {"cursor_at": 9000.0, "cursor_key": "a9000"}
RUN = {"run_id": "run00000500"}
RUNS_ASKED = {"run_ids": ["run00000001", "run00000500"]}
TAG = {"tag_name": b"team", "tag_value": b"t3"}

# (query, parameters, index that must be named)
COUNTED: list[tuple[str, dict[str, Any], str]] = [
    (
        "list_runs",
        {"tenant": "small", "id_from": "run0001", "id_to": "run0001x", "id_tenant": "small", **LIMIT},
        "runs_by_tenant_id",
    ),
    ("count_runs", {"tenant": "small", **LIMIT}, "runs_by_tenant"),
    (
        "read_purses",
        {"tenant": "t", "day": "2026-11-19", "month": "2026-11-01", "workflow": "", **LIMIT},
        "ledger_pkey",
    ),
    ("count_triggers", {"tenant": "few"}, "triggers_pkey"),
    ("list_entry_names", {"tenant": "tenant3", "space": "session", "after": "chat3", **LIMIT}, "agent_entries_pkey"),
    (
        "count_runs",
        {"tenant": "small", "by_end": True, "ended_since": 100.0, "bucket": 60.0, **LIMIT},
        "runs_by_tenant_end",
    ),
]
PLANS: list[tuple[str, dict[str, Any], str]] = [
    ("find_run", RUNS_ASKED, "runs_pkey"),
    ("find_commit", RUN, "runs_pkey"),
    ("find_seqs", {"run_ids": ["run00000001", "run00000500"]}, "runs_pkey"),
    ("lock_runs", {"run_ids": ["run00000001", "run00000500"]}, "runs_pkey"),
    ("find_outlines", {**RUNS_ASKED, "letter_state": "pending"}, "runs_pkey"),
    ("find_outlines", {**RUNS_ASKED, "letter_state": "pending"}, "dead_letters_by_run"),
    ("find_snapshot", RUNS_ASKED, "snapshots_pkey"),
    ("read_events", {**RUNS_ASKED, "afters": [4000, 0], **LIMIT}, "events_.._pkey"),
    ("find_idempotency", {"tenant": "default", "key": b"run00000500"}, "idempotency_pkey"),
    ("find_answer", {"command_ids": ["krun00000500", "k"]}, "commands_command_id_key"),
    ("find_workflow", {"tenant": "default", "name": "flow7"}, "workflows_by_version"),
    ("find_workflow", {"tenant": "default", "name": "flow7", "version": 1}, "workflows_by_version"),
    ("find_workflow_version", {"tenant": "default", "name": "flow7", "definition_hash": "d28"}, "workflows_pkey"),
    ("get_approval", {"id": "a77"}, "approvals_pkey"),
    ("get_dead_letter", {"id": "a77"}, "dead_letters_pkey"),
    ("find_trigger", {"tenant": "tenant3", "name": "trigger13"}, "triggers_pkey"),
    ("find_hook", {"hook": "hook77"}, "triggers_by_hook"),
    ("list_triggers", {"tenant": "tenant3", "live": True, **LIMIT}, "triggers_pkey"),
    (
        "list_triggers",
        {"tenant": "tenant3", "state": "active", "cursor_tenant": "tenant3", "cursor_name": "trigger2", **LIMIT},
        "triggers_pkey",
    ),
    ("list_triggers", {"live": True, **LIMIT}, "triggers_pkey"),
    ("read_occurrences", {"tenant": "tenant3", "topic": "event:3", "after": 500, **LIMIT}, "occurrences_by_topic"),
    (
        "read_occurrences",
        {"tenant": "tenant3", "topic": "event:3", "key": "key3", "after": 500, "since": 1.0, **LIMIT},
        "occurrences_by_key",
    ),
    ("list_topics", {"after": 5000, **LIMIT}, "occurrences_pkey"),
    ("last_occurrence", {}, "occurrences_pkey"),
    (
        "list_subscribers",
        {
            "tenant": "tenant3",
            "topic": "event:3",
            "key": "key3",
            "position": 10**6,
            "at": 1.0,
            "after": "run1",
            **LIMIT,
            **HALF,
        },
        "subscriptions_by_topic",
    ),
    ("prune_occurrences", {"before": 100.0}, "occurrences_by_age"),
    ("count_occurrences", {"tenant": "few", "most": 10}, "occurrences_by_tenant"),
    ("drop_occurrences", {"tenant": "few", "most": 10}, "occurrences_by_tenant"),
    (
        "count_subscribers",
        {"tenant": "tenant3", "topic": "event:3", "key": "key3", "most": 10},
        "subscriptions_by_topic",
    ),
    ("read_subscriptions", {"run_id": "run77"}, "subscriptions_by_run"),
    ("get_definition", {"definition_hash": "d77"}, "definitions_pkey"),
    ("list_active_runs", {"after": "run00010000", **LIMIT}, "runs_active"),
    ("list_active_runs", {"after": "", **LIMIT, **HALF}, "runs_active"),
    ("list_active_runs", {"after": "run00010000", "busy": True, **LIMIT, **HALF}, "runs_busy"),
    ("list_due_timers", {"now": 15000.0, **LIMIT}, "timers_by_due"),
    ("list_due_timers", {"now": 15000.0, **LIMIT, **HALF}, "timers_by_due"),
    ("next_timer", {}, "timers_by_due"),
    ("next_timer", HALF, "timers_by_due"),
    ("read_notices", {"after": 5000, **LIMIT}, "notices_pkey"),
    ("read_notices", {"after": 5000, **LIMIT, **HALF}, "notices_pkey"),
    ("read_commands", {"after": 500, **LIMIT}, "commands_waiting"),
    ("read_commands", {"after": 500, **LIMIT, **HALF}, "commands_waiting"),
    ("list_runs", LIMIT, "runs_by_creation"),
    ("list_runs", {**LIMIT, **CURSOR}, "runs_by_creation"),
    ("list_runs", {"since": 100.0, "until": 9000.0, **LIMIT}, "runs_by_creation"),
    ("list_runs", {"tenant": "tenant3", **LIMIT, **CURSOR}, "runs_by"),
    ("list_runs", {"tenant": "small", **LIMIT, **CURSOR}, "runs_by_tenant"),
    ("list_runs", {"tenant": "small", "state": "running", **LIMIT, **CURSOR}, "runs_by_tenant"),
    ("list_runs", {"state": "running", **LIMIT}, "runs_by"),
    ("list_runs", {"state": "failed", **LIMIT}, "runs_by_state"),
    ("list_runs", {"state": "failed", "tenant": "tenant1", **LIMIT, **CURSOR}, "runs_by_tenant_state"),
    ("list_runs", {"states": ["completed", "cancelled"], **LIMIT}, "runs_by_creation"),
    ("list_runs", {"workflow": "flow3", **LIMIT, **CURSOR}, "runs_by"),
    ("list_runs", {"workflow": "rare", **LIMIT, **CURSOR}, "runs_by_workflow"),
    ("list_runs", {"parent": "parent10", **LIMIT}, "runs_by_parent"),
    ("list_runs", {"quarantined": True, **LIMIT}, "runs_quarantined"),
    ("list_runs", {"tenant": "small", "oldest": True, **LIMIT}, "runs_by_tenant"),
    ("list_runs_by_end", {"tenant": "small", **LIMIT, **CURSOR}, "runs_by_tenant_end"),
    ("list_runs_by_end", {"tenant": "small", "ended_since": 100.0, **LIMIT}, "runs_by_tenant_end"),
    ("list_runs_by_tag", {**TAG, **LIMIT}, "run_tags_pkey"),
    ("list_runs_by_tag", {**TAG, "state": "running", "tenant": "tenant3", **LIMIT, **CURSOR}, "run_tags"),
    ("list_runs_by_tag", {**TAG, "tenant": "small", **LIMIT, **CURSOR}, "run_tags_by_tenant"),
    ("list_approvals", LIMIT, "approvals_by_time"),
    ("list_approvals", {"state": "pending", **LIMIT, **PLACE}, "approvals_by_state"),
    ("list_approvals", {"state": "pending", "tenant": "tenant3", **LIMIT, **PLACE}, "approvals_by_tenant"),
    ("list_approvals", {**RUN, **LIMIT}, "approvals_by_run"),
    ("list_dead_letters", LIMIT, "dead_letters_by_time"),
    ("list_dead_letters", {"state": "pending", **LIMIT, **PLACE}, "dead_letters_by_state"),
    ("list_dead_letters", {"state": "pending", "tenant": "tenant3", **LIMIT, **PLACE}, "dead_letters_by_tenant"),
    ("list_dead_letters", {**RUN, **LIMIT}, "dead_letters_by_run"),
    ("list_workflows", {"tenant": "default", "after": "flow3", **LIMIT}, "workflows_by_version"),
    ("list_workflow_versions", {"tenant": "default", "name": "flow7", "before": 3, **LIMIT}, "workflows_by_version"),
    ("mark_quarantined", {**RUN, "reason": b"why"}, "runs_pkey"),
    ("unquarantine", RUN, "runs_pkey"),
    ("answer_command", {"command_id": "krun00000500", "answer": b"", "answered_at": 1.0}, "commands_command_id_key"),
    ("delete_notices", {"notice_ids": [5, 6, 7]}, "notices_pkey"),
    ("raise_epochs", {"partitions": [1, 2]}, "partitions_pkey"),
    (
        "register_workflow",
        {"tenant": "default", "name": "flow7", "definition_hash": "new", "ir_hash": "i", "registered_at": 1.0},
        "workflows_by_version",
    ),
    *archive_plans.PLANS,
]

# These take up to a thousand rows at a time.
LARGE = [
    ("prune_commands", {"before": 1e9}, "commands_answered"),
    ("prune_idempotency", {"before": 1e9}, "idempotency_left"),
    *archive_plans.LARGE,
]

# One row by its only key, a function whose inside is looked at below, or what PostgreSQL keeps of itself.
UNPLANNED = {
    "save_entry",
    "append",
    "append_verdicts",
    "change_identity",
    "correct_incarnation",
    "find_holder",
    "found_identity",
    "give_back",
    "greet",
    "incarnation",
    "lease",
    "leave",
    "now",
    "put_command",
    "put_occurrences",
    "put_definition",
    "raise_incarnation",
    "check_writable",
} | archive_plans.UNPLANNED


@pytest.fixture(scope="module", params=sorted(installations()))
def filled(request, postgres_servers) -> str:
    """The URL of a journal with many rows."""
    server = postgres_servers.get(request.param)

    async def fill() -> str:
        name = await server.create_database()
        await migrate_postgres(server.url(name), partitions=8)
        await server.execute(archive_plans.FILL + FILL, name)
        return server.url(name)

    return asyncio.run(fill())


@pytest.fixture
async def connection(filled):
    """As those of a journal that reads."""
    connection = await connect(Options(url=filled))
    yield connection
    await connection.close(timeout=5)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting(filled):
    """The same, for all who only explain: what a session must look up first costs more than any of the plans."""
    connection = await connect(Options(url=filled))
    yield connection
    await connection.close(timeout=5)


def literal(value: object) -> str:
    match value:
        case bytes():
            return f"'\\x{value.hex()}'::bytea"
        case str():
            return f"'{value}'"
        case list():
            return f"ARRAY[{', '.join(map(literal, value))}]"
        case _:
            return str(value)


def walk(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in walk(child))]


def touched(node: dict[str, Any]) -> float:
    """Rows that a scan looked at."""
    if "Relation Name" not in node and node["Node Type"] != "Index Scan":
        return 0
    return (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]


def scans(nodes: list[dict[str, Any]]) -> set[str]:
    """Tables that are read from end to end. The one row of meta is no table to speak of."""
    return {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"} - {"meta"}


async def explain(connection, name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """The plan that the session keeps for this query, carried out and taken back."""
    query, arguments = statements.bind(name, parameters)
    transaction = connection.transaction()
    await transaction.start()
    try:
        this = f"explained_{next(NUMBERS)}"
        await connection.execute(f"PREPARE {this} AS {query}")
        values = f"({', '.join(map(literal, arguments))})" if arguments else ""
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE {this}{values}")
    finally:
        await transaction.rollback()
    return walk(json.loads(text)[0]["Plan"])


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("name", "parameters", "index"), PLANS, ids=lambda value: str(value)[:60])
async def test_a_hot_query_reads_its_index_sorts_nothing_and_looks_at_few_rows(lasting, name, parameters, index):
    nodes = await explain(lasting, name, parameters)
    assert [node["Index Name"] for node in nodes if re.search(index, node.get("Index Name", ""))], nodes
    assert scans(nodes) == set()
    assert {node["Node Type"] for node in nodes} & {"Sort", "Hash Join", "Bitmap Heap Scan"} == set()
    assert max(map(touched, nodes)) <= FIRST, nodes


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("name", "parameters", "index"), LARGE, ids=lambda value: str(value)[:60])
async def test_pruning_takes_a_bounded_part_by_its_index(lasting, name, parameters, index):
    nodes = await explain(lasting, name, parameters)
    assert index in {node.get("Index Name") for node in nodes}
    assert scans(nodes) == set()
    assert max(map(touched, nodes)) <= 1000


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("name", "parameters", "index"), COUNTED, ids=lambda value: str(value)[:60])
async def test_what_is_counted_or_sorted_was_found_by_its_index_up_to_a_number(lasting, name, parameters, index):
    nodes = await explain(lasting, name, parameters)
    assert [node["Index Name"] for node in nodes if re.search(index, node.get("Index Name", ""))], nodes
    assert scans(nodes) - {"counted"} == set()
    assert max(map(touched, nodes)) <= 1000, nodes


def test_every_query_is_planned_or_has_nothing_to_plan():
    planned = {name for name, _, _ in [*PLANS, *LARGE, *COUNTED]}
    assert planned & UNPLANNED == set()
    assert planned | UNPLANNED == set(statements.names())


def everything(number: int, seq: int) -> Commit:
    """A commit that brings all there is."""
    run_id = f"run{number:08}" if seq else f"new{number}"
    approval = ApprovalRow(approval_id=f"new{number}", run_id=run_id, node="n", state="s", requested_at=1.0)
    letter = DeadLetterRow(dead_letter_id=f"new{number}", run_id=run_id, node="n", state="s", created_at=1.0)
    trigger = TriggerRow(
        name=f"new{number}", trigger_id=run_id, head=run_id, kind="webhook", state="active", workflow="w"
    )
    return commit(
        run_id,
        seq,
        2,
        commit_id=f"new{number}",
        tags=b'{"team":"t"}',
        timers_set=(("new", 5.0),),
        timers_cleared=("timer",),
        snapshot=Snapshot(3, 1, b""),
        approvals=(approval,),
        dead_letters=(letter,),
        triggers=(trigger,),
        notices=(("parent", b""),),
        notices_consumed=(number,),
        command_answers=((f"krun{number:08}", b""),),
        idempotency=None if seq else IdempotencyKey("default", f"new{number}", "h"),
        epoch=Epoch(number % 8, 0),
        incarnation=1,
    )


@pytest.fixture
async def writing(filled):
    """As those of a journal that appends."""
    connection = await connect(Options(url=filled, plans="force_generic_plan"))
    yield connection
    await connection.close(timeout=5)


async def nested_plans(connection, work) -> list[dict[str, Any]]:
    """Every statement that is carried out, also those inside functions."""
    logged: list[str] = []
    listener = lambda _, message: logged.append(message.message)  # noqa: E731
    await connection.execute(
        "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;"
        "SET auto_explain.log_timing = off; SET auto_explain.log_nested_statements = on;"
        "SET auto_explain.log_format = 'json'; SET client_min_messages = log"
    )
    connection.add_log_listener(listener)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await work()
    finally:
        await transaction.rollback()
        connection.remove_log_listener(listener)
    return [json.loads(text.partition("plan:")[2]) for text in logged if "plan:" in text]


async def test_an_append_finds_everything_by_index_whatever_it_brings(writing):
    commits = [everything(number, 3) for number in range(2, 42)] + [everything(number, 0) for number in range(50, 60)]

    async def work() -> None:
        answers = await appender.append(writing, commits, range(len(commits)), 8, 1.0)
        assert {type(answer).__name__ for answer in answers.values()} == {"Accepted"}
        repeats = await appender.append(writing, commits, range(len(commits)), 8, 1.0)
        assert repeats == answers

    plans = await nested_plans(writing, work)
    assert len(plans) > 25
    tables = set()
    for plan in plans:
        nodes = walk(plan["Plan"])
        assert scans(nodes) == set(), plan
        assert max(map(touched, nodes)) <= len(commits), plan
        tables |= {node["Relation Name"] for node in nodes if "Relation Name" in node}
    assert tables >= {"runs", "timers", "snapshots", "approvals", "dead_letters", "notices", "commands", "idempotency"}


@pytest.mark.parametrize("name", archive_plans.FUNCTIONS)
async def test_a_function_of_the_archive_finds_everything_by_index(connection, name):
    query, arguments = statements.bind(name, archive_plans.FUNCTIONS[name])

    async def work() -> None:
        await connection.fetch(query, *arguments)

    plans = await nested_plans(connection, work)
    assert len(plans) > 2
    for plan in plans:
        nodes = walk(plan["Plan"])
        assert scans(nodes) == set(), plan
        # A run goes with all of its events and logs, however many.
        few = [node for node in nodes if not node.get("Relation Name", "").startswith(("events", "logs"))]
        assert max(map(touched, few), default=0) <= FIRST, plan


async def test_a_journal_that_was_empty_when_its_plans_were_made_keeps_good_ones(server):
    """Nothing is analysed yet in a new database; a plan that scans would stay while the tables grow."""
    name = await server.create_database()
    await migrate_postgres(server.url(name), partitions=8)
    connection = await connect(Options(url=server.url(name), plans="force_generic_plan"))

    async def append(first: int, seq: int) -> None:
        commits = [commit(f"run{number:08}", seq) for number in range(first, first + 500)]
        await appender.append(connection, commits, range(len(commits)), 8, 1.0)

    await append(0, 0)
    await append(0, 1)
    for first in range(500, 5000, 500):
        await append(first, 0)
    plans = await nested_plans(connection, lambda: append(0, 2))
    assert max(touched(node) for plan in plans for node in walk(plan["Plan"])) <= 500
    assert [scans(walk(plan["Plan"])) for plan in plans if scans(walk(plan["Plan"]))] == []
    await connection.close(timeout=5)
    await server.execute(f"DROP DATABASE {name}")
