"""The pod spec as admission reads it: looked into where that decides something, and nowhere else.

A Workload keeps its pod templates whole and raw. These types are a view of one: every field that Kubernetes knows at
the upper levels is here, so that a misspelt one is found, but only those that decide where a pod may run, and how much
it takes, are looked into. The rest is the kubelet's business.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from fairway.apis.core.taints import Toleration
from fairway.apis.machinery.quantities import Quantity
from fairway.apis.machinery.structs import Int32, Int64, Value

ALWAYS = "Always"

Part: TypeAlias = dict[str, Any]
"""An object that is not looked into."""


class ResourceRequirements(Value, frozen=True, kw_only=True):
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)
    limits: dict[str, Quantity] = msgspec.field(default_factory=dict)
    claims: tuple[Part, ...] = ()

    def requests_or_limits(self) -> Mapping[str, Quantity]:
        """The requests, and the limit of what is only limited."""
        return {**self.limits, **self.requests} if self.limits else self.requests


class Container(Value, frozen=True, kw_only=True):
    name: str
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[Part, ...] = ()
    env_from: tuple[Part, ...] = ()
    image: str = ""
    image_pull_policy: str = ""
    lifecycle: Part | None = None
    liveness_probe: Part | None = None
    ports: tuple[Part, ...] = ()
    readiness_probe: Part | None = None
    resize_policy: tuple[Part, ...] = ()
    restart_policy_rules: tuple[Part, ...] = ()
    security_context: Part | None = None
    startup_probe: Part | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    tty: bool | None = None
    volume_devices: tuple[Part, ...] = ()
    volume_mounts: tuple[Part, ...] = ()
    working_dir: str = ""


class NodeSelectorRequirement(Value, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Value, frozen=True, kw_only=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Value, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...]


class NodeAffinity(Value, frozen=True, kw_only=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[Part, ...] = ()


class Affinity(Value, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: Part | None = None
    pod_anti_affinity: Part | None = None


class PodSpec(Value, frozen=True, kw_only=True):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: dict[str, Quantity] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    active_deadline_seconds: Int64 | None = None
    automount_service_account_token: bool | None = None
    dns_config: Part | None = None
    dns_policy: str = ""
    enable_service_links: bool | None = None
    ephemeral_containers: tuple[Part, ...] = ()
    host_aliases: tuple[Part, ...] = ()
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")
    host_network: bool | None = None
    host_pid: bool | None = msgspec.field(default=None, name="hostPID")
    host_users: bool | None = None
    hostname: str = ""
    hostname_override: str = ""
    image_pull_secrets: tuple[Part, ...] = ()
    node_name: str = ""
    os: Part | None = None
    preemption_policy: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    readiness_gates: tuple[Part, ...] = ()
    resource_claims: tuple[Part, ...] = ()
    restart_policy: str = ""
    runtime_class_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[Part, ...] = ()
    scheduling_group: Part | None = None
    security_context: Part | None = None
    service_account: str = ""
    service_account_name: str = ""
    set_hostname_as_fqdn: bool | None = msgspec.field(default=None, name="setHostnameAsFQDN")
    share_process_namespace: bool | None = None
    subdomain: str = ""
    termination_grace_period_seconds: Int64 | None = None
    topology_spread_constraints: tuple[Part, ...] = ()
    volumes: tuple[Part, ...] = ()
