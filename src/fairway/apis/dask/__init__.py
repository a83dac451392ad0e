"""The group `kubernetes.dask.org`."""
