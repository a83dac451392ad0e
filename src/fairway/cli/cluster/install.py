"""`fairway cluster install`: the objects of an installation applied to a cluster."""

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.cluster.access import (
    ClusterError,
    ClusterObjects,
    Manifest,
    cluster_options,
    described,
    failure,
    open_cluster,
)
from fairway.cli.session import print_note
from fairway.deploy.names import (
    CONTROLLER,
    INSTALLER,
    KUEUE_ROLE,
    MANAGED_BY,
    NAME,
    NAME_LABEL,
    NAMESPACE,
    WAYS,
    Way,
    installed_way,
)
from fairway.errors import ApiError, Conflict, NotFound

if TYPE_CHECKING:
    from fairway.deploy.manifests import Installation

WORKLOADS: Final = "workloads.kueue.x-k8s.io"
CRD: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_REPLICAS: Final = 2
_BOOKS: Final = frozenset({"managedFields", "resourceVersion", "generation"})
_DURATION: Final = re.compile(r"([0-9]{1,5})(s|m)")


def seconds(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    """An option such as `90s` or `5m`."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration; write a number and s or m, such as 90s or 5m")
    return float(found[1]) * (60 if found[2] == "m" else 1)


@click.command()
@cluster_options
@click.option(
    "--admission",
    type=click.Choice(["auto", *WAYS]),
    help="What admits jobs: the cluster's Kueue, Fairway itself, or the scheduler alone. auto: kueue while Kueue is "
    "installed, fairway if Fairway's definitions of Kueue's kinds are, else none.  [default: as installed, else auto]",
)
@click.option("--image", metavar="IMAGE", help="Image of the controller.  [default: fairway:VERSION]")
@click.option(
    "--replicas", type=click.IntRange(1, 9), help="Replicas of the controller.  [default: as installed, else 2]"
)
@click.option("--force-conflicts", is_flag=True, help="Take ownership of fields that other field managers set.")
@click.option("--dry-run", is_flag=True, help="Let the API server validate all objects; change nothing.")
@click.option("--output", "-o", type=click.Choice(["text", "yaml"]), default="text", help="Print the objects as YAML.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the controller leads and its webhooks answer.")
@click.option(
    "--timeout", default="3m", show_default=True, metavar="TIME", callback=seconds, help="How long to wait: 90s, 5m."
)
def install(
    *, kubeconfig: str, context: str, admission: str | None, output: str, timeout: float, **options: Any
) -> None:
    """Install Fairway on a cluster, or upgrade it.

    Applies the definition of ManagedJob (and of Kueue's kinds with --admission=fairway), the namespace fairway-system
    with the controller and its permissions, roles for users, webhooks and API services; then waits until a controller
    leads and its webhooks answer. Running it again changes only what differs. Jobs keep running during an upgrade.

    \b
    Examples:
      fairway cluster install --image registry.example.com/fairway:0.1.0
      fairway cluster install --context prod --admission kueue --replicas 3
      fairway cluster install --dry-run
      fairway cluster install --admission kueue --dry-run -o yaml
    """
    image, dry_run = options["image"], options["dry_run"]
    if output == "yaml":
        if not dry_run:
            raise click.UsageError("-o yaml prints the objects instead of applying them: add --dry-run")
        if admission in {None, "auto"}:
            raise click.UsageError("-o yaml asks no cluster: add --admission kueue, fairway or none")
        click.echo(_as_yaml(admission, image, options["replicas"] or _REPLICAS))
        return
    with open_cluster(kubeconfig, context) as cluster:
        before = _installed(cluster)
        admission = admission or (admission_option(before) if before else "auto")
        replicas = options["replicas"] or (before["spec"].get("replicas") if before else None) or _REPLICAS
        way = chosen_way(cluster, admission)
        print_note(f"Installing on {cluster.name}, admission {way} ...")
        installation = chosen(way, image, replicas, follow=admission == "auto")
        run = _Run(cluster, installation, force=options["force_conflicts"], dry_run=dry_run)
        run.apply()
        run.prune()
        if dry_run:
            print_note("Dry run: nothing was changed.")
            return
        if not options["no_wait"]:
            from fairway.cli.cluster.waiting import until_working  # noqa: PLC0415 - help must not wait for it

            until_working(cluster, installation, timeout)
        print_note(run.summary(waited=not options["no_wait"]))


def admission_option(deployment: Manifest) -> str:
    """The option `--admission` of an installed controller."""
    arguments = deployment["spec"]["template"]["spec"]["containers"][0].get("args") or ()
    return next((one.partition("=")[2] for one in arguments if one.startswith("--admission=")), "auto")


def chosen_way(cluster: ClusterObjects, admission: str) -> Way:
    """The way of admission, found out where it is not given; an error if the cluster cannot have it."""
    installed = installed_way(cluster.get(*CRD, WORKLOADS))
    if admission == "auto":
        return installed
    if admission == "kueue" and installed != "kueue":
        raise ClusterError(
            f"--admission=kueue: {cluster.name} has no Kueue (no CustomResourceDefinition {WORKLOADS} of its own); "
            "install Kueue first, or use --admission=fairway"
        )
    if admission == "fairway" and installed == "kueue":
        raise ClusterError(
            f"--admission=fairway: {cluster.name} has Kueue's own CustomResourceDefinition {WORKLOADS}, and two "
            "systems must not admit the same workloads; use --admission=kueue, or uninstall Kueue first"
        )
    return next(way for way in WAYS if way == admission)


def chosen(way: str, image: str | None, replicas: int, *, follow: bool = False) -> "Installation":
    """What the options ask for. With `follow`, the controller changes its way when Kueue is installed or removed."""
    from fairway import __version__  # noqa: PLC0415 - help must not wait for it
    from fairway.deploy.manifests import Installation  # noqa: PLC0415

    follow = follow and way != "fairway"  # whose definitions only this command installs
    return Installation(
        way="kueue" if follow else next(one for one in WAYS if one == way),
        admission="auto" if follow else way,
        image=image or f"fairway:{__version__}",
        version=__version__,
        replicas=replicas,
        managed_by=INSTALLER,
    )


def _as_yaml(way: str, image: str | None, replicas: int) -> str:
    import yaml  # noqa: PLC0415 - help must not wait for it

    from fairway.installing import installation_objects  # noqa: PLC0415

    objects = installation_objects(chosen(way, image, replicas))
    return str(yaml.dump_all(objects, Dumper=yaml.CSafeDumper, sort_keys=False, width=120)).rstrip()


def _installed(cluster: ClusterObjects) -> Manifest | None:
    """The Deployment of an installation by this command; an error if something else installed it."""
    found = cluster.get("apps/v1", "Deployment", CONTROLLER, NAMESPACE)
    owner = ((found or {"metadata": {}})["metadata"].get("labels") or {}).get(MANAGED_BY, INSTALLER)
    if owner != INSTALLER:
        raise ClusterError(
            f"Deployment {NAMESPACE}/{CONTROLLER} is managed by {owner}; upgrade it with that, such as `helm upgrade`, "
            f"or remove it first, such as by `helm uninstall fairway -n {NAMESPACE}`"
        )
    return found


class _Run:
    """One installation."""

    def __init__(self, cluster: ClusterObjects, installation: "Installation", *, force: bool, dry_run: bool) -> None:
        from fairway.installing import installation_objects  # noqa: PLC0415 - help must not wait for it

        self._cluster = cluster
        self._force = force
        self._dry_run = dry_run
        self._way = installation.way
        self._admission = installation.admission
        self._objects = installation_objects(
            installation, monitoring=cluster.has("monitoring.coreos.com/v1", "ServiceMonitor")
        )
        self._counts = {"created": 0, "configured": 0, "unchanged": 0, "deleted": 0}

    def apply(self) -> None:
        for number, manifest in enumerate(self._objects):
            self._say(manifest, self._applied(manifest))
            following = self._objects[number + 1] if number + 1 < len(self._objects) else None
            if manifest["kind"] == CRD[1] and (following is None or following["kind"] != CRD[1]):
                self._cluster.rediscover()

    def _applied(self, manifest: Manifest) -> str:
        try:
            path = self._cluster.path(manifest)
            try:
                before = self._cluster.rest.get(path)
            except NotFound:
                before = None
            if self._dry_run and before is None and self._awaits_namespace(manifest):
                return "created"
            if before is not None and not self._dry_run and _drops_webhooks(before, manifest):
                delete(self._cluster, manifest)
            after = self._cluster.apply(manifest, force=self._force, dry_run=self._dry_run)
        except Conflict as error:
            raise ClusterError(
                f"cannot apply {described(manifest)}: {error}; --force-conflicts takes these fields over"
            ) from error
        except ApiError as error:
            raise failure("apply", manifest, error) from error
        if before is None:
            return "created"
        return "configured" if _content(after) != _content(before) else "unchanged"

    def _awaits_namespace(self, manifest: Manifest) -> bool:
        """Whether a dry run cannot ask about an object because its namespace does not exist yet."""
        namespace = manifest["metadata"].get("namespace")
        return namespace is not None and self._cluster.get("v1", "Namespace", namespace) is None

    def prune(self) -> None:
        """Delete what an earlier installation created and this one does not have, except definitions."""
        wanted = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in self._objects}
        for found in created_objects(self._cluster):
            metadata = found["metadata"]
            if found["kind"] == CRD[1] or (found["kind"], metadata.get("namespace"), metadata["name"]) in wanted:
                continue
            if metadata["name"] == KUEUE_ROLE and self._kueue_reads:
                continue
            if not self._dry_run:
                delete(self._cluster, found)
            self._say(found, "deleted")

    @cached_property
    def _kueue_reads(self) -> bool:
        """Whether Kueue's configuration has ManagedJobs: then Kueue needs its right to read them, whatever admits."""
        from fairway.cli.cluster.kueue import Registration  # noqa: PLC0415 - help must not wait for it

        return Registration(self._cluster).exists

    def _say(self, manifest: Manifest, done: str) -> None:
        self._counts[done] += 1
        if done != "unchanged":
            click.echo(f"{described(manifest)} {done}{' (dry run)' if self._dry_run else ''}")

    def summary(self, *, waited: bool) -> str:
        counts = ", ".join(f"{number} {what}" for what, number in self._counts.items() if number)
        state = "Fairway is installed and working" if waited else "Fairway is installed"
        lines = [f"{state} ({counts}).", "Roles: bind fairway-user or fairway-viewer to users, or use edit and view."]
        if self._admission == "auto":
            lines.append("The way of admission follows Kueue, when it is installed or removed later.")
        if self._cluster.get(*CRD, WORKLOADS) is not None and self._way == "kueue":
            lines.append("Next: `fairway cluster doctor` checks what Kueue's configuration lacks for Fairway.")
        return "\n".join(lines)


def _drops_webhooks(before: Manifest, after: Manifest) -> bool:
    """Whether webhooks go: server-side apply would keep them, for the controller owns their `caBundle`."""
    names = [{hook["name"] for hook in one.get("webhooks") or ()} for one in (before, after)]
    return bool(names[0] - names[1])


def created_objects(cluster: ClusterObjects) -> list[Manifest]:
    """What this command has created on a cluster, whatever the options were."""
    from fairway.installing import installation_objects  # noqa: PLC0415 - help must not wait for it

    widest = installation_objects(chosen("fairway", "", 1), monitoring=True)
    kinds = dict.fromkeys((one["apiVersion"], one["kind"]) for one in widest)
    return list(cluster.labelled(f"{NAME_LABEL}={NAME},{MANAGED_BY}={INSTALLER}", kinds))


def delete(cluster: ClusterObjects, manifest: Manifest) -> None:
    """Delete an object and what it owns; one that is gone already is no error."""
    try:
        cluster.rest.delete(cluster.path(manifest), propagationPolicy="Background")
    except NotFound:
        return
    except ApiError as error:
        raise failure("delete", manifest, error) from error


def _content(manifest: Manifest) -> dict[str, Any]:
    """An object without what the API server keeps about it."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in _BOOKS}
    return {**manifest, "metadata": metadata}
