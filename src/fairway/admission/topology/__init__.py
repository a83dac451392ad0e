"""Topology-aware scheduling: where the pods of a workload go, so that they are near each other.

:mod:`tree` has a flavor's nodes as a tree of domains; :mod:`counting` finds how many pods fit into each domain, from
the leaves up; :mod:`placing` chooses domains at the requested level and goes down to the leaves, with :mod:`balanced`
as an alternative; :mod:`replacing` moves pods off a failed node; :mod:`capacity` keeps what is in use; and
:mod:`assigning` asks all of this for the pod sets of a workload.
"""
