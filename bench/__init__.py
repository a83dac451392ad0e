"""Benchmarks: what things cost, and whether the goals are met.

Run all with ``make bench``; timed tests do not belong here.
"""
