"""What each kind of event does to the state when it is folded: one file for each part of a run."""
