"""The part of a coordinator that triggers need: what is due, what was heard, and the runs it starts."""
