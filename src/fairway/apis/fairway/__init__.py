"""Fairway's own group: ManagedJob, and teams, which are made of other kinds."""
