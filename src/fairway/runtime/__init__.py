"""The domain-free asyncio kit: clock, work queue with back-off, broadcaster, lease, followed files."""
