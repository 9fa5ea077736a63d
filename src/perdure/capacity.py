"""How much one process takes on, unless its settings or its command say otherwise. The numbers stand here and nowhere else."""

CONCURRENCY = 100
"""How many tasks a worker executes at once."""
MAX_BACKLOG = 1_000_000
"""How many tasks may wait before new runs are refused."""
SANDBOX_MEMORY_MB = 512
"""The most memory of one Python condition."""
