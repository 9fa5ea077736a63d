"""One small icon for each node type: paths in a 16 by 16 field, drawn as lines."""

from __future__ import annotations

ICONS: dict[str, str] = {
    # a chevron and a line: a program
    "task": "M3 4l4 4-4 4M8.5 12.5H13",
    # a globe
    "http": "M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2M2.3 8h11.4M8 2c-4 3.6-4 8.4 0 12M8 2c4 3.6 4 8.4 0 12",
    # a person
    "human": "M8 8.200a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 1 0 0 5.400M2.8 13.800c.6-3.4 2.6-4.2 5.2-4.200s4.6.8 5.2 4.2",
    # a clock
    "wait": "M8 2.200a5.8 5.8 0 1 0 0 11.600A5.8 5.8 0 1 0 8 2.200M8 4.800V8l2.4 1.6",
    # braces
    "transform": "M6.2 2.800C4 2.8 5.2 8 3 8c2.2 0 1 5.2 3.2 5.200M9.8 2.800C12 2.8 10.8 8 13 8c-2.2 0-1 5.2-3.2 5.2",
    # a small graph
    "workflow": "M3 2.500h4v4H3zM9.5 9.500h4v4h-4zM5 6.500v5h4.5",
    # lines with their dots: a list
    "map": "M2.8 4h.1M2.8 8h.1M2.8 12h.1M6 4h7.500M6 8h7.500M6 12h7.5",
    # into a door, out of a door
    "input": "M2 8h7.500M6.5 5l3 3-3 3M9 2.500h4.500v11H9",
    "output": "M6 8h8M11 5l3 3-3 3M7 2.500H2.500v11H7",
    # a spark
    "llm": "M8 2l1.5 4.500L14 8l-4.5 1.500L8 14l-1.5-4.500L2 8l4.5-1.500z",
    # a spark with a smaller one
    "agent": "M6.5 4l1.2 3.300L11 8.5 7.7 9.7 6.5 13 5.3 9.7 2 8.500l3.3-1.200zM12 2.200v4M10 4.200h4",
    # a label
    "classifier": "M2.5 8.500V3h5.500l5.7 5.7-5.2 5.200zM5.4 5.900h.1",
    # a lens
    "search": "M7 2.500a4.5 4.5 0 1 0 0 9 4.5 4.5 0 1 0 0-9M10.3 10.300l3.5 3.5",
    # lightning
    "trigger": "M9 1.800L3.5 9H8l-1 5.200L12.5 7H8z",
    # arrows that pass each other
    "migration": "M2.5 5.500h10M9.5 2.500l3 3-3 3M13.5 11h-10M6.5 8l-3 3 3 3",
    # a queue of jobs
    "celery": "M2.5 3h11v3.500h-11zM2.5 9.500h11V13h-11z",
}
OTHER = "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6"
"""A cube, for third-party types."""
