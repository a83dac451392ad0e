"""Kinds that are stored and not run."""
