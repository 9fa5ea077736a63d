"""Deterministic simulation of the real engine: virtual time, seeded chance, faults, and a checker."""
