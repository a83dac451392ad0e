"""The life of a managed job: task files, candidates, pods of an attempt, states, recovery, aging.

Pure: what is decided here is decided from what is passed in. No I/O, no clock, no environment; who watches, writes and
starts things is in `controllers/managedjob` and `cli`.
"""
