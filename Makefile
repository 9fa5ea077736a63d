# Everything a contributor types. Needs Python 3.11 to 3.14 with pip, and nothing else.

VENV := .venv
PY   := $(VENV)/bin/python
JOBS ?= 2
ARGS ?=
# Tests of processes and servers wait nearly as long as they work.
WORKERS ?= $(shell expr $(JOBS) + 1)

# Without compiled files, every process would rewrite the assertions of pytest's plugins anew: seconds each.
unexport PYTHONDONTWRITEBYTECODE

# A crashed worker ends the run: with loadgroup, xdist would wait for the tests that it still had.
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist loadgroup --max-worker-restart=0

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-agent ui ui-watch tools test budgets check stress sim trigger-kills chaos cluster fuzz api attack real-model agentdojo bfcl oracle accounting agent-kills bench peers pictures format lock clean
.NOTPARALLEL:

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

# Version managers leave names on the path that fail when run, so each candidate is tried, not looked up.
setup: ## make .venv from requirements/dev.lock, if it is not there yet (the others do this by themselves)
	@$(PY) scripts/setup.py --current 2>/dev/null && exit 0; \
	for python in $(if $(PYTHON),"$(PYTHON)",python3 python3.14 python3.13 python3.12 python3.11 python); do \
	  if "$$python" scripts/setup.py --usable >/dev/null 2>&1; then \
	    exec "$$python" scripts/setup.py; \
	  fi; \
	done; \
	echo "setup: no usable Python found: need 3.11, 3.12, 3.13 or 3.14 with the venv module and pip." >&2; \
	echo "setup: install one, or name it: make setup PYTHON=/path/to/python3.12" >&2; \
	exit 1

demo: setup ## see a workflow survive a crash
	@$(PY) examples/demo.py

demo-agent: setup ## see an agent on a real model of this machine survive a crash; fetches 127 MB once, needs no key
	@$(PY) examples/demo_agent.py

ui: setup ## build the web interface from ui/ into src/perdure/web/static, after checking it
	@$(PY) scripts/ui.py

ui-watch: setup ## build it anew whenever a file is saved; look at it with `perdure dev`
	@$(PY) scripts/ui.py --watch

# What cannot be fetched is said, and its tests say it again: everything else can be tested without it.
tools: setup
	@$(PY) scripts/ui.py --tools
	@$(PY) scripts/judges.py langgraph || true

test: tools ## every test
	@$(PYTEST) $(ARGS)

budgets: tools ## what pages of the web interface may cost, at full size and by the clock: 10,000 nodes, 1,000,000 runs; a quiet machine
	@PERDURE_TEST_LONG=1 $(PY) -m pytest -n 0 tests/web/test_budgets.py $(ARGS)

check: setup ## format, lint, types and the fast tests; before every commit
	@$(PY) -m ruff format --check --quiet . || { echo "check: run 'make format'" >&2; exit 1; }
	@$(PY) -m ruff check --quiet .
	@$(PY) -m mypy
	@$(PYTEST) -n $(JOBS) --dist loadfile --no-loadscope-reorder -q -m "not slow" --hypothesis-profile=fast --durations=3 --durations-min=1 $(ARGS)

stress: tools ## every test in random order beside simulated histories, ROUNDS=3 times; SEED=… has an order again
	@$(PY) -m tests.stress --jobs $(JOBS) --rounds $(or $(ROUNDS),3) $(if $(SEED),--seed $(SEED)) $(ARGS)

sim: setup ## SEEDS=100000 simulated histories from START on, or one: SEED=123; a failure prints how to repeat it
	@$(PY) -m perdure.simulation --jobs $(JOBS) $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),20000) --start $(or $(START),0)) $(ARGS)

trigger-kills: setup ## kill -9 of each process while 10,000 webhooks, 1,000 schedules and 1,000,000 rows come in; about 13 minutes
	@PERDURE_TEST_LONG=1 $(PY) -m pytest -n 0 -s --timeout 0 tests/chaos/test_triggers.py $(ARGS)

stream-kills: setup ## CHUNKS=1000000 through three stages while the process is killed every second: the sum is right
	@CHUNKS=$(or $(CHUNKS),1000000) $(PY) -m pytest -n 0 -s --timeout 0 tests/engine/test_stream_kills.py $(ARGS)

