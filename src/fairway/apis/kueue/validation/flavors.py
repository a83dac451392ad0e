"""Rules about ResourceFlavor and Topology."""

from fairway.apis.kueue.flavors import ResourceFlavor, Topology
from fairway.apis.kueue.validation.tolerations import wrong_taints, wrong_tolerations
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.immutability import changed, shown
from fairway.errors import FieldError

_HOSTNAME = "kubernetes.io/hostname"
_LEVELS = "spec.levels"


def wrong_flavor(flavor: ResourceFlavor) -> list[FieldError]:
    spec = flavor.spec
    errors = [
        *names.wrong_labels(spec.node_labels, "spec.nodeLabels"),
        *wrong_taints(spec.node_taints, "spec.nodeTaints"),
        *wrong_tolerations(spec.tolerations, "spec.tolerations"),
    ]
    if spec.topology_name and not spec.node_labels:
        rule = "at least one nodeLabel is required when topology is set"
        errors.append(problems.invalid("spec", shown(spec), rule))
    return errors


def wrong_flavor_update(old: ResourceFlavor, new: ResourceFlavor) -> list[FieldError]:
    if not old.spec.topology_name:
        return []
    errors = []
    for field, before, after in (
        ("nodeLabels", old.spec.node_labels, new.spec.node_labels),
        ("tolerations", old.spec.tolerations, new.spec.tolerations),
        ("topologyName", old.spec.topology_name, new.spec.topology_name),
    ):
        verb = "is" if field == "topologyName" else "are"
        rule = f"{field} {verb} immutable when topologyName is set"
        errors += changed(before, after, problems.child("spec", field), rule)
    return errors


def wrong_topology(topology: Topology) -> list[FieldError]:
    labels = [level.node_label for level in topology.spec.levels]
    errors = []
    if len(set(labels)) < len(labels):
        errors.append(problems.invalid(_LEVELS, labels, "must be unique"))
    if _HOSTNAME in labels[:-1] and labels[-1] != _HOSTNAME:
        rule = "the kubernetes.io/hostname label can only be used at the lowest level of topology"
        errors.append(problems.invalid(_LEVELS, labels, rule))
    return errors


def wrong_topology_update(old: Topology, new: Topology) -> list[FieldError]:
    return changed(old.spec.levels, new.spec.levels, _LEVELS)
