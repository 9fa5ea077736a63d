"""The coordinator: decides for runs, and carries everything between an arriving message and a published attempt."""
