"""The root command and the list of all others. Nothing is imported here that `perdure --help` does not need."""

from __future__ import annotations

import click

from perdure.cli.frame.group import Root, color_option, debug_option

HELPS = {
    "init": "Write a small project to start from.",
    "run": "Run a workflow, here and now.",
    "dev": "Everything in one process: to try things out.",
    "serve": "Serve the API and decide for a share of the runs.",
    "worker": "Execute tasks of some queues.",
    "validate": "Check a workflow without running it.",
    "schema": "Print the JSON Schema of definitions, for editors.",
    "graph": "Draw a workflow, or how far a run of it is.",
    "simulate": "Put a workflow through crashes, duplicates and delays.",
    "runs": "Runs: look at them, and change their course.",
    "approvals": "Approvals: what waits for a person, and the answer.",
    "budgets": "Budgets: what a tenant or a workflow may use in a day or a month.",
    "cost": "Show what all runs have used: calls, tokens, dollars.",
    "dlq": "Dead letters: nodes parked after they failed.",
    "workflows": "Workflows: what is registered, in which versions, under which names.",
    "triggers": "Triggers: what starts runs by itself.",
    "schedules": "Schedules: the triggers that have moments.",
    "models": "Models: what workflows can name, their prices and keys.",
    "tools": "Tools that agents may find: the registry, MCP servers, pins.",
    "sessions": "Sessions of agents: what runs with the same key know.",
    "chat": "Talk with a workflow: each line is a run of it.",
    "mcp": "Workflows as tools of an MCP server, over stdio.",
    "llm-server": "A language model that follows a script, for tests and trials.",
    "events": "Events: say what has happened, to all that listen.",
    "doctor": "Check that everything the database says is true.",
    "migrate": "Bring the database to the schema this version needs.",
    "gc": "Forget runs that ended long ago, and large values nothing names.",
    "assets": "Assets: files that outlive the run they came from, in versions.",
    "blobs": "Blobs: large values, kept by the hash of their content.",
    "node-types": "Node types: what a workflow can be made of.",
    "secrets": "Secrets: which there are, and the keys of sensitive fields.",
    "keys": "API keys: who may use the server, and for what.",
    "audit": "The audit: who did what, and whether the trace is whole.",
    "config": "Settings: what they are and where they came from.",
    "completion": "Print what makes TAB complete in your shell.",
}
"""The help of each command in `perdure --help`, without importing it. A test compares these with the commands' own."""

COMMANDS = {
    "init": "perdure.cli.init:init",
    "run": "perdure.cli.run:run",
    "dev": "perdure.cli.dev:dev",
    "serve": "perdure.cli.serve:serve",
    "worker": "perdure.cli.worker:worker",
    "validate": "perdure.cli.validate:validate",
    "schema": "perdure.cli.schema:schema",
    "graph": "perdure.cli.graph:graph",
    "simulate": "perdure.cli.simulate:simulate",
    "runs": "perdure.cli.runs:runs",
    "approvals": "perdure.cli.approvals:approvals",
    "budgets": "perdure.cli.budgets:budgets",
    "cost": "perdure.cli.tenant_costs:cost",
    "dlq": "perdure.cli.dlq:dlq",
    "workflows": "perdure.cli.workflows:workflows",
    "triggers": "perdure.cli.triggers:triggers",
    "schedules": "perdure.cli.triggers:schedules",
    "models": "perdure.cli.models:models",
    "tools": "perdure.cli.tools:tools",
    "sessions": "perdure.cli.sessions:sessions",
    "chat": "perdure.cli.chat:chat",
    "mcp": "perdure.cli.mcp_server:mcp",
    "llm-server": "perdure.cli.llm_server:llm_server",
    "events": "perdure.cli.events:events",
    "doctor": "perdure.cli.doctor:doctor",
    "migrate": "perdure.cli.migrate:migrate",
    "gc": "perdure.cli.gc:gc",
    "assets": "perdure.cli.assets:assets",
    "blobs": "perdure.cli.blobs:blobs",
    "node-types": "perdure.cli.node_types:node_types",
    "secrets": "perdure.cli.secrets:secrets",
    "keys": "perdure.cli.keys:keys",
    "audit": "perdure.cli.audit:audit",
    "config": "perdure.cli.config:config",
    "completion": "perdure.cli.completion:completion",
}

SECTIONS = {
    "Write and check": ("init", "validate", "schema", "graph", "simulate"),
    "Run": ("run", "chat", "dev", "serve", "worker", "mcp", "llm-server"),
    "Look and act": (
        "runs",
        "approvals",
        "dlq",
        "workflows",
        "triggers",
        "schedules",
        "events",
        "cost",
        "budgets",
        "sessions",
    ),
    "Look after": (
        "doctor",
        "migrate",
        "gc",
        "assets",
        "blobs",
        "secrets",
        "keys",
        "audit",
        "config",
        "models",
        "tools",
        "node-types",
        "completion",
    ),
}
"""The sections of the list of commands. Each command is in one of them."""


@click.group(
    cls=Root,
    lazy=COMMANDS,
    helps=HELPS,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="perdure", prog_name="perdure", message="%(prog)s %(version)s")
@color_option
@debug_option
def app() -> None:
    """Perdure runs workflows that survive whatever dies in the middle.

    Describe a graph in YAML, JSON or Python, run it with `perdure run FILE`, and when the process is killed,
    run it again: it goes on from where it was.

    \b
    New here?   perdure init hello && cd hello
                perdure run order.yaml -i item=lamp -i quantity=2
    """
