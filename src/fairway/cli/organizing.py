"""`--org` and `--type` of a launch: the namespace of the user's team, from the quota definitions that were applied."""

from collections.abc import Sequence
from typing import Any, Final

import click

from fairway.apis.fairway.quotas import Organization, TeamQuota, parse
from fairway.cli.session import Session
from fairway.client.rest import paths
from fairway.errors import FairwayError, Forbidden, NotFound

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class OrganizationError(FairwayError):
    """No team, or several, that a job could be launched in."""


def team_namespace(session: Session, org: str, job_type: str, *, chosen: bool) -> str:
    """The namespace to launch in: the session's if it was `chosen` or is a team's, else that of the only team in which
    the user may launch jobs."""
    teams = _teams(session)
    known = sorted({organization.name for organization, _ in teams})
    if org and org not in known:
        raise OrganizationError(f"--org {org}: no such organization; there is {', '.join(known) or 'none'}")
    mine = [one for one in teams if not org or one[0].name == org]
    here = [one for one in mine if session.namespace in one[1].namespaces]
    if chosen and not here:
        where = f"organization {org}" if org else "any organization"
        raise OrganizationError(f"namespace {session.namespace} is not a team's of {where}; leave --namespace out")
    found = here or [one for one in mine if _may_launch(session, one[1].namespace)]
    if len(found) != 1:
        names = ", ".join(f"{team.name} (--namespace {team.namespace})" for _, team in found)
        many = f"you may launch jobs in several teams, choose one with --namespace: {names}"
        raise OrganizationError(many if found else _none(org, mine))
    ((organization, team),) = found
    for one in team.types:
        if one.name == (job_type or one.name):
            return one.namespace if job_type else team.namespace
    names = ", ".join(one.name for one in team.types) or "none"
    raise OrganizationError(f"--type {job_type}: team {team.name} of {organization.name} has the job types {names}")


def _none(org: str, teams: Sequence[Any]) -> str:
    if not teams:
        return (
            f"organization {org} has no teams" if org else "no quota definition was applied: fairway quota apply FILE"
        )
    whose = f"organization {org}" if org else "an organization"
    return f"you may not launch jobs in any team of {whose}; an administrator gives you a role in its definition"


def _teams(session: Session) -> list[tuple[Organization, TeamQuota]]:
    try:
        found = session.rest.get(f"{paths.FAIRWAY}/quotadefinitions")["items"]
    except (NotFound, Forbidden) as error:
        raise OrganizationError(
            f"--org and --type need the quota definitions of the server ({error}); give --namespace and --queue instead"
        ) from error
    return [one for manifest in found for one in parse(manifest.get("spec") or {})[0].teams]


def _may_launch(session: Session, namespace: str) -> bool:
    asked = {"namespace": namespace, "group": "fairway.dev", "resource": "managedjobs", "verb": "create"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    return bool(session.rest.create(_REVIEWS, review)["status"]["allowed"])


def queue_of(queue: str, job_type: str) -> str:
    """The LocalQueue that `--queue` or `--type` names."""
    if queue and job_type:
        raise click.UsageError("--type names the LocalQueue of the team: give --type or --queue, not both")
    return queue or job_type
