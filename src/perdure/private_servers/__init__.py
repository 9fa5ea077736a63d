"""Private servers: a PostgreSQL and a Valkey (or Redis) that belong to one process, on sockets that no other user may
open.

They serve `perdure dev --distributed` and the tests. This package knows programs, folders and signals; it knows nothing
of workflows.
"""

from perdure.private_servers.errors import ServerFailed
from perdure.private_servers.pair import PRIVATE, Pair, start_pair
from perdure.private_servers.postgres import Postgres, find_installations
from perdure.private_servers.valkey import Valkey, get_program

__all__ = ["PRIVATE", "Pair", "Postgres", "ServerFailed", "Valkey", "find_installations", "get_program", "start_pair"]
