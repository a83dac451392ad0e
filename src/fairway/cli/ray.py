"""`fairway ray`: the dashboards of Ray clusters."""

import json
from typing import TYPE_CHECKING, Any

import click

from fairway.cli.session import object_options, open_session
from fairway.errors import FairwayError, NotFound

if TYPE_CHECKING:
    from fairway.cli.session import Session

Manifest = dict[str, Any]
_API = "ray.io/v1"


class NoDashboard(FairwayError):
    """A RayJob or RayCluster that has no dashboard now."""


@click.group()
def ray() -> None:
    """Ray clusters on this machine."""


@ray.command()
@click.argument("name", metavar="NAME")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@object_options
def dashboard(*, name: str, opens: bool, output: str, **where: Any) -> None:
    """Print the address of a Ray dashboard, and the token that it asks for.

    NAME is a RayJob or a RayCluster.

    \b
    Examples:
      fairway ray dashboard notebooks
      fairway ray dashboard notebooks --open
    """
    with open_session(**where) as session:
        cluster = _cluster(session, name)
        if session.is_cluster:
            raise NoDashboard(
                "on a Kubernetes cluster the dashboard is a Service of KubeRay: "
                f"kubectl port-forward -n {session.namespace} svc/{cluster['metadata']['name']}-head-svc 8265"
            )
        url, token = _url(cluster), _token(session, cluster)
    if output == "json":
        click.echo(json.dumps({"url": url, "token": token}))
    else:
        click.echo(f"{url}\ntoken: {token}")
        if not session.own:
            click.echo("The address is one of the server's machine: forward the port with `ssh -L`.", err=True)
    if opens:
        click.launch(url)


def _cluster(session: "Session", name: str) -> Manifest:
    """The RayCluster of this name, or of the RayJob of this name."""
    try:
        job = _get(session, "rayjobs", name)
    except NotFound:
        job = None
    if job is None:
        try:
            return _get(session, "rayclusters", name)
        except NotFound:
            raise NoDashboard(f"there is no RayJob or RayCluster {name} in namespace {session.namespace}") from None
    cluster = (job.get("status") or {}).get("rayClusterName")
    if not cluster:
        state = (job.get("status") or {}).get("jobDeploymentStatus") or "new"
        raise NoDashboard(f"RayJob {name} has no Ray cluster now: it is {state}")
    try:
        return _get(session, "rayclusters", cluster)
    except NotFound:
        raise NoDashboard(f"the Ray cluster of RayJob {name} is gone; its output: `kubectl logs job/{name}`") from None


def _get(session: "Session", plural: str, name: str) -> Manifest:
    from fairway.client.rest import paths  # noqa: PLC0415 - help must not wait for it

    found: Manifest = session.rest.get(paths.resource(_API, plural, session.namespace, name))
    return found


def _url(cluster: Manifest) -> str:
    from fairway.ray.nodes import dashboard_of  # noqa: PLC0415

    address = dashboard_of(cluster)
    if address is None:
        raise NoDashboard(f"RayCluster {cluster['metadata']['name']} has not been started yet")
    return f"http://{address}"


def _token(session: "Session", cluster: Manifest) -> str:
    from base64 import b64decode  # noqa: PLC0415

    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.ray.nodes import TOKEN_KEY  # noqa: PLC0415

    metadata = cluster["metadata"]
    secret = session.rest.get(paths.resource("v1", "secrets", metadata["namespace"], metadata["name"]))
    return b64decode(secret["data"][TOKEN_KEY]).decode()
