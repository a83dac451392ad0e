"""The cluster that `fairway cluster` works on, and its objects by kind."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from fairway.cli.options import with_options
from fairway.cli.resources import APIResources, NoSuchKindError, discover
from fairway.cli.session import print_note
from fairway.cli.way_out import is_unanswered
from fairway.client.rest import Rest, open_rest
from fairway.deploy.names import INSTALLER
from fairway.errors import ApiError, FairwayError, Forbidden, NotFound

Command = TypeVar("Command", bound=Callable[..., Any])
Manifest = dict[str, Any]

_DEFAULT: Final = "~/.kube/config"
_PATIENCE: Final = 120.0
_PAUSE: Final = 1.0
_ADMINISTRATOR: Final = "use an account with the ClusterRole cluster-admin, or ask an administrator to run this command"


class ClusterError(FairwayError):
    """A step that failed: the object, what the API server said, and what to do."""


def cluster_options(command: Command) -> Command:
    """`--kubeconfig --context`, as kubectl has them."""
    options = [
        click.option(
            "--kubeconfig",
            envvar="KUBECONFIG",
            default=_DEFAULT,
            metavar="FILE",
            help=f"Kubeconfig of the cluster.  [default: $KUBECONFIG, else {_DEFAULT}]",
        ),
        click.option(
            "--context", default="", metavar="NAME", help="Context of the kubeconfig.  [default: the current one]"
        ),
    ]
    return with_options(command, options)


class ClusterObjects:
    """Reads and writes of any kind on one cluster; errors name the object."""

    def __init__(self, rest: Rest) -> None:
        self.rest = rest
        self._kinds: APIResources | None = None

    @property
    def name(self) -> str:
        """The cluster, for people."""
        return f"{self.rest.server} (context {self.rest.context})"

    def rediscover(self) -> None:
        """Forget which kinds there are, after definitions were created."""
        self._kinds = None

    @property
    def kinds(self) -> APIResources:
        if self._kinds is None:
            self._kinds = discover(self.rest)
        return self._kinds

    def has(self, api_version: str, kind: str) -> bool:
        """Whether the cluster serves a kind."""
        try:
            self.kinds.of(api_version, kind)
        except NoSuchKindError:
            return False
        return True

    def path(self, manifest: Mapping[str, Any]) -> str:
        metadata = manifest["metadata"]
        resource = self.kinds.of(manifest["apiVersion"], manifest["kind"])
        return resource.path(metadata.get("namespace"), metadata["name"])

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Manifest | None:
        """An object, or nothing if it or its kind is absent."""
        try:
            found: Manifest = self.rest.get(self.kinds.of(api_version, kind).path(namespace, name))
        except (NotFound, NoSuchKindError):
            return None
        return found

    def all(self, api_version: str, kind: str, namespace: str | None = None, **query: Any) -> list[Manifest]:
        """All objects of a kind, in pages; none if the kind is absent."""
        try:
            path = self.kinds.of(api_version, kind).path(namespace)
        except NoSuchKindError:
            return []
        found: list[Manifest] = []
        following: str | None = None
        while True:
            page = self.rest.get(path, limit=500, continue_=following, **query)
            found += page["items"]
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return found

    def apply(self, manifest: Manifest, *, force: bool = False, dry_run: bool = False) -> Manifest:
        """Apply an object; repeated for two minutes while a webhook does not answer, such as that of a Kueue that
        starts again. Nothing was written then."""
        path, ends, said = self.path(manifest), time.monotonic() + _PATIENCE, ""
        while True:
            try:
                found: Manifest = self.rest.apply(
                    path, manifest, manager=INSTALLER, force=force, dryRun="All" if dry_run else None
                )
            except ApiError as error:
                if not is_unanswered(error) or time.monotonic() > ends:
                    raise
                if str(error) != said:
                    print_note(f"  waiting: {error}")
                    said = str(error)
                time.sleep(_PAUSE)
            else:
                return found

    def labelled(self, selector: str, kinds: Iterable[tuple[str, str]]) -> Iterator[Manifest]:
        """All objects with a label, of these kinds (API version and kind)."""
        for api_version, kind in kinds:
            for found in self.all(api_version, kind, labelSelector=selector):
                yield {"apiVersion": api_version, "kind": kind, **found}


@contextmanager
def open_cluster(kubeconfig: str, context: str) -> Iterator[ClusterObjects]:
    """Connect, and refuse a server of Fairway's own: everything is built in there."""
    with open_rest(kubeconfig, context) as rest:
        version = rest.get("/version")
        if "fairway" in str(version.get("gitVersion", "")):
            raise ClusterError(
                f"{rest.server} is a Fairway server of one machine, where everything is built in; choose a Kubernetes "
                "cluster with --context or --kubeconfig"
            )
        try:
            yield ClusterObjects(rest)
        except Forbidden as error:
            raise ClusterError(f"{error}; {_ADMINISTRATOR}") from error


def described(manifest: Mapping[str, Any]) -> str:
    """An object in a sentence: `Deployment fairway-system/fairway-controller`."""
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace")
    return f"{manifest['kind']} {f'{namespace}/' if namespace else ''}{metadata['name']}"


def failure(what: str, manifest: Mapping[str, Any], error: ApiError) -> ClusterError:
    """An error that names the step and the object."""
    if isinstance(error, Forbidden):
        way_out = _ADMINISTRATOR
    else:
        way_out = "correct this and run the command again; what was applied before stays and is not harmed"
    return ClusterError(f"cannot {what} {described(manifest)}: {error}; {way_out}")
