"""The coordination group: Lease."""
