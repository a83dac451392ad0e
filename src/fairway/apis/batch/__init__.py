"""The batch group: Job."""
