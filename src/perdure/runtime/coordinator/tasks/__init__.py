"""Tasks: from a durable decision to an attempt that a worker can take, with its rendered config, in its limits and its turn."""
