"""What several controllers share: configuration, owners, eviction, readiness, free capacity of nodes.

Controllers are independent of each other; the kit imports none of them.
"""
