"""`fairway completion`: what makes a shell complete commands, options and the names of jobs."""

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fairway.cli.jobs.records import JobRow
    from fairway.client.rest import Rest

_VARIABLE: Final = "_FAIRWAY_COMPLETE"
_HOW: Final = {
    "bash": 'eval "$(fairway completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(fairway completion zsh)"   in ~/.zshrc',
    "fish": "fairway completion fish | source   in ~/.config/fish/config.fish",
}
_MOST: Final = 100
_SECONDS: Final = 2.0
"""A cluster that is slower than this completes nothing."""


@click.command()
@click.argument("shell", type=click.Choice(list(_HOW)))
def completion(*, shell: str) -> None:
    """Print the shell completion script for commands, options and the names of jobs.

    \b
    Add one of these lines to the startup file of your shell:
      eval "$(fairway completion bash)"     ~/.bashrc
      eval "$(fairway completion zsh)"      ~/.zshrc
      fairway completion fish | source      ~/.config/fish/config.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class  # noqa: PLC0415

    from fairway.cli.group import fairway  # noqa: PLC0415

    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"completion is not supported for {shell}")
    # Not the class's own `source`: that of bash starts a bash to ask for its version.
    click.echo(f"# {_HOW[shell]}\n{ShellComplete.source(kind(fairway, {}, 'fairway', _VARIABLE))}")


def job_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Ids and names of jobs that begin so; nothing where no server answers at once, and none is started for it."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415

    try:
        jobs = _known(ctx)
    except Exception:  # noqa: BLE001 - whatever goes wrong must not be seen in the middle of a command line
        return []
    found = {str(job.spec.id): f"{job.name} {job.phase}" for job in jobs}
    found |= {job.metadata.name: job.phase for job in jobs}
    return [CompletionItem(name, help=line) for name, line in found.items() if name.startswith(incomplete)][:_MOST]


def files(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Names of files, which the shell knows best."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415

    return [CompletionItem(incomplete, type="file")]


def directories(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem  # noqa: PLC0415

    return [CompletionItem(incomplete, type="dir")]


def queue_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """LocalQueues of the namespace."""
    return _names(ctx, "localqueues", incomplete)


def context_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The contexts of the kubeconfig, and that of this machine's server."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415

    try:
        from fairway.cli.servers import contexts  # noqa: PLC0415
        from fairway.settings import state_directory  # noqa: PLC0415

        found = list(contexts(ctx.params.get("state") or state_directory(), ctx.params.get("kubeconfig")))
    except Exception:  # noqa: BLE001 - as above
        return []
    return [CompletionItem(name, help=path) for name, path in found if name.startswith(incomplete)][:_MOST]


def cluster_queue_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    return _names(ctx, "clusterqueues", incomplete)


def kinds_and_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The kinds that a server lists; after a kind, the names of its objects."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415

    before = ctx.params.get(parameter.name or "") or ()
    try:
        with _asked(ctx) as rest:
            from fairway.cli.resources import discover  # noqa: PLC0415

            known = discover(rest)
            if before:
                listed = rest.get(known.one(before[0]).path(ctx.params.get("namespace") or rest.namespace))["items"]
                found = [one["metadata"]["name"] for one in listed]
            else:
                found = known.listed
    except Exception:  # noqa: BLE001 - as above
        return []
    return [CompletionItem(name) for name in found if name.startswith(incomplete)][:_MOST]


def _names(ctx: click.Context, plural: str, incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem  # noqa: PLC0415

    from fairway.client.rest import paths  # noqa: PLC0415

    try:
        with _asked(ctx) as rest:
            namespace = (ctx.params.get("namespace") or rest.namespace) if plural == "localqueues" else None
            listed = rest.get(paths.resource("kueue.x-k8s.io/v1beta2", plural, namespace))["items"]
    except Exception:  # noqa: BLE001 - as above
        return []
    names = [one["metadata"]["name"] for one in listed]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:_MOST]


def _known(ctx: click.Context) -> "list[JobRow]":
    from fairway.cli.jobs.records import decode_jobs  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    with _asked(ctx) as rest:
        where = ctx.params.get("namespace") or rest.namespace
        return decode_jobs(rest.raw(paths.jobs(where), accept="application/json")).items


def _asked(ctx: click.Context) -> "Rest":
    """The server that the words so far are for; an error if it does not run."""
    from fairway.cli.configuration import read_config  # noqa: PLC0415
    from fairway.cli.servers import target  # noqa: PLC0415
    from fairway.client.rest import open_rest  # noqa: PLC0415
    from fairway.runtime.lease import holder  # noqa: PLC0415
    from fairway.settings import state_directory  # noqa: PLC0415

    state = ctx.params.get("state") or state_directory()
    meant = target(state, ctx.params.get("kubeconfig"), ctx.params.get("context") or "", read_config(state))
    if meant.own and holder(state) is None:
        raise LookupError(f"no server runs on {state}")
    rest = open_rest(meant.kubeconfig or state / "kubeconfig", meant.context)
    rest.silent_seconds = _SECONDS
    rest.namespace = meant.namespace or rest.namespace
    return rest
