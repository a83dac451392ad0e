"""The webhook of all job kinds, with the messages of Kueue's webhooks.

A webhook completes a manifest in place and says what is wrong with it. What only one kind asks is in that kind's
module.
"""

from collections.abc import Mapping
from typing import Final

from fairway.apis.kueue.configuration import DENY
from fairway.apis.machinery import problems
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.names import split_gates, subdomain_faults, wrong_gates
from fairway.errors import FieldError
from fairway.integrations import names
from fairway.integrations.surroundings import ClusterView

LABELS: Final = "metadata.labels"
ANNOTATIONS: Final = "metadata.annotations"
_QUEUE_PATH: Final = problems.key(LABELS, names.QUEUE_NAME)
_MAXIMUM_PATH: Final = problems.key(LABELS, names.MAXIMUM_SECONDS)
_CLASS_PATH: Final = problems.key(LABELS, names.PRIORITY_CLASS)
_GATES_PATH: Final = problems.key(ANNOTATIONS, names.ADMISSION_GATED_BY)
_ELASTIC_PATH: Final = problems.key(ANNOTATIONS, names.ELASTIC)
_ELASTIC_KINDS: Final = frozenset({("batch/v1", "Job")})
_RARE: Final = frozenset({names.PREBUILT_WORKLOAD, names.MAXIMUM_SECONDS, names.ELASTIC, names.ADMISSION_GATED_BY})
"""Labels and annotations that something is asked about and that hardly any job has."""


def labels_of(manifest: Manifest) -> Mapping[str, str]:
    return manifest["metadata"].get("labels") or {}


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    return manifest["metadata"].get("annotations") or {}


def queue_name(manifest: Manifest) -> str:
    """The queue that an object names, empty if none."""
    return labels_of(manifest).get(names.QUEUE_NAME, "")


def prebuilt_workload(manifest: Manifest) -> str:
    """The workload that was made beforehand for an object, empty if none."""
    return annotations_of(manifest).get(names.PREBUILT_WORKLOAD) or labels_of(manifest).get(names.PREBUILT_WORKLOAD, "")


def maximum_seconds(manifest: Manifest) -> int | None:
    """How long an object may run, if it says so rightly."""
    number = go_int(labels_of(manifest).get(names.MAXIMUM_SECONDS, ""))
    return number if number is not None and 0 < number < 2**31 else None


