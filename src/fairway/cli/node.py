"""`fairway node`."""

import os
from pathlib import Path
from typing import Any

import click

from fairway.cli.options import state_option
from fairway.settings import Settings


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Kubeconfig of the cluster.  [default: $KUBECONFIG, else ~/.kube/config]",
)
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig.  [default: the current one]")
@click.option("--name", default="", metavar="NAME", help="Name of the Node.  [default: the name of this host]")
@click.option("--cpus", metavar="AMOUNT", help="CPUs for pods, such as 8.  [default: all CPUs of this machine]")
@click.option("--memory", metavar="AMOUNT", help="Memory for pods, such as 16Gi.  [default: all of this machine]")
@click.option("--gpus", metavar="[MODEL:]N[,...]", help="GPUs for pods, such as 8 or T4:8.  [default: all]")
@click.option(
    "--taints",
    default="fairway.dev/runtime=process:NoSchedule",
    show_default=True,
    metavar="KEY=VALUE:EFFECT[,...]",
    help="Taints of a new Node; an empty text for none.",
)
@click.option("--remove", is_flag=True, help="End the processes of all pods here, delete the Node, and exit.")
@state_option
def node(
    kubeconfig: Path | None, context: str, name: str, taints: str, state: Path, *, remove: bool, **options: Any
) -> None:
    """Make this machine a node of a Kubernetes cluster; its pods run as processes.

    The cluster's scheduler binds pods to it, and they run as on a server of Fairway: as processes of this machine, with
    `command` and without their image. The default taint keeps other pods away: a pod must tolerate it.

    Not offered: images, kubectl logs and exec, ports of Services, service account tokens, persistent volume claims.
    Output of pods is in the state directory. When this command ends, pods keep running, and the next start finds them;
    the cluster takes the node for lost after its usual time.

    \b
    Examples:
      fairway node --kubeconfig ./kubeconfig
      fairway node --taints '' --cpus 8 --memory 32Gi
      fairway node --remove
    """
    import asyncio  # noqa: PLC0415 - help must not wait for it
    import logging  # noqa: PLC0415

    import uvloop  # noqa: PLC0415

    from fairway.node import NodeOptions, parsed_taints, remove_node, run_node  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    chosen = NodeOptions(
        settings=Settings(state=state / "node", **options),
        kubeconfig=kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config",
        context=context,
        name=name,
        taints=parsed_taints(taints),
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if remove:
            click.echo(f"node {runner.run(remove_node(chosen))} removed")
        else:
            runner.run(run_node(chosen, lambda name: click.echo(f"node {name} is registered")))
