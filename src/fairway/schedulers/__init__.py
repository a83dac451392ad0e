"""Scheduler plugins: what a job must carry so that Kueue, YuniKorn or Fairway queues it, written into its manifest.

Pure: a manifest, a configuration and the identity of its author go in, a completed manifest comes out. A scheduler is
one module with a `SchedulerPlugin`; a package can bring one by an entry point of the group `fairway.schedulers`
(`fairway.entrypoints`).
"""
