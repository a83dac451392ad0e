"""Which rules hold for which kind."""

from fairway.apis.kueue.objects import (
    AdmissionCheck,
    AnyObject,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Topology,
    Workload,
)
from fairway.apis.kueue.validation.flavors import (
    wrong_flavor,
    wrong_flavor_update,
    wrong_topology,
    wrong_topology_update,
)
from fairway.apis.kueue.validation.policies import wrong_check_update
from fairway.apis.kueue.validation.queues import (
    wrong_cluster_queue,
    wrong_cluster_queue_update,
    wrong_cohort,
    wrong_local_queue_update,
)
from fairway.apis.kueue.validation.workload_updates import wrong_workload_update
from fairway.apis.kueue.validation.workloads import wrong_workload
from fairway.apis.machinery.limits import beyond_limits
from fairway.apis.machinery.metadata_rules import wrong_metadata, wrong_metadata_update
from fairway.errors import FieldError, ValidationError


def validate(value: AnyObject) -> None:
    """Raise `ValidationError`, with all that is wrong, unless the object may be created."""
    _refuse(value, wrong(value))


def validate_update(old: AnyObject, new: AnyObject) -> None:
    """Raise `ValidationError`, with all that is wrong, unless the first may be replaced by the second."""
    _refuse(new, wrong_update(old, new))


def wrong(value: AnyObject, *, limits: bool = True) -> list[FieldError]:
    """Why the object may not be created; without `limits` where a schema has been held against it already."""
    return [*wrong_metadata(value), *(beyond_limits(value) if limits else ()), *_wrong(value)]


def wrong_update(old: AnyObject, new: AnyObject, *, limits: bool = True) -> list[FieldError]:
    """Why the first may not be replaced by the second; without `limits` where a schema has been held against it.

    A spec or metadata that both share, as the same value in memory, was accepted before and is not looked at again.
    """
    if type(old) is not type(new):
        raise TypeError(f"a {old.KIND} cannot become a {new.KIND}")
    errors = [] if new.metadata is old.metadata else [*wrong_metadata(new), *wrong_metadata_update(old, new)]
    if limits:
        errors += beyond_limits(new, old)
    return errors + _wrong_update(old, new)


def _refuse(value: AnyObject, errors: list[FieldError]) -> None:
    if errors:
        raise ValidationError(value.KIND, value.name or value.metadata.generate_name, errors)


def _wrong(value: AnyObject) -> list[FieldError]:
    match value:
        case Workload():
            return wrong_workload(value)
        case ClusterQueue():
            return wrong_cluster_queue(value)
        case Cohort():
            return wrong_cohort(value)
        case ResourceFlavor():
            return wrong_flavor(value)
        case Topology():
            return wrong_topology(value)
        case _:
            return []


def _wrong_update(old: AnyObject, new: AnyObject) -> list[FieldError]:
    match old, new:
        case Workload(), Workload():
            return wrong_workload_update(old, new)
        case ClusterQueue(), ClusterQueue():
            return wrong_cluster_queue_update(old, new)
        case ResourceFlavor(), ResourceFlavor():
            return [*wrong_flavor(new), *wrong_flavor_update(old, new)]
        case Topology(), Topology():
            return [*wrong_topology(new), *wrong_topology_update(old, new)]
        case LocalQueue(), LocalQueue():
            return wrong_local_queue_update(old, new)
        case AdmissionCheck(), AdmissionCheck():
            return wrong_check_update(old, new)
        case _:
            return _wrong(new)
