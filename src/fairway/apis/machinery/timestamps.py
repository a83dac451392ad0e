"""Times as Kubernetes objects carry them."""

from datetime import UTC, datetime


def stamp(moment: datetime) -> str:
    """RFC 3339 in whole seconds, UTC: `2026-01-02T03:04:05Z`."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat(timespec='seconds')[:19]}Z"


def micro_stamp(moment: datetime) -> str:
    """The same with microseconds, as Leases and series of events carry them."""
    return f"{moment.astimezone(UTC).isoformat(timespec='microseconds')[:26]}Z"
