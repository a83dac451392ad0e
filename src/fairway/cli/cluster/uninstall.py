"""`fairway cluster uninstall`: what `install` created, removed."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.cluster.access import ClusterError, ClusterObjects, Manifest, cluster_options, described, open_cluster
from fairway.cli.cluster.install import created_objects, delete, seconds
from fairway.cli.session import confirmed, print_note, yes_option
from fairway.deploy.names import CONTROLLER, INSTALLER, MANAGED_BY, NAMESPACE, RUNTIME_OBJECTS
from fairway.managedjobs.states import LIVE, Phase

if TYPE_CHECKING:
    from fairway.cli.cluster.kueue import Registration

_FAIRWAY: Final = "fairway.dev/v1alpha1"
_EXTENSIONS: Final = "apiextensions.k8s.io/v1"
_CRD: Final = "CustomResourceDefinition"
_OWNED: Final = ("Pod", "Service", "ConfigMap")
_FIRST: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService", "Deployment")
"""Webhooks without a controller would refuse every write; a controller without rights could not release its Lease."""

_CONTENTS: Final = (
    ("v1", "Pod"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("v1", "PersistentVolumeClaim"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
)
_KUBERNETES: Final = frozenset({"kube-root-ca.crt"})


@click.command()
@cluster_options
@click.option("--delete-jobs", is_flag=True, help="Also delete all managed jobs and the definitions of their kinds.")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted; change nothing.")
@click.option(
    "--timeout", default="2m", show_default=True, metavar="TIME", callback=seconds, help="How long to wait: 90s, 5m."
)
@yes_option
def uninstall(*, kubeconfig: str, context: str, delete_jobs: bool, dry_run: bool, timeout: float, yes: bool) -> None:
    """Remove what `fairway cluster install` created, and nothing else.

    Managed jobs and the definitions of their kinds stay, so that an installation can be repeated without a loss: pods
    that run keep running, but are not recovered. --delete-jobs deletes them too, and stops their pods.

    If `doctor --fix` registered ManagedJobs in Kueue's configuration, that entry is removed and Kueue restarted first:
    Kueue reads ManagedJobs with a right that is removed here, and its webhook for pods would time out without it.

    \b
    Examples:
      fairway cluster uninstall --dry-run
      fairway cluster uninstall
      fairway cluster uninstall --delete-jobs -y
    """
    from fairway.cli.cluster.kueue import Registration  # noqa: PLC0415 - help must not wait for it

    with open_cluster(kubeconfig, context) as cluster:
        found = created_objects(cluster)
        _check_other_owner(cluster, found)
        registration = Registration(cluster)
        jobs = cluster.all(_FAIRWAY, "ManagedJob")
        living = [one for one in jobs if (one.get("status") or {}).get("phase", Phase.PENDING) in LIVE]
        if not dry_run:
            question = _question(cluster, jobs, living, delete_jobs=delete_jobs, restart=registration.exists)
            confirmed(question, yes=yes, required=True)
        run = _Removal(cluster, timeout, dry_run=dry_run)
        definitions = [one for one in found if one["kind"] == _CRD]
        rest = [one for one in found if one["kind"] != _CRD]
        if delete_jobs:
            run.jobs(jobs)
        if registration.exists:
            run.registration(registration)
        if delete_jobs:
            run.definitions(definitions)
        run.objects(sorted((one for one in rest if one["kind"] in _FIRST), key=lambda one: _FIRST.index(one["kind"])))
        run.controllers()
        run.objects(one for one in rest if one["kind"] not in _FIRST)
        if delete_jobs:
            run.history()
        run.end(stay=[] if delete_jobs else definitions, living=[] if delete_jobs else living)


def _check_other_owner(cluster: ClusterObjects, found: list[Manifest]) -> None:
    there = cluster.get("apps/v1", "Deployment", CONTROLLER, NAMESPACE)
    owner = ((there or {"metadata": {}})["metadata"].get("labels") or {}).get(MANAGED_BY, "")
    if there is not None and owner != INSTALLER:
        raise ClusterError(
            f"Deployment {NAMESPACE}/{CONTROLLER} was not created by `fairway cluster install` (managed by "
            f"{owner or 'an unknown tool'}); remove it with what created it, such as `helm uninstall fairway -n "
            f"{NAMESPACE}` or `kubectl delete -k`"
        )
    if not found:
        raise ClusterError(f"{cluster.name} has nothing that `fairway cluster install` created")


def _question(
    cluster: ClusterObjects, jobs: list[Manifest], living: list[Manifest], *, delete_jobs: bool, restart: bool
) -> str:
    said = [f"This removes Fairway from {cluster.name}."]
    if delete_jobs:
        said.append(f"It deletes {len(jobs)} managed jobs ({len(living)} not ended).")
    elif living:
        said.append(f"{len(living)} managed jobs have not ended: they stay, but nothing starts or recovers them.")
    if restart:
        said.append("ManagedJobs are removed from Kueue's configuration, and Kueue is restarted.")
    return " ".join([*said, "Proceed?"])


class _Removal:
    def __init__(self, cluster: ClusterObjects, timeout: float, *, dry_run: bool) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._dry_run = dry_run
        self._deleted = 0

    def jobs(self, jobs: list[Manifest]) -> None:
        """Delete all jobs while the controller still runs, which stops their pods and removes the finalizers."""
        for job in jobs:
            manifest = {"apiVersion": _FAIRWAY, "kind": "ManagedJob", **job}
            if not self._dry_run:
                delete(self._cluster, manifest)
            self._say(manifest)
        if not self._dry_run:
            self._until_gone("managed jobs", lambda: self._cluster.all(_FAIRWAY, "ManagedJob"))
            # Kubernetes deletes what belongs to them, and cannot once their definition is gone.
            self._until_gone("objects of managed jobs", self._owned)

    def _owned(self) -> list[Manifest]:
        from fairway.managedjobs.pods import JOB  # noqa: PLC0415 - help must not wait for it

        return [one for kind in _OWNED for one in self._cluster.all("v1", kind, labelSelector=JOB)]

    def registration(self, found: "Registration") -> None:
        """Make Kueue stop reading ManagedJobs, before it loses the right to."""
        if self._dry_run:
            click.echo("ManagedJobs would be removed from Kueue's configuration, and Kueue restarted (dry run)")
        else:
            found.remove(self._timeout)

    def definitions(self, manifests: list[Manifest]) -> None:
        """Delete them and all their objects while the controller still runs, which removes the finalizers of queues."""
        self.objects(manifests)
        names = {one["metadata"]["name"] for one in manifests}
        if not self._dry_run:
            self._until_gone(
                "definitions",
                lambda: [one for one in self._cluster.all(_EXTENSIONS, _CRD) if one["metadata"]["name"] in names],
            )

    def objects(self, manifests: Iterable[Manifest]) -> None:
        for manifest in manifests:
            if manifest["kind"] == "Namespace":
                continue  # last, and only if it holds nothing of others
            if not self._dry_run:
                delete(self._cluster, manifest)
            self._say(manifest)

    def controllers(self) -> None:
        """Wait for the end of the controllers, which need their rights until then."""
        if not self._dry_run:
            self._until_gone("pods of the controller", self._pods)

    def history(self) -> None:
        """Delete what is known of ended attempts, which the controllers write up to their end."""
        self.objects(self._history())

    def end(self, stay: list[Manifest], living: list[Manifest]) -> None:
        """The namespace, if it is ours and holds nothing else; and what to know."""
        self._runtime_objects()
        self._namespace(keeps_history=bool(stay))
        if self._dry_run:
            print_note("Dry run: nothing was changed.")
            return
        print_note(f"Fairway was removed from {self._cluster.name}: {self._deleted} objects deleted.")
        if stay:
            kept = f" and {len(living)} managed jobs that have not ended" if living else ""
            names = ", ".join(one["metadata"]["name"] for one in stay[:3]) + (" ..." if len(stay) > 3 else "")
            history = " and the history of attempts" if self._history() else ""
            print_note(f"Kept: the definitions {names}{kept}{history}; --delete-jobs deletes them as well.")

    def _pods(self) -> list[Manifest]:
        return self._cluster.all("v1", "Pod", NAMESPACE, labelSelector="app.kubernetes.io/name=fairway")

    def _history(self) -> list[Manifest]:
        from fairway.accounting.books import LABEL  # noqa: PLC0415 - help must not wait for it

        found = self._cluster.all("v1", "ConfigMap", NAMESPACE, labelSelector=LABEL)
        return [{"apiVersion": "v1", "kind": "ConfigMap", **one} for one in found]

    def _runtime_objects(self) -> None:
        """What the controller created for itself."""
        kinds = {
            "secrets": ("v1", "Secret"),
            "configmaps": ("v1", "ConfigMap"),
            "leases": ("coordination.k8s.io/v1", "Lease"),
        }
        for plural, names in RUNTIME_OBJECTS.items():
            for name in names:
                manifest = self._cluster.get(*kinds[plural], name, NAMESPACE)
                if manifest is not None:
                    if not self._dry_run:
                        delete(self._cluster, manifest)
                    self._say(manifest)

    def _namespace(self, *, keeps_history: bool) -> None:
        found = self._cluster.get("v1", "Namespace", NAMESPACE)
        if found is None or (found["metadata"].get("labels") or {}).get(MANAGED_BY) != INSTALLER:
            return
        others = [one for kind in _CONTENTS for one in self._foreign(*kind)]
        if others and not self._dry_run:
            named = ", ".join(described(one) for one in others[:3])
            print_note(f"The namespace {NAMESPACE} stays: it has objects that Fairway did not create ({named}).")
            return
        if keeps_history and self._history():
            return
        if not self._dry_run:
            delete(self._cluster, found)
        self._say(found)
        if not self._dry_run:
            self._until_gone(f"namespace {NAMESPACE}", lambda: [self._cluster.get("v1", "Namespace", NAMESPACE)])

    def _foreign(self, api_version: str, kind: str) -> Iterable[Manifest]:
        from fairway.accounting.books import LABEL  # noqa: PLC0415 - help must not wait for it

        for one in self._cluster.all(api_version, kind, NAMESPACE):
            labels = one["metadata"].get("labels") or {}
            ours = labels.get("app.kubernetes.io/name") == "fairway" or LABEL in labels
            if one["metadata"]["name"] not in _KUBERNETES and not ours:
                yield {"kind": kind, **one}

    def _until_gone(self, what: str, remaining: Any) -> None:
        ends, said = time.monotonic() + self._timeout, -1
        while left := [one for one in remaining() if one is not None]:
            if time.monotonic() > ends:
                kept = sorted({name for one in left for name in one["metadata"].get("finalizers") or ()})
                why = f" (finalizers {', '.join(kept)})" if kept else ""
                raise ClusterError(
                    f"{what} still there after {self._timeout:.0f}s, such as "
                    f"{left[0]['metadata']['name']}{why}; see `kubectl describe`, then run the command again"
                )
            if len(left) != said:
                print_note(f"  waiting: {what} to go ({len(left)} left)")
                said = len(left)
            time.sleep(0.5)

    def _say(self, manifest: Manifest) -> None:
        self._deleted += 1
        click.echo(f"{described(manifest)} {'would be deleted (dry run)' if self._dry_run else 'deleted'}")
