"""`fairway cluster`: Fairway on a Kubernetes cluster. One module per command, imported when it is used."""

import importlib

import click

_COMMANDS = {
    "install": "Install Fairway on a cluster, or upgrade it.",
    "doctor": "Check a cluster and its Kueue; --fix mends Kueue's configuration.",
    "uninstall": "Remove what `install` created.",
}
"""Each is in the module of its name, as an attribute of its name."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"fairway.cli.cluster.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands)
def cluster() -> None:
    """Install Fairway on a Kubernetes cluster, check it, and remove it.

    The cluster is that of kubectl: --kubeconfig, else $KUBECONFIG, else ~/.kube/config, with --context.

    \b
    Examples:
      fairway cluster install --image registry.example.com/fairway:0.1.0
      fairway cluster install --admission none --dry-run -o yaml
      fairway cluster doctor
      fairway cluster uninstall
    """
