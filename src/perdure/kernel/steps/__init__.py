"""Steps: what a handler asks for and is told while it is at work, and the calls it may make once (rules 77 to 87)."""
