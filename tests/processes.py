"""Child processes of tests: none outlives the test run, however that ends."""

from perdure.private_servers.launcher import die_with_parent

__all__ = ["die_with_parent"]
