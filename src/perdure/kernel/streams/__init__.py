"""Streams between nodes: who reads whose, when one opens, and what breaks it off (rules 61 to 73)."""
