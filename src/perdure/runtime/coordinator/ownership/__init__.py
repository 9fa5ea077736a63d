"""Ownership: which runs this process decides for, how that changes, and how a request reaches the process that does."""
