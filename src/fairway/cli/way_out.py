"""What to do about an error of a server that is not this machine's: which server it is, and who can mend it."""

import re
from typing import TYPE_CHECKING, Final

from fairway.client.rest import KubeconfigError, Unreachable, paths
from fairway.errors import ApiError, FairwayError, Forbidden, NotFound, Unauthorized

if TYPE_CHECKING:
    from fairway.cli.session import Session

KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_FORBIDDEN: Final = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_ROLE: Final = "edit"
"""Kubernetes' own ClusterRole for users; `fairway cluster install` adds ManagedJobs to it."""

_OF_USERS: Final = ("fairway.dev", "explain.fairway.dev")
_OF_LAUNCHES: Final = (("create", "configmaps"), ("create", "secrets"))
"""What a launch with files stores before the job: the right to it alone does not help."""


class MissingAPI(FairwayError):
    """The server lacks an API that the command needs."""


def way_out(session: "Session", error: FairwayError) -> str:
    """A sentence or two after the error; empty if the error says it all.

    `MissingAPI` instead of a 404 that names nothing but a path.
    """
    if isinstance(error, KubeconfigError):
        missing = "there is no program" in str(error)
        return "The kubeconfig runs it to log in: install it, or choose another context." if missing else ""
    if isinstance(error, Unreachable):
        return _unreachable(session, str(error))
    if isinstance(error, Unauthorized):
        return (
            f"{session.place} does not accept the credentials of user {session.rest.user!r} of the kubeconfig: they "
            "are wrong or have expired. Log in again, and compare with `kubectl --context "
            f"{session.rest.context} auth whoami`."
        )
    if isinstance(error, Forbidden):
        return _forbidden(session, str(error)) if session.is_cluster else ""
    if is_unanswered(error):
        return f"The webhook of {session.place} does not answer: `fairway cluster doctor{_context(session)}`."
    if isinstance(error, NotFound) and is_unserved(error):
        missing_api = _unserved(session)
        if missing_api:
            raise MissingAPI(missing_api) from error
    return ""


def is_unanswered(error: FairwayError) -> bool:
    """Whether a write failed because a webhook did not answer; nothing was written then."""
    return isinstance(error, ApiError) and "failed calling webhook" in str(error)


def is_unserved(error: NotFound) -> bool:
    """Whether a 404 is about a kind that the server does not serve, rather than about an object."""
    return "could not find the requested resource" in str(error) or "404 page not found" in str(error)


def no_fairway(session: "Session") -> str:
    return (
        f"{session.place} has no Fairway: an administrator installs it with `fairway cluster install"
        f"{_context(session)}`; `fairway use --here` uses the server of this machine."
    )


def _context(session: "Session") -> str:
    return f" --context {session.rest.context}"


def _unserved(session: "Session") -> str:
    for path, sentence in (
        (paths.FAIRWAY, no_fairway(session)),
        (KUEUE, f"{session.place} has no Kueue API: `fairway cluster doctor{_context(session)}` says what is missing."),
    ):
        try:
            session.rest.get(path)
        except NotFound:
            return sentence
        except FairwayError:
            return ""
    return ""


def _unreachable(session: "Session", message: str) -> str:
    if "certificate has expired" in message or "certificate is not yet valid" in message:
        return (
            f"The certificate of {session.place} is not valid at this time: check the clock of this machine, or have "
            "the cluster's certificates renewed."
        )
    if "untrusted certificate" in message:
        return (
            f"certificate-authority of {session.place} is not the one that signed it: get a new kubeconfig from the "
            "administrator of the cluster."
        )
    if "certificate" in message and "alert" in message:
        return (
            f"{session.place} refuses the client certificate of user {session.rest.user!r}: it has expired or is of "
            "another cluster. Log in again, or get a new kubeconfig."
        )
    return (
        f"This is {session.place}: is the address right, and is the network up? "
        "`fairway use --here` uses the server of this machine."
    )


def _forbidden(session: "Session", message: str) -> str:
    found = _FORBIDDEN.search(message)
    if found is None:
        return ""
    user, verb, resource, group, namespace = found.group("user", "verb", "resource", "group", "namespace")
    what = f"{resource}.{group}" if group else resource
    where = f" -n {namespace}" if namespace else ""
    subject = _subject(user)
    said = (
        f"On {session.place}, user {user} lacks the right to {verb} {what}"
        f"{f' in namespace {namespace}' if namespace else ' in the whole cluster'}. An administrator grants it:\n"
    )
    launches = group in _OF_USERS or (verb, resource) in _OF_LAUNCHES
    if launches and namespace:
        return f"{said}  kubectl create rolebinding fairway-users --clusterrole={_ROLE} {subject}{where}"
    kind = "role" if namespace else "clusterrole"
    name = f"fairway-{verb}-{resource.replace('/', '-')}"
    return (
        f"{said}  kubectl create {kind} {name} --verb={verb} --resource={what}{where}\n"
        f"  kubectl create {kind}binding {name} --{kind}={name} {subject}{where}"
    )


def _subject(user: str) -> str:
    """The user as `kubectl create rolebinding` names it."""
    prefix, _, account = user.partition("system:serviceaccount:")
    return f"--serviceaccount={account}" if not prefix and account else f"--user={user}"
