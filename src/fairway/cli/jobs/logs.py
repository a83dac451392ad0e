"""`fairway jobs logs`."""

from typing import Any

import click

from fairway.cli.completion import job_names
from fairway.cli.reading import meant, read, reading_options
from fairway.cli.session import open_session


@click.command()
@click.argument("job", nargs=-1, metavar="[ID|NAME]", shell_complete=job_names)
@click.option("--name", "-n", default="", metavar="NAME", help="The newest job that is called so.")
@reading_options
def logs(*, job: tuple[str, ...], name: str, **options: Any) -> None:
    """Show what a job wrote, and go on until it has ended.

    Without a job, the newest of mine. Setup comes before run; of several nodes, each line is behind the name of its
    node. When the job comes back after a preemption, the next attempt follows, with a line that says what happened.
    What a job wrote stays until it is deleted, all attempts of it. Lines of the job go to standard output, lines about
    the job to standard error; Ctrl-C leaves the job alone.

    \b
    Examples:
      fairway jobs logs 3
      fairway jobs logs --no-follow --tail 100 train
      fairway jobs logs 3 --attempt 1
      fairway jobs logs 3 --attempt all --rank 0 --timestamps
    """
    if len(job) > 1:
        raise click.UsageError("one job at a time; say --task for a task of a pipeline")
    where = {one: options.pop(one) for one in ("state", "kubeconfig", "context", "namespace")}
    with open_session(**where) as session:
        read(session, meant(session, job, name), **options)
