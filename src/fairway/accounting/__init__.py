"""Accounting: what every attempt of every job held, for how long, and what came of it.

Pure: attempts are derived from stored objects (`attempts`), counted once (`ledger`), summed up by hour, day and month
(`rollups`), kept as lines and files of a bounded size (`journal`), and asked for (`reports`).
"""
