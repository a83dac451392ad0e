"""All objects of an installation on a cluster: manifests (`deploy`), definitions (`server.crds`), webhooks, APIs.

Part of the composition root, since what the controller serves is known to its parts. `fairway cluster install` applies
these objects; the Helm chart and the kustomize base are generated from them.
"""

from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import default_registry
from fairway.controllers.managedjob.plugin import ManagedJobAdmission
from fairway.deploy import manifests
from fairway.deploy.manifests import Installation
from fairway.deploy.names import NAMESPACE, Way
from fairway.manager import admission_resources
from fairway.server.crds import definitions, service_client

_SYSTEM: Final = ("kube-system", NAMESPACE)
_BUILT_IN: Final = frozenset({"", "batch"})


def installation_objects(installation: Installation, *, monitoring: bool = False) -> list[Manifest]:
    """Everything, in the order in which it is applied; `monitoring` adds the ServiceMonitor."""
    hooks = manifests.webhooks([_rule(resource) for resource in sorted(webhook_resources(installation.way))])
    crds = definitions(installation.way, service_client(NAMESPACE))
    found = manifests.manifests(installation, crds, hooks)
    return [*found, manifests.service_monitor(installation)] if monitoring else found


def webhook_resources(way: Way) -> frozenset[str]:
    """The kinds whose writes the controller reviews."""
    return admission_resources() if way == "fairway" else frozenset(ManagedJobAdmission.resources)


def _rule(resource: str) -> Manifest:
    kind = default_registry().named(resource)
    outside: dict[str, Any] = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(_SYSTEM)}
    # The pods of the cluster itself, and the controller's own, must start while the controller does not run.
    selected = {"namespaceSelector": {"matchExpressions": [outside]}} if kind.group in _BUILT_IN else None
    return manifests.webhook_rule(kind.group, kind.stored, kind.plural, selected=selected)
