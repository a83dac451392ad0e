"""What webhooks do on a cluster: jobs and pods that a queue decides about are held back, and wrong ones refused.

Asked in the middle of every write, so it reads only what is in the caches. What it says is decided in `jobs`.
"""
