"""How much one process takes on, unless its settings or its command say otherwise. The numbers stand here and nowhere else."""

CONCURRENCY = 100
"""How many tasks a worker executes at once."""
PARTITIONS = 256
"""How many partitions a new database gets; fixed from then on (PROTOCOL 25)."""
MAX_BACKLOG = 1_000_000
"""How many tasks may wait before new runs are refused."""
MAX_NODES = 5_000
"""How large a definition may be that a server which is not open takes: its largest decision, about all nodes at once,
then takes about half of a tenth of a second, for which nothing else goes on (S05)."""
EDGES_PER_NODE = 8
"""How many edges take as long as a node."""
SANDBOX_MEMORY_MB = 512
"""The most memory of one Python condition."""
