"""The loops around the kernel, one duty per file: coordinator, worker, timekeeper, reclaimer and others."""
