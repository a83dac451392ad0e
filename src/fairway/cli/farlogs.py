"""Logs of jobs that were sent to another server or cluster (`infra: k8s/CONTEXT`), read there.

With the kubeconfig of the user, as kubectl would: the server here does not hand on what it may read elsewhere.
"""

from typing import NamedTuple

from fairway.cli.choosing import Manifest
from fairway.cli.clusterlogs import cluster_log
from fairway.cli.joblogs import LogSource, TaskAttempt, attempt_of, server_log
from fairway.cli.servers import standard_kubeconfig
from fairway.cli.session import MARK, print_note
from fairway.client.rest import Rest, open_rest, paths
from fairway.errors import FairwayError


class FarLog(NamedTuple):
    """The job that does the work, and its attempt."""

    rest: Rest
    job: Manifest
    part: TaskAttempt
    source: LogSource


def find_far_log(job: Manifest, part: TaskAttempt) -> FarLog | None:
    """Nothing if the job has left that place, or the user cannot read it there; the reason is printed."""
    status, infra = job.get("status") or {}, attempt_of(job, part)["infra"]
    remote = status.get("remote") or {}
    if infra != status.get("infra") or not remote.get("name"):
        return None
    try:
        rest = open_rest(standard_kubeconfig(), infra)
        there: Manifest = rest.get(paths.job(rest.namespace, remote["name"]))
        ours = MARK in str(rest.get("/version").get("gitVersion", ""))
    except FairwayError as error:
        print_note(f"The log is on {infra}, where it cannot be read: {error}")
        return None
    attempt = TaskAttempt(0, part.attempt - int(remote.get("attempt") or 0))
    return FarLog(rest, there, attempt, server_log if ours else cluster_log)
