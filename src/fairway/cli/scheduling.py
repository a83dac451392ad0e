"""`queueconfig` on the command line: jobs are completed for their scheduler before they are sent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway.cli.manifests import ManifestDocument
    from fairway.cli.resources import APIResources
    from fairway.cli.session import Session
    from fairway.schedulers.config import QueueConfig
    from fairway.schedulers.scheduling import Author

Manifest = dict[str, Any]


def completed(manifests: Sequence[Manifest], config: "QueueConfig", author: "Author") -> list[str]:
    """Complete jobs in place; the warnings. `SchedulingError` if a scheduler cannot take one."""
    import uuid  # noqa: PLC0415 - only where a scheduler is configured

    from fairway.entrypoints import scheduler_plugin  # noqa: PLC0415
    from fairway.schedulers.scheduling import schedule_all  # noqa: PLC0415

    return schedule_all(manifests, config, scheduler_plugin, author, lambda: str(uuid.uuid4()))


def complete_launch(jobs: Sequence[Manifest], config: "QueueConfig", author: "Author") -> list[str]:
    """Complete the ManagedJobs of a launch, which may share parts with each other and with the configuration."""
    from fairway.apis.machinery.copies import copied  # noqa: PLC0415 - only where a scheduler is configured

    for job in jobs:
        job["metadata"] = copied(job["metadata"])
        if "podConfig" in job["spec"]:
            job["spec"]["podConfig"] = copied(job["spec"]["podConfig"])
    return completed(jobs, config, author)


def author_at(session: "Session", namespace: str) -> "Author":
    """Who sends objects to a namespace of a server."""
    from fairway.client.rest import paths  # noqa: PLC0415 - only where a scheduler is configured
    from fairway.errors import ApiError  # noqa: PLC0415
    from fairway.schedulers.scheduling import Author  # noqa: PLC0415

    try:
        labels = session.rest.get(paths.resource("v1", "namespaces", None, namespace))["metadata"].get("labels") or {}
    except ApiError:  # who may not read it, or whose namespace is yet to be made, has no organization by it
        labels = {}
    return Author(session.user, namespace_labels=labels, namespace=namespace)


def complete_documents(
    session: "Session", resources: "APIResources", documents: "Sequence[ManifestDocument]"
) -> list[str]:
    """Complete the jobs among objects that are to be applied; what was written into an object before stays in it.

    Objects that are not as their schema wants them are left to the server to refuse.
    """
    config = session.config.queueconfig
    if config is None:
        return []
    by_namespace: dict[str, list[Manifest]] = {}
    for document in documents:
        manifest = document.manifest
        if is_job(manifest) and not faults(manifest):
            namespace = manifest["metadata"].get("namespace") or session.namespace
            _keep_from_before(session, resources, manifest, namespace)
            by_namespace.setdefault(namespace, []).append(manifest)
    return [
        warning
        for namespace, manifests in by_namespace.items()
        for warning in completed(manifests, config, author_at(session, namespace))
    ]


def is_job(manifest: Manifest) -> bool:
    """Whether a scheduler can be configured for objects of this kind."""
    from fairway.schedulers.kinds import kind_of  # noqa: PLC0415 - only where a scheduler is configured

    return kind_of(manifest) is not None


def faults(manifest: Manifest) -> list[str]:
    """What the schema of its kind does not allow in a job."""
    from fairway.apis.machinery.copies import copied  # noqa: PLC0415 - only where a scheduler is configured
    from fairway.apis.machinery.schemas.walk import inspect  # noqa: PLC0415
    from fairway.apis.registry import default_registry  # noqa: PLC0415

    group, _, version = manifest["apiVersion"].rpartition("/")
    kind = next(one for one in default_registry().kinds if (one.group, one.kind) == (group, manifest["kind"]))
    if version not in kind.schemas:
        return [f"apiVersion: Unsupported value: {manifest['apiVersion']!r}: supported values: {kind.stored!r}"]
    return [str(error) for error in inspect(kind.schemas[version](), copied(manifest)).errors]


def _keep_from_before(session: "Session", resources: "APIResources", manifest: Manifest, namespace: str) -> None:
    from fairway.cli.resources import NoSuchKindError  # noqa: PLC0415 - only where a scheduler is configured
    from fairway.errors import ApiError  # noqa: PLC0415
    from fairway.schedulers.scheduling import keep  # noqa: PLC0415

    name = manifest["metadata"].get("name")
    if name:
        try:
            resource = resources.of(manifest["apiVersion"], manifest["kind"])
            keep(session.rest.get(resource.path(namespace, name)), manifest)
        except (ApiError, NoSuchKindError):  # a new object, or one that the write itself will complain about
            return
