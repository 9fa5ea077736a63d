"""Triggers without the kernel: when a schedule is due, whether a delivery is genuine, what an item becomes."""
