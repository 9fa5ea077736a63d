"""Worlds with something besides workflows: triggers, schedules, topics, asks, budgets, waits. Each is a range of seeds."""
