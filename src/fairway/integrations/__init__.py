"""Job kinds as the queue sees them: their pods, how to start and stop them, whether they have finished.

Pure: manifests in, manifests or patches out. One module a kind, all of them listed in `frameworks`. Nothing here reads
a clock, talks to the API or knows who is admitted.
"""
