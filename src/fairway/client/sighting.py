"""A job at another server, as the one that handed it on sees it: what it is marked with, and what is known of it."""

from typing import Final, NamedTuple

from fairway.apis.machinery.kind import Manifest

ORIGIN_UID: Final = "fairway.dev/origin-uid"
"""Label of a job from another server, with the uid of the job there; the other server selects its jobs by it."""

ORIGIN_NAMESPACE: Final = "fairway.dev/origin-namespace"
ORIGIN_NAME: Final = "fairway.dev/origin-name"
"""Annotations of such a job: where its original is."""


class Sighting(NamedTuple):
    """The last known state of a job on another server."""

    known: bool
    """Whether that server has told of everything: only then is a job that is not there really not there."""

    job: Manifest | None = None
