"""What would happen: the real engine in virtual time, on the live state, on traces and on generated load.

Pure but for `worker` (a process of its own that answers on its standard output) and `live` (the caches of a server).
"""
