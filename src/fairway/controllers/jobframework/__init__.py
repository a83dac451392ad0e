"""Jobs of every kind and their workloads: made, kept in step, started, stopped and declared finished.

One reconciler serves all kinds; what differs between them is in `jobs`. Pods and pod groups have a controller of their
own, because one workload there stands for many objects.
"""
