"""The scheduling group: PriorityClass."""
