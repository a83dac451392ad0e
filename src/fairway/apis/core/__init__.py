"""The core group: pods, nodes, namespaces and their neighbours; `records.KINDS` lists the kinds.

The rules of pod specs (containers, volumes, placement, resources) are used by jobs as well. Nothing here looks at other
objects: references are resolved, nodes assigned and containers started elsewhere.
"""
