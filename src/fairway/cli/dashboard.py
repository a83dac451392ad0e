"""`fairway dashboard`: the web page of the server, with a login."""

import json
from pathlib import Path
from typing import Any, Final

import click

from fairway.cli.session import open_session, print_note, server_options
from fairway.errors import FairwayError

_CODES: Final = "/page/codes"


class NoPage(FairwayError):
    """The server has no web page."""


@click.command()
@click.option("--no-open", is_flag=True, help="Only print the address.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@server_options
def dashboard(*, no_open: bool, output: str, **where: Any) -> None:
    """Open the web page: queue, quota, jobs, history, and what would happen if.

    The address has a login code that works once, within five minutes; it holds no token. The page shows and allows what
    your token does. Starts the server if it is not running.

    \b
    Examples:
      fairway dashboard
      fairway dashboard --no-open
    """
    with open_session(**where) as session:
        if session.is_cluster:
            raise NoPage(
                f"{session.place} is a Kubernetes cluster, and the page is served by `fairway up`; "
                "`fairway top`, `fairway queue` and `fairway why` show the same here"
            )
        code = session.rest.create(_CODES, {})["code"]
        url = f"{session.rest.server.rstrip('/')}/page/#/login/{code}"
        fingerprint = _fingerprint(where["state"]) if session.own and url.startswith("https:") else ""
    if output == "json":
        click.echo(json.dumps({"url": url, "fingerprint": fingerprint}))
        return
    click.echo(url)
    if fingerprint:
        print_note(
            f"The browser asks about the server's own certificate, once. Its SHA-256 fingerprint is\n{fingerprint}"
        )
    if not no_open:
        click.launch(url)


def _fingerprint(state: Path) -> str:
    """Of the certificate that the server made itself, as browsers show it; empty if it has another, or none."""
    import hashlib  # noqa: PLC0415 - help must not wait for it
    import ssl  # noqa: PLC0415

    try:
        certificate = ssl.PEM_cert_to_DER_cert((state / "tls" / "tls.crt").read_text())
    except (OSError, ValueError):
        return ""
    digest = hashlib.sha256(certificate).hexdigest().upper()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
