"""Drift between QuotaDefinitions and the objects that were made of them: watched, and never changed from here.

`fairway quota apply` writes the objects; a change by hand shows in the condition `Synced` of the definition, in an
event and in the metric `fairway_quota_drift_objects`.
"""

from fairway.controllers.quota.controller import QuotaDrift

__all__ = ["QuotaDrift"]
