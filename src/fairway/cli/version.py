"""`fairway version`."""

import json

import click

import fairway


@click.command()
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
def version(output: str) -> None:
    """Print the version."""
    if output == "json":
        click.echo(json.dumps({"version": fairway.__version__}))
    else:
        click.echo(f"fairway {fairway.__version__}")
