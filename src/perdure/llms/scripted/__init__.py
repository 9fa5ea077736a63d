"""A language model that says what a script tells it to, over real HTTP in the vendors' wire formats, and misbehaves when
the script says so. For tests, and for users without a key."""
