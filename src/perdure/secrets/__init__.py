"""Secrets and sensitive fields: where values come from, how they are kept out of everything that is stored."""
