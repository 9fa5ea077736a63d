"""Processes that run code which came with a workflow."""
