"""The kinds of Kueue, as 0.19.2 serves them: records for the registry, rules from `fairway.model`.

What the objects mean and which of them are valid stands in `model`; here that is only joined to manifests.
"""

from fairway.kinds.kueue.records import KINDS

__all__ = ["KINDS"]
