"""What the queue needs to know of each job kind: its pods, how to start it, how to stop it, whether it is done.

Pure: manifests in, manifests or patches out. One module a kind, all of them listed in `frameworks`. Nothing here reads
a clock, talks to the API or knows who is admitted.
"""
