"""Keeps the books: every attempt of every job is accounted once, whatever happens to its objects afterwards.

The controller follows the changes of Workloads and ManagedJobs from a version that is stored with the journal, so that
what happened while no controller ran is accounted too.
"""