def go_int(text: str) -> int | None:
    """The whole number that a label is, read as Go reads it."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def apply_default_queue(manifest: Manifest, surroundings: ClusterView) -> None:
    """Put an object without a queue into the default queue of its namespace, if there is one; in place."""
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace", "")
    if (
        not queue_name(manifest)
        and surroundings.has_default_queue(namespace)
        and not surroundings.owner_is_job(manifest)
        and surroundings.configuration.namespace_selector.matches(surroundings.namespace_labels(namespace))
    ):
        metadata["labels"] = {**labels_of(manifest), names.QUEUE_NAME: names.DEFAULT_QUEUE}


def outside_queues(manifest: Manifest, surroundings: ClusterView) -> list[FieldError]:
    """What names no queue and belongs to no job of one, where that is forbidden."""
    if surroundings.configuration.jobs_outside_queues != DENY or queue_name(manifest):
        return []
    if surroundings.owner_is_managed(manifest):
        return []
    namespace = manifest["metadata"].get("namespace", "")
    rule = (
        f"nothing may run outside the queues here (jobsOutsideQueues: {DENY}): name a LocalQueue of namespace "
        f"{namespace!r} in this label, or make one called {names.DEFAULT_QUEUE!r}"
    )
    return [problems.forbidden(_QUEUE_PATH, "", rule)]


def wrong_on_create(manifest: Manifest) -> list[FieldError]:
    """What is wrong with a new object of any job kind; also asked of changed ones."""
    labels, annotations = labels_of(manifest), annotations_of(manifest)
    wrong_queue = _wrong_subdomain(labels, names.QUEUE_NAME, LABELS)
    if _RARE.isdisjoint(labels) and _RARE.isdisjoint(annotations):
        return wrong_queue
    return [
        *wrong_queue,
        *wrong_prebuilt(manifest),
        *_wrong_maximum(manifest),
        *_wrong_elastic(manifest),
        *wrong_gates(annotations.get(names.ADMISSION_GATED_BY, ""), _GATES_PATH),
    ]


def wrong_on_update(
    old: Manifest, new: Manifest, surroundings: ClusterView, *, was_suspended: bool, is_suspended: bool
) -> list[FieldError]:
    """What may not have changed, and when."""
    if labels_of(old) == labels_of(new) and annotations_of(old) == annotations_of(new):
        return wrong_prebuilt(new) if is_suspended else []
    errors: list[FieldError] = []
    before, after = queue_name(old), queue_name(new)
    if not is_suspended:
        errors += changed(before, after, _QUEUE_PATH)
    if before and not after and surroundings.has_default_queue(old["metadata"].get("namespace", "")):
        errors.append(problems.invalid(_QUEUE_PATH, "", "queue-name must not be empty in namespace with default queue"))
    if is_suspended:
        errors += wrong_prebuilt(new)
    else:
        errors += changed(prebuilt_workload(old), prebuilt_workload(new), _prebuilt_path(new))
    if not (was_suspended and is_suspended):
        limit = names.MAXIMUM_SECONDS
        errors += changed(labels_of(old).get(limit, ""), labels_of(new).get(limit, ""), _MAXIMUM_PATH)
    errors += wrong_priority_class_update(old, new, is_suspended=is_suspended)
    errors += _wrong_elastic_update(old, new)
    errors += _wrong_gates_update(old, new)
    return errors


def wrong_priority_class_update(old: Manifest, new: Manifest, *, is_suspended: bool) -> list[FieldError]:
    before, after = (labels_of(one).get(names.PRIORITY_CLASS, "") for one in (old, new))
    if not is_suspended and not before and after:
        rule = "WorkloadPriorityClass cannot be added to a non-suspended workload"
        return [problems.invalid(_CLASS_PATH, after, rule)]
    if before and not after:
        rule = "WorkloadPriorityClass cannot be removed from a workload"
        return [problems.invalid(_CLASS_PATH, after, rule)]
    return []


def wrong_prebuilt(manifest: Manifest) -> list[FieldError]:
    if annotations_of(manifest).get(names.PREBUILT_WORKLOAD):
        return _wrong_subdomain(annotations_of(manifest), names.PREBUILT_WORKLOAD, ANNOTATIONS)
    return _wrong_subdomain(labels_of(manifest), names.PREBUILT_WORKLOAD, LABELS)


def is_elastic(manifest: Manifest) -> bool:
    return annotations_of(manifest).get(names.ELASTIC) == "true"


def _wrong_subdomain(held: Mapping[str, str], key: str, path: str) -> list[FieldError]:
    value = held.get(key)
    faults = [] if value is None else list(subdomain_faults(value))
    return [problems.invalid(problems.key(path, key), value, ",".join(faults))] if faults else []


def _prebuilt_path(manifest: Manifest) -> str:
    by_annotation = annotations_of(manifest).get(names.PREBUILT_WORKLOAD)
    return problems.key(ANNOTATIONS if by_annotation else LABELS, names.PREBUILT_WORKLOAD)


def _wrong_maximum(manifest: Manifest) -> list[FieldError]:
    text = labels_of(manifest).get(names.MAXIMUM_SECONDS)
    if text is None:
        return []
    number = go_int(text)
    if number is None:
        return [problems.invalid(_MAXIMUM_PATH, text, unreadable("Atoi", text))]
    return [problems.invalid(_MAXIMUM_PATH, number, "should be greater than 0")] if number <= 0 else []


def unreadable(function: str, text: str) -> str:
    """What Go says of a text that is not the number or the truth value that it should be."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    cause = "value out of range" if digits.isascii() and digits.isdigit() else "invalid syntax"
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'strconv.{function}: parsing "{quoted}": {cause}'


def _wrong_elastic(manifest: Manifest) -> list[FieldError]:
    """Jobs whose workload grows while they run."""
    if not is_elastic(manifest) or (manifest["apiVersion"], manifest["kind"]) in _ELASTIC_KINDS:
        return []
    kind = f"{manifest['apiVersion']}, Kind={manifest['kind']}"
    return [problems.forbidden(_ELASTIC_PATH, "true", f'elastic job is not supported for "{kind}"')]


def _wrong_elastic_update(old: Manifest, new: Manifest) -> list[FieldError]:
    return changed(is_elastic(old), is_elastic(new), _ELASTIC_PATH)


def _wrong_gates_update(old: Manifest, new: Manifest) -> list[FieldError]:
    before, after = (annotations_of(one).get(names.ADMISSION_GATED_BY, "") for one in (old, new))
    errors = []
    if not before and after:
        errors.append(problems.forbidden(_GATES_PATH, after, "cannot add admission gate after creation"))
    if before and after and not set(split_gates(after)) <= set(split_gates(before)):
        errors.append(problems.forbidden(_GATES_PATH, after, "can only remove gates, not add new ones"))
    return errors
