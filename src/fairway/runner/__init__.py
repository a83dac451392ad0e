"""This machine as a node: it registers itself, and runs the pods that are bound to it as processes.

The only package that starts processes. It speaks the API and knows pods, never queues: who may run was decided before.
`supervising/` is the small process that outlives the server and holds the jobs' processes; everything else runs in the
server and can be restarted at any time.
"""
