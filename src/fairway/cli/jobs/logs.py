"""`fairway jobs logs`, which is `fairway logs` as well."""

from typing import Any

import click

from fairway.cli.choosing import NoSuchJobError
from fairway.cli.completion import job_names
from fairway.cli.reading import meant, pod_named, read, read_pod, reading_options
from fairway.cli.session import open_session


@click.command()
@click.argument("job", nargs=-1, metavar="[ID|NAME|pod/NAME]", shell_complete=job_names)
@click.option("--name", "-n", default="", metavar="NAME", help="The newest job with this name.")
@reading_options
def logs(*, job: tuple[str, ...], name: str, **options: Any) -> None:
    """Print the log of a job, and follow it until the job has ended.

    Without an argument, prints the log of your newest job. Setup comes before run; with several nodes, each line begins
    with the name of its node. After a restart, the log of the next attempt follows, after a line that says what
    happened. Logs of all attempts are kept until the job is deleted. The log goes to standard output, remarks to
    standard error. Ctrl-C ends the command, not the job.

    pod/NAME prints the log of a pod, as does a name that matches a pod and no job.

    \b
    Examples:
      fairway logs 3
      fairway logs --no-follow --tail 100 train
      fairway jobs logs 3 --attempt 1
      fairway jobs logs 3 --attempt all --rank 0 --timestamps
      fairway logs pod/sample-job-abcde -c main
    """
    if len(job) > 1:
        raise click.UsageError("one job at a time; use --task for a task of a pipeline")
    where = {one: options.pop(one) for one in ("state", "kubeconfig", "context", "namespace")}
    container = options.pop("container")
    with open_session(**where) as session:
        kind, slash, pod = job[0].partition("/") if job else ("", "", "")
        if slash:
            if kind not in ("pod", "pods", "po"):
                raise click.UsageError(f"{job[0]!r}: name a job by its id or name, or a pod as pod/NAME")
            read_pod(session, pod, container, **options)
            return
        try:
            found = meant(session, job, name)
        except NoSuchJobError:
            if not (job and pod_named(session, job[0])):
                raise
            read_pod(session, job[0], container, **options)
            return
        if container:
            raise click.UsageError("--container is for pods; a job's log has its setup and its run")
        read(session, found, **options)
