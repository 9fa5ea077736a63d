"""Triggers: what comes in for one, what becomes of it in its mailbox, and the runs that are started for it (rules 45 to 59)."""
