"""Patches and ownership of fields, most of it replayed from what a real API server answered (`data/`)."""
