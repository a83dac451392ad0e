"""Admission decisions: queues, the quota tree, flavors, ordering, preemption, fair sharing, and reasons.

Events go in, instructions come out, through one door: :class:`fairway.admission.engine.Engine`. The same events
always give the same instructions, and a decision costs what changed, not what exists.

What belongs here is deciding. What must not be here: I/O, a clock, randomness, the environment, a logger, or
sentences for people outside :mod:`fairway.admission.wording`. Time arrives inside the events.
"""
