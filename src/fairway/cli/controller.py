"""`fairway controller`."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from fairway.cli.options import controllers_option, state_option
from fairway.cli.serve import READY_FD
from fairway.settings import Settings


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Kubeconfig of the API server.  [default: that of the state directory; in a pod, its service account]",
)
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig.  [default: the current one]")
@controllers_option
@state_option
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address of the health endpoint."
)
@click.option("--port", type=int, default=0, metavar="N", help="Port of the health endpoint.  [default: a free one]")
@click.option(
    "--lease", default="fairway-controller", show_default=True, metavar="NAME", help="Lease of the leader election."
)
@click.option(
    "--webhooks", is_flag=True, help="Serve admission webhooks, too, for an API server without Fairway's rules."
)
@click.option(
    "--admission",
    type=click.Choice(["auto", "kueue", "fairway", "none"]),
    default="auto",
    show_default=True,
    help="Who admits jobs on a cluster: its Kueue, Fairway, or neither (the scheduler alone decides).",
)
@click.option(
    "--kube-api-qps",
    type=click.FloatRange(min=0),
    default=100.0,
    show_default=True,
    metavar="N",
    help="Requests per second to a cluster; 0 is no limit. Fairway's own server is not limited.",
)
@click.option(
    "--kube-api-burst",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="N",
    help="Requests to a cluster that are sent at once after a pause.",
)
@click.option(
    "--print-webhooks",
    metavar="URL",
    help="Print the webhook configurations for an API server that reaches this process at URL, and exit.",
)
def controller(
    kubeconfig: Path | None,
    context: str,
    lease: str,
    admission: str,
    kube_api_qps: float,
    kube_api_burst: int,
    print_webhooks: str | None,
    *,
    webhooks: bool,
    **options: Any,
) -> None:
    """Run controllers in a process of their own.

    For a server that runs none itself (`fairway serve --controllers=none`). The process watches the API, decides about
    admission and makes the pods of jobs; the server keeps the API, the webhooks and the pods of its machine. Start
    several, and one works while the others stand by (leader election by a Lease in kube-system). Processes with
    different --controllers need different --lease names.

    On a Kubernetes cluster (after `fairway cluster install`) it runs the controllers of managed jobs, and with
    --admission=fairway those that decide about queues; it keeps its own objects in the namespace fairway-system.
    With --admission=auto, a cluster with Kueue is decided by Kueue, one with the definitions that Fairway installed
    by Fairway, and any other by its scheduler.

    Served over HTTPS: /healthz, /readyz and, with the token of the Secret kube-system/fairway-decider, /metrics;
    with --webhooks also /mutate and /validate, by the process that leads.

    \b
    Examples:
      fairway serve --controllers=none &
      fairway controller
      fairway controller --kubeconfig ./kubeconfig --controllers=-managedjob
      fairway controller --print-webhooks https://10.0.0.7:9443 | kubectl apply -f -
      fairway controller --webhooks --host 10.0.0.7 --port 9443
    """
    import asyncio  # noqa: PLC0415 - help must not wait for it
    import logging  # noqa: PLC0415

    import msgspec  # noqa: PLC0415

    from fairway.admission.port import AdmittedBy  # noqa: PLC0415
    from fairway.standalone import ControllerOptions, run_controllers, webhooks_at  # noqa: PLC0415

    settings = Settings(gives_authority=True, **options)
    if print_webhooks is not None:
        if not print_webhooks.startswith("https://"):
            raise click.BadParameter(f"{print_webhooks!r} must begin with https://", param_hint="--print-webhooks")
        way = AdmittedBy.FAIRWAY if admission == "auto" else AdmittedBy(admission)
        items = webhooks_at(print_webhooks, settings, way)
        click.echo(msgspec.json.format(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})))
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    import uvloop  # noqa: PLC0415

    chosen = ControllerOptions(
        settings=settings,
        kubeconfig=_kubeconfig(kubeconfig, settings),
        context=context,
        lease=lease,
        webhooks=webhooks,
        admission=admission,
        qps=kube_api_qps,
        burst=kube_api_burst,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_controllers(chosen, _announce))


def _kubeconfig(given: Path | None, settings: Settings) -> Path | str:
    """Nothing for the service account of a pod."""
    in_a_pod = "KUBERNETES_SERVICE_HOST" in os.environ and not settings.kubeconfig.exists()
    return given or ("" if in_a_pod else settings.kubeconfig)


def _announce(what: str, url: str) -> None:
    if what == "listening":
        click.echo(f"health endpoint: {url}/healthz")
        return
    click.echo("leading")
    sys.stdout.flush()
    descriptor = os.environ.pop(READY_FD, "")
    if descriptor:
        with os.fdopen(int(descriptor), "w") as waiting:
            waiting.write(f"{url}\n")
