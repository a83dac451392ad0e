"""Where things are: the paths of the API that the command line asks for, without looking them up anywhere."""

from typing import Final
from urllib.parse import quote

from fairway.deploy.names import EXPLAIN_GROUP, EXPLAIN_VERSION

FAIRWAY: Final = "/apis/fairway.dev/v1alpha1"
EXPLAINING: Final = f"/apis/{EXPLAIN_GROUP}/{EXPLAIN_VERSION}"
"""On a cluster, what the controller answers by itself: an aggregated API."""


def jobs(namespace: str | None = None) -> str:
    """The ManagedJobs of a namespace; of all of them for `None`."""
    return _in(FAIRWAY, namespace, "managedjobs")


def job(namespace: str, name: str) -> str:
    return _in(FAIRWAY, namespace, "managedjobs", name)


def log(namespace: str, name: str) -> str:
    """What a job wrote, whether its pods are there or gone."""
    return _in(FAIRWAY, namespace, "managedjobs", name, "log")


def files(namespace: str, name: str) -> str:
    """What a job left in its working directory."""
    return _in(FAIRWAY, namespace, "managedjobs", name, "files")


def waiting(namespace: str | None = None, workload: str = "", *, cluster: bool = False) -> str:
    """Why Workloads wait; one of them in all detail if it is named. `cluster`: not on a server of ours."""
    return _in(EXPLAINING if cluster else FAIRWAY, namespace, "waitingjobs", workload)


def simulations(*, cluster: bool = False) -> str:
    """What-if runs on the live state. `cluster`: not on a server of ours."""
    return _in(EXPLAINING if cluster else FAIRWAY, None, "simulations")


def transactions(namespace: str) -> str:
    return _in(FAIRWAY, namespace, "transactions")


def archive(namespace: str, digest: str) -> str:
    """The files of a job, by the SHA-256 of the archive that they are packed in."""
    return _in(FAIRWAY, namespace, "archives", digest)


def user(name: str) -> str:
    """A user of the server."""
    return _in(FAIRWAY, None, "users", name)


def group(name: str) -> str:
    """A group of users."""
    return _in(FAIRWAY, None, "groups", name)


def resource(api_version: str, plural: str, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
    """Objects of any kind: one of them if it is named, all of them otherwise."""
    base = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return _in(base, namespace, plural, name, subresource)


def _in(base: str, namespace: str | None, *parts: str) -> str:
    within = () if namespace is None else ("namespaces", namespace)
    return "/".join((base, *(quote(part, safe="") for part in (*within, *parts) if part)))
