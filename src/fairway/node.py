"""This machine as a node of a Kubernetes cluster (`fairway node`): its pods are processes, as on a server of our own.

Part of the composition root. The cluster's own scheduler and controllers decide; the runner registers a Node, runs the
pods that are bound to it and writes their status. There is no kubelet API: no logs and exec through kube-apiserver.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import Registry, default_registry
from fairway.client.cluster import Cluster
from fairway.client.http import HttpClient, Transport, open_transport
from fairway.client.protocol import Scope
from fairway.client.recorder import Recorder
from fairway.errors import FairwayError, NotFound
from fairway.runner.machine import Machine, node_name
from fairway.runner.node import LEASES, lasting_name
from fairway.runner.runner import Runner
from fairway.runner.supervision import LocalSupervision
from fairway.runtime.clock import Clock, SystemClock
from fairway.runtime.lease import Hold
from fairway.runtime.parts import running, unless
from fairway.runtime.privacy import make_private
from fairway.runtime.stopping import until_stopped
from fairway.settings import Settings, SettingsError

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_GRACE_SECONDS: Final = 10.0
TAINT: Final = "fairway.dev/runtime=process:NoSchedule"
"""Keeps pods away that need their image: only those that tolerate it run as processes."""


class NodeNameError(FairwayError):
    """The state directory belongs to a node of another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """How a node is started."""

    settings: Settings
    """What the machine gives; its state directory is the node's alone."""

    kubeconfig: Path | str
    context: str = ""
    name: str = ""
    """Of the Node, where it is not the host's."""

    taints: tuple[Manifest, ...] = ()


def parsed_taints(text: str) -> tuple[Manifest, ...]:
    """Taints as the kubelet takes them: `key=value:Effect,key:Effect`; none of an empty text."""
    return tuple(_taint(part) for part in text.split(",") if part)


def _taint(text: str) -> Manifest:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in _EFFECTS:
        raise SettingsError(f"--taints {text}: write key=value:Effect, with an effect of {', '.join(_EFFECTS)}")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


async def run_node(options: NodeOptions, announce: Callable[[str], None]) -> None:
    """Run pods until SIGTERM or SIGINT; their processes run on, and the next start finds them."""
    await until_stopped(_run(options, announce))


async def _run(options: NodeOptions, announce: Callable[[str], None]) -> None:
    clock, machine = SystemClock(), _machine(options)
    make_private(options.settings.state)
    with Hold.acquire(options.settings.state):
        async with open_transport(options.kubeconfig, options.context, clock) as transport:
            await _work(options, machine, transport, clock, announce)


async def remove_node(options: NodeOptions) -> str:
    """End the processes of all pods here and delete the Node; its name. The cluster replaces the pods elsewhere."""
    clock, machine = SystemClock(), _machine(options)
    make_private(options.settings.state)
    name, registry = lasting_name(options.settings.state, machine), default_registry()
    with Hold.acquire(options.settings.state):
        await LocalSupervision(options.settings.state, clock).shutdown(_GRACE_SECONDS)
        async with open_transport(options.kubeconfig, options.context, clock) as transport:
            client = HttpClient(transport, clock, "fairway-runner")
            for resource, namespace in (("nodes", ""), ("leases.coordination.k8s.io", LEASES)):
                with contextlib.suppress(NotFound):
                    await client.delete(registry.named(resource), namespace, name)
    return name


async def _work(
    options: NodeOptions, machine: Machine, transport: Transport, clock: Clock, announce: Callable[[str], None]
) -> None:
    state = options.settings.state
    name, registry = lasting_name(state, machine), default_registry()
    cluster = Cluster(lambda manager: HttpClient(transport, clock, manager), registry, clock, _scopes(registry, name))
    recorder = Recorder(cluster, "fairway-node")
    supervision = LocalSupervision(state, clock)
    runner = Runner(cluster, supervision, machine, state, recorder, taints=options.taints)
    try:
        async with running(cluster) as broken:
            await unless(broken, cluster.synced())
            await unless(broken, runner.register())
            announce(name)
            async with running(runner, recorder, broken=broken):
                await broken
    finally:
        await supervision.close()


def _scopes(registry: Registry, name: str) -> dict[str, tuple[Scope, ...]]:
    """Of pods, nodes and leases only this node's own are watched."""
    own = Scope(fields=f"metadata.name={name}")
    scopes = {
        "pods": Scope(fields=f"spec.nodeName={name}"),
        "nodes": own,
        "leases.coordination.k8s.io": own._replace(namespace=LEASES),
    }
    return {registry.named(resource).resource: (scope,) for resource, scope in scopes.items()}


def _machine(options: NodeOptions) -> Machine:
    settings = options.settings
    found = Machine.detect(settings.cpus, settings.memory, settings.gpus, settings.state)
    if not options.name:
        return found
    if node_name(options.name) != options.name:
        raise SettingsError(f"--name {options.name}: a node's name is a DNS name in lower case")
    named = replace(found, hostname=options.name)
    if (known := lasting_name(settings.state, named)) != options.name:
        raise NodeNameError(f"{settings.state} belongs to the node {known}; give --name {known}, or another --state")
    return named
