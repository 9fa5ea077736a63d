"""The coordinator's room: what is decided for runs, and everything between a message that arrives and an attempt that is published."""
