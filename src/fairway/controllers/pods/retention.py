"""How long jobs are kept that the queue itself deactivated."""

from datetime import datetime

from fairway.jobs import conditions
from fairway.kinds.kind import Manifest


def seconds_to_expiry(workload: Manifest, kept_seconds: float | None, now: datetime) -> float | None:
    """How long the job of an evicted workload is still kept, zero or less if it is not; `None` keeps it for ever."""
    evicted = conditions.find(workload, conditions.EVICTED)
    if kept_seconds is None or evicted is None or workload["spec"].get("active", True):
        return None
    if evicted["status"] != "True" or not evicted["reason"].startswith("DeactivatedDueTo"):
        return None
    since = datetime.fromisoformat(evicted["lastTransitionTime"])
    return kept_seconds - (now - since).total_seconds()
