"""Workflows as people and programs have them: definitions, their versions, and how each of them does."""
