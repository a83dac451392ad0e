"""The life of a pod on one machine, as pure functions: its manifest and what became of its processes go in, what to
start, what to stop and what to say of it come out.

Nothing in here starts, writes, waits or asks for the time; the runner does all that with what comes out.
"""
