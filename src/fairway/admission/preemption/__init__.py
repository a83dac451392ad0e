"""The search for victims: the smallest set that the ClusterQueue's policies allow.

:mod:`~fairway.admission.preemption.classical` follows priorities and the place in the cohort tree,
:mod:`~fairway.admission.preemption.fair` follows shares. Both search on the live quota tree and leave it exactly as
they found it; evicting is not done here.
"""
