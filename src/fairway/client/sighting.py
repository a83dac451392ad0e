"""A job at another server, as the one that handed it on sees it: what it is marked with, and what is known of it."""

from typing import Final, NamedTuple

from fairway.apis.machinery.kind import Manifest

ORIGIN_UID: Final = "fairway.dev/origin-uid"
"""Label of a job that another server handed on: the uid of the job there. Whoever follows asks for jobs with it."""

ORIGIN_NAMESPACE: Final = "fairway.dev/origin-namespace"
ORIGIN_NAME: Final = "fairway.dev/origin-name"
"""Annotations of such a job: where its original is."""


class Sighting(NamedTuple):
    """A job at another server, as last heard of."""

    known: bool
    """Whether that server has told of everything: only then is a job that is not there really not there."""

    job: Manifest | None = None
