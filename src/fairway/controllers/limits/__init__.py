"""The admission check `fairway.dev/limits`: what a user may hold at once, and what an organization may use in a month.

Both are declared in QuotaDefinitions. A Workload that is over gets `Retry`: it gives its quota back at once and waits
outside the queue until its next try.
"""
