"""The priority of a pod, by the class that it names or the default one: what Kubernetes' Priority admission does."""

from fairway.apis.machinery import problems
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.errors import FieldError
from fairway.integrations import priorities

_PREEMPTS = "PreemptLowerPriority"
_NO_CLASS = ("", 0, _PREEMPTS)


class PodPriorities:
    """Follows the priority classes, so that a pod costs one look."""

    def __init__(self, cluster: Cluster) -> None:
        self._classes = cluster.cache("priorityclasses.scheduling.k8s.io")
        self._default = _NO_CLASS
        self._classes.on_change(self._class_changed)

    def complete(self, pod: Manifest) -> list[FieldError]:
        """Give a new pod its priority, in place; what it says itself must be that."""
        spec = pod["spec"]
        name = spec.get("priorityClassName") or ""
        found = self._named(name) if name else self._default
        if found is None:
            return [problems.forbidden("spec.priorityClassName", name, f"no PriorityClass with name {name} was found")]
        name, value, policy = found
        if name:
            spec["priorityClassName"] = name
        errors = []
        given = spec.get("priority")
        if given is not None and given != value:
            rule = (
                f"the integer value of priority ({given}) must not be provided in pod spec;"
                f" priority admission controller computed {value} from the given PriorityClass name"
            )
            errors.append(problems.forbidden("spec.priority", given, rule))
        wanted = spec.get("preemptionPolicy")
        if wanted is not None and wanted != policy:
            rule = (
                f"the string value of PreemptionPolicy ({wanted}) must not be provided in pod spec;"
                f" priority admission controller computed {policy} from the given PriorityClass name"
            )
            errors.append(problems.forbidden("spec.preemptionPolicy", wanted, rule))
        spec["priority"], spec["preemptionPolicy"] = value, policy
        return errors

    def _named(self, name: str) -> tuple[str, int, str] | None:
        found = self._classes.get("", name)
        if found is not None:
            return _said_by(found)
        value = priorities.SYSTEM_CLASSES.get(name)
        return None if value is None else (name, value, _PREEMPTS)

    def _class_changed(self, _old: Manifest | None, _new: Manifest | None) -> None:
        found = priorities.default_class(self._classes)
        self._default = _NO_CLASS if found is None else _said_by(found)


def _said_by(found: Manifest) -> tuple[str, int, str]:
    return found["metadata"]["name"], found["value"], found.get("preemptionPolicy") or _PREEMPTS
