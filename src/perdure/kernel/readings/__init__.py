"""What is read of a run: how it stands, why a node waits, what a change would do. Nothing here changes a state."""
