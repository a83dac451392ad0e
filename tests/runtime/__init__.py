"""The asyncio kit: clock, work queue, hold, followed files."""
