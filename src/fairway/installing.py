"""All objects of an installation on a cluster: manifests (`deploy`), definitions (`server.crds`), webhooks, APIs.

Part of the composition root, since what the controller serves is known to its parts. `fairway cluster install` applies
these objects; the Helm chart and the kustomize base are generated from them.
"""

from fairway.admission.port import AdmittedBy
from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import default_registry
from fairway.deploy import manifests
from fairway.deploy.manifests import Installation
from fairway.deploy.names import CONTROLLER_USER, NAMESPACE, WEBHOOKS
from fairway.manager import reviewed_resources
from fairway.server.admissionreview import scheduling_rules, webhook_configurations, webhook_rules
from fairway.server.crds import definitions, service_client


def installation_objects(installation: Installation, *, monitoring: bool = False) -> list[Manifest]:
    """Everything, in the order in which it is applied; `monitoring` adds the ServiceMonitor."""
    client = service_client(NAMESPACE)
    rules = webhook_rules(reviewed_resources(AdmittedBy(installation.way)), default_registry())
    scheduled = scheduling_rules(default_registry())
    hooks = webhook_configurations(rules, client, WEBHOOKS, CONTROLLER_USER, scheduled)
    found = manifests.manifests(
        installation, definitions(installation.way, client), [*hooks, *manifests.api_services(installation.way)]
    )
    return [*found, manifests.service_monitor(installation)] if monitoring else found
