"""Admission plugins of the queue: completing and refusing what is written, by what the caches know.

Called by the store in process, or served to a Kubernetes API server (`server/admissionreview.py`).
"""
