"""Secrets and sensitive fields: where values come from, and how they are kept out of everything that is stored."""