chaos: setup ## SECONDS=300 in which processes, servers and the network fail; SEED=123 repeats one, roughly
	@$(PY) -m tests.chaos --seconds $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED)) $(ARGS)

cluster: setup ## the Redis transport on a cluster of three servers: conformance and faults; minutes
	@$(PYTEST) --redis three -k "redis and not plain_python and not redis_7_knows and not others_fail_at_once" \
	  tests/conformance/transport tests/conformance/shared_transport tests/conformance/limits tests/conformance/streams \
	  $(patsubst %,tests/transports/redis/test_%.py,cluster cluster_faults checkpoints engine faults handover losses names scripts signing) $(ARGS)

fuzz: setup ## CASES=1000000 bad inputs; a failure prints how to repeat it
	@$(PY) -m tests.fuzz --cases $(or $(CASES),1000000) $(ARGS)

api: setup ## CASES=100000 requests made from the OpenAPI document, good and bad: no 5xx, nothing that is not as documented
	@$(PY) -m tests.api.schemathesis --cases $(or $(CASES),100000) $(ARGS)

attack: setup ## every attack that worked once or never did, on real servers of this machine, and a table of what came of each
	@$(PY) -m tests.attack -n $(JOBS) --dist loadgroup $(ARGS)

real-model: setup ## RUNS=200 of models, classifiers and agents on SmolLM2, a small real model: each ends as documented; fetches 127 MB once
	@$(PY) -m tests.real_model --runs $(or $(RUNS),200) $(ARGS)

accounting: setup ## CALLS=10000 of models through faults and retries: provider, events, ledger and service count the same; some 20 minutes
	@CALLS=$(or $(CALLS),10000) $(PY) -m pytest -n 0 -s --timeout 0 tests/llms/test_accounting.py $(ARGS)

agent-kills: setup ## KILLS=200 of the process in the middle of agents: nothing that was kept is repeated; some 15 minutes
	@KILLS=$(or $(KILLS),200) $(PY) -m pytest -n 0 -s --timeout 0 tests/agents/test_kills.py $(ARGS)

oracle: setup ## the libraries of OpenAI and Anthropic beside our codecs, for COUNT=200 generated requests and answers; fetches 90 MB once
	@$(PY) scripts/judges.py sdks && export PYTHONPATH=.judges/sdks:src:. && \
	  $(PY) -m perdure llm-server --script tests/llms/oracle.yaml --port 8792 $(PY) tests/llms/oracle.py 8792 && \
	  $(PY) -m tests.llms.sdks --count $(or $(COUNT),200) $(ARGS)

bfcl: setup ## BFCL's 2,501 questions: functions and calls through every wire format, and whether a search finds the functions; minutes
	@$(PY) -m tests.bfcl $(ARGS)

agentdojo: setup ## AgentDojo's 949 attacks on agents with a model that obeys all of them, in the real engine; fetches 100 MB once, minutes
	@$(PY) scripts/judges.py agentdojo && PYTHONPATH=.judges/agentdojo $(PY) -m tests.agentdojo $(ARGS)

bench: setup ## measure speed, say what became slower; JSON=1, KEEP=1; ARGS=scaling for cost against size, ="turns TREE" beside another checkout, =distributed, =http, =triggers, =streams, =agents
	@$(PY) -m bench $(if $(JSON),--json) $(if $(KEEP),--keep) $(ARGS)

peers: setup ## Perdure beside LangGraph, DBOS, Celery, Prefect, Temporal and Restate, by turns; QUICK=1 takes minutes
	@$(PY) -m bench.peers $(if $(QUICK),--quick) $(ARGS)

pictures: tools ## draw the pictures of the docs anew; look at them
	@$(PY) -m examples.pictures && $(PY) -m tests.web.portraits

format: setup ## format and mend what the linter can
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

# All but langgraph, which needs much and is fetched apart.
EXTRAS := postgres redis distributed mcp pydantic-ai dev-servers

lock: ## renew requirements/dev.lock from pyproject.toml (needs uv)
	@uv pip compile pyproject.toml $(EXTRAS:%=--extra %) --group dev --universal --python-version 3.11 --generate-hashes --upgrade \
	  --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements/dev.lock

clean: ## remove everything that was made here
	@rm -rf $(VENV) .judges .peers .model .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist ui/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
