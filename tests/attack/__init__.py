"""Attacks that worked once, each kept as a test that was red. `make attack` runs them all, the long forms too, and prints a table.

A module is a class of attacks; a test names the finding it closes: `@attack("S07", "headers without a limit")`. Against real servers
and processes of this machine only.
"""
