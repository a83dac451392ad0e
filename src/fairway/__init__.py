"""Fairway queues, prioritises, preempts and recovers batch and ML jobs for many teams."""

__version__ = "0.1.0"
