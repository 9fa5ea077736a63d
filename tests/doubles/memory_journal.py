"""The journal in memory stands beside the simulator, which runs on it; tests know it under this name."""

from perdure.simulation.memory_journal import MemoryJournal
from perdure.simulation.store import Store

__all__ = ["MemoryJournal", "Store"]
