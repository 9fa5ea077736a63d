"""What every command stands on: how it is found, where it works, what it is given, and how it ends."""
