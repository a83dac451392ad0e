"""From what people type to jobs that a server has: the part that `launch` and `jobs launch` share.

    wanted = understand(words, given, state=..., recover=True)      checked; nothing is sent yet, no server is needed
    launch = manifests(wanted, files)                               what the server is to have
    jobs = create(session, launch, packages)                        all of it at once

What a task may say is in `fairway.managedjobs.tasks`, what the jobs look like in `fairway.managedjobs.making`; how
they are followed afterwards is in `following`.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from fairway.cli.announcing import announcement, ending, ids, summary
from fairway.cli.changing import missing
from fairway.cli.choosing import has_ended, id_of, phase_of, title
from fairway.cli.completion import directories, files, queue_names
from fairway.cli.options import with_options
from fairway.cli.session import (
    Session,
    open_session,
    output_option,
    print_note,
    session_options,
    system_user,
    without_number,
)
from fairway.cli.tables import as_json
from fairway.client.rest import paths
from fairway.errors import FairwayError, NotFound
from fairway.managedjobs.tasks.task import node_count

if TYPE_CHECKING:
    from fairway.cli.sending import Packages
    from fairway.managedjobs.configured import LaunchConfig
    from fairway.managedjobs.making import Launch
    from fairway.managedjobs.tasks.documents import TaskFile
    from fairway.managedjobs.tasks.files import Mount
    from fairway.managedjobs.tasks.overrides import Overrides
    from fairway.managedjobs.tasks.parse import ParsedFile
    from fairway.managedjobs.tasks.task import Files

Command = TypeVar("Command", bound=Callable[..., Any])
Manifest = dict[str, Any]

_TASK_FILES: Final = (".yaml", ".yml")
_STDIN: Final = "-"

TRANSACTION_BYTES: Final = 16 << 20
TRANSACTION_OPERATIONS: Final = 10_000
"""More than either goes in several transactions."""


class JobsGone(FairwayError):
    """Jobs were made, and deleted before the answer arrived."""


class NameTaken(FairwayError):
    """There is something of that name, and it lives."""


def launching_options(command: Command) -> Command:
    """What can be said about a task besides what its file says, and how it is launched."""
    return with_options(command, [*_launch_options(), *_task_options(), output_option, session_options])


def _launch_options() -> "list[Callable[[Command], Command]]":
    """The task itself, how it is submitted, its variables and secrets."""
    return [
        click.argument("task", nargs=-1, metavar="TASK.yaml | COMMAND...", shell_complete=files),
        click.option("--yes", "-y", is_flag=True, help="Accepted for SkyPilot compatibility; launch never asks."),
        click.option(
            "--detach-run",
            "--detach",
            "-d",
            "detach",
            is_flag=True,
            help="Return once submitted; do not follow the log.",
        ),
        click.option("--async", "asynchronous", is_flag=True, help="Print only the job id and return."),
        click.option("--dryrun", is_flag=True, help="Validate and print what would be launched; submit nothing."),
        click.option(
            "--env",
            "envs",
            multiple=True,
            metavar="K[=V]",
            help="Set an environment variable; without =V, copy it from this shell. Repeatable.",
        ),
        click.option(
            "--env-file",
            "env_files",
            multiple=True,
            metavar="FILE",
            shell_complete=files,
            help="Read environment variables from a file, one K=V per line.",
        ),
        click.option(
            "--secret",
            "secrets",
            multiple=True,
            metavar="K[=V]",
            help="Like --env, but stored in a Secret. Without =V the value stays out of the shell history.",
        ),
        click.option(
            "--secret-file",
            "secret_files",
            multiple=True,
            metavar="FILE",
            shell_complete=files,
            help="Read secrets from a file, one K=V per line.",
        ),
    ]


def _task_options() -> "list[Callable[[Command], Command]]":
    """Queue, priority, resources and files: flags that win over the fields of a task file."""
    return [
        click.option("--priority", metavar="INT|CLASS", help="Priority: a number or a WorkloadPriorityClass."),
        click.option(
            "--queue", default="", metavar="NAME", shell_complete=queue_names, help="LocalQueue to submit to."
        ),
        click.option(
            "--org", default="", metavar="NAME", help="Organization: launch in your team of it.  [default: your own]"
        ),
        click.option("--type", "job_type", default="", metavar="NAME", help="Job type: a LocalQueue of your team."),
        click.option("--num-nodes", type=int, metavar="N", help="Number of nodes; all start together."),
        click.option("--cpus", default="", metavar="AMOUNT", help="CPUs per node: 4, 0.5, 4+."),
        click.option("--memory", default="", metavar="AMOUNT", help="Memory per node: 16, 16GB, 16+."),
        click.option("--gpus", default="", metavar="NAME:N", help="GPUs per node: T4:4, or a number for any model."),
        click.option(
            "--disk-size",
            default="",
            metavar="AMOUNT",
            help="Accepted for SkyPilot compatibility; disks have no quota.",
        ),
        click.option(
            "--infra", default="", metavar="INFRA", help="Where to run: k8s is this server, k8s/CONTEXT another one."
        ),
        click.option(
            "--image-id", default="", metavar="IMAGE", help="Container image, where the nodes run containers."
        ),
        click.option(
            "--workdir",
            default="",
            metavar="DIR",
            shell_complete=directories,
            help="Run in a copy of this directory, or `none`.  [default: for a command, the current directory]",
        ),
        click.option(
            "--in-place", is_flag=True, help="Run in the directory itself instead of a copy; this machine only."
        ),
        click.option(
            "--max-duration",
            default="",
            metavar="TIME",
            help="Time limit for all attempts together: 90s, 30m, 12h, 2d.",
        ),
        click.option(
            "--job-recovery",
            default="",
            metavar="STRATEGY",
            help="Accepted for SkyPilot compatibility; there is one strategy.",
        ),
        click.option(
            "--config",
            "settings",
            multiple=True,
            metavar="K=V|FILE",
            help="Override configuration for this launch, such as kubernetes.provision_timeout=600. Repeatable.",
        ),
    ]


class LaunchRequest(NamedTuple):
    """What is to be launched, understood and checked."""

    parsed: "ParsedFile"
    overrides: "Overrides"
    config: "LaunchConfig"

    @property
    def name(self) -> str:
        from fairway.managedjobs import making  # noqa: PLC0415 - help must not wait for it

        return making.display_name(self.parsed, self.overrides)


def understand(words: Sequence[str], given: Mapping[str, Any], *, state: Path, **launch: Any) -> LaunchRequest:
    """Read the task, the configuration and the options; `launch` goes to the overrides as it is.

    Errors are `TaskError`s. Nothing is sent, and the server is not used.
    """
    from fairway.cli import here  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.configuration import read_config, text_of  # noqa: PLC0415
    from fairway.cli.servers import target  # noqa: PLC0415
    from fairway.managedjobs.tasks import documents, overrides, parse  # noqa: PLC0415

    file = _read(words, given)
    config = read_config(state, given["settings"])
    own = target(state, given["kubeconfig"], given["context"], config).own

    def variables(flag: str, files: Sequence[str], pairs: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in files:
            found |= overrides.env_file(documents.decoded(text_of(Path(name)), name), name)
        found |= dict(overrides.env_pair(pair, flag, os.environ) for pair in pairs)
        return found

    plain = ("priority", "queue", "num_nodes", "cpus", "memory", "gpus", "disk_size", "infra", "image_id", "workdir")
    asked = overrides.Overrides(
        envs=variables("--env", given["env_files"], given["envs"]),
        secrets=variables("--secret", given["secret_files"], given["secrets"]),
        max_duration=given["max_duration"],
        job_recovery=given["job_recovery"],
        user=system_user() if own else "",
        **{name: given[name] for name in plain},
        **launch,
    )
    parsed = parse.tasks_of(file, asked)
    if own and not file.file:
        parsed = here.with_shell(parsed)
    for one in parsed.tasks:
        for mount in one.mounts:
            _check_there(mount)
    if given["in_place"]:
        parsed = here.in_place(parsed, state, own=own)
    return LaunchRequest(parsed, asked, config)


def _read(words: Sequence[str], given: Mapping[str, Any]) -> "TaskFile":
    """The tasks that the words name: of a file, of standard input, or of the command that they are."""
    from fairway.cli.here import bare_command  # noqa: PLC0415 - help must not wait for it
    from fairway.managedjobs.tasks import documents  # noqa: PLC0415
    from fairway.managedjobs.tasks.errors import TaskError  # noqa: PLC0415

    if not words:
        raise click.UsageError("give a task file or a command, such as: fairway jobs launch -- python train.py")
    if len(words) > 1:
        return bare_command(words, given)
    (word,) = words
    if word == _STDIN:
        return documents.read(sys.stdin.buffer.read(), "<stdin>")
    path = Path(word).expanduser()
    if _is_task_file(path):
        try:
            return documents.read(path.read_bytes(), word)
        except OSError as error:
            raise TaskError(f"the file cannot be read: {error.strerror}", file=word) from None
    if _is_directory(path) or (word.endswith(_TASK_FILES) and not any(letter.isspace() for letter in word)):
        raise TaskError(_not_there(path), file=word)
    return bare_command(words, given)


def _is_task_file(path: Path) -> bool:
    """Whether a word means a file to read; a program that is there is a command."""
    try:
        return path.is_file() and (path.suffix in _TASK_FILES or not os.access(path, os.X_OK))
    except (OSError, ValueError):  # a command that is too long for a path
        return False


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _not_there(path: Path) -> str:
    import difflib  # noqa: PLC0415 - only for those who mistype

    if path.is_dir():
        return "this is a directory; name a task file in it"
    there = {one.stem: one for one in path.parent.glob("*.y*ml")} if path.parent.is_dir() else {}
    near = difflib.get_close_matches(path.stem, there, n=1, cutoff=0.5)
    hint = f"did you mean {there[near[0]]}?" if near else "is the path right?"
    return f"there is no such file; {hint}"


def source_of(mount: "Mount") -> Path:
    """Where the files of a mount are, on this machine."""
    return Path(mount.source).expanduser().absolute()


def _check_there(mount: "Mount") -> None:
    source = source_of(mount)
    if not source.exists():
        raise mount.where.error(f"{mount.source} does not exist; looked for {source}")
    if mount.path == "." and not source.is_dir():
        raise mount.where.error(f"{mount.source} is not a directory; the workdir of a task is one")


def manifests(wanted: LaunchRequest, files: "Sequence[Sequence[Files]]") -> "Launch":
    """Create the Secret, if there is one, and the jobs; print warnings."""
    from fairway.managedjobs import making  # noqa: PLC0415 - help must not wait for it

    launch = making.job_manifests(
        wanted.parsed,
        wanted.config,
        wanted.overrides,
        files=files,
        secret_name=f"{making.generate_name(wanted.name)}{_unique()}" if wanted.parsed.has_secrets else "",
        array=_unique() if wanted.overrides.num_jobs > 1 else "",
    )
    for warning in launch.warnings:
        print_note(f"warning: {warning}")
    return launch


def create(
    session: Session, launch: "Launch", packages: "Packages", *, replacing: Sequence[Manifest] = ()
) -> list[Manifest]:
    """Send the files and make all jobs, at once on a server of ours; jobs that they replace go in the same moment."""
    if session.is_cluster:
        return _create_on_cluster(session, launch, packages, replacing)
    from fairway.cli.writing import write  # noqa: PLC0415 - help must not wait for it

    packages.upload(session)
    operations: list[Manifest] = [
        {
            "verb": "delete",
            "apiVersion": old["apiVersion"],
            "kind": old["kind"],
            "name": old["metadata"]["name"],
            "uid": old["metadata"]["uid"],
        }
        for old in replacing
    ]
    if launch.secret is not None:
        operations.append({"verb": "create", "manifest": launch.secret})
    before = len(operations)
    operations += [{"verb": "create", "manifest": job} for job in launch.jobs]
    made: list[Manifest] = []
    for part in _parts(operations):
        made += write(session, part)
    jobs = made[before:]
    if None in jobs:
        raise JobsGone("the jobs were submitted, but some have been deleted since; `fairway queue -a` lists the others")
    return jobs


def _create_on_cluster(
    session: Session, launch: "Launch", packages: "Packages", replacing: Sequence[Manifest]
) -> list[Manifest]:
    """Files and secrets first, then the jobs; what was made is deleted again if something fails."""
    from fairway.cli.writing import create_jobs, remove_job  # noqa: PLC0415 - only for clusters
    from fairway.client.clusterlaunch import ClusterLaunch  # noqa: PLC0415

    unique = _unique()
    with ClusterLaunch(session.rest, session.namespace, unique) as made:
        jobs = packages.store(made, launch.jobs)
        if launch.secret is not None:
            made.add_secret(launch.secret)
        for old in replacing:
            remove_job(session, old)
        return create_jobs(session, jobs, unique, then=made.own)


def _unique() -> str:
    return os.urandom(4).hex()


def _parts(operations: list[Manifest]) -> Iterator[list[Manifest]]:
    """As few transactions as the server takes."""
    import msgspec  # noqa: PLC0415 - help must not wait for it

    largest = max((len(msgspec.json.encode(one)) for one in operations[:4]), default=1)
    at_once = max(1, min(TRANSACTION_OPERATIONS, TRANSACTION_BYTES // largest))
    for start in range(0, len(operations), at_once):
        yield operations[start : start + at_once]


def run(words: Sequence[str], given: dict[str, Any], *, words_after: Callable[[str], str], **launch: Any) -> int:
    """A whole launch, from the words to the exit code; `words_after` says what to type next, for an id or a name."""
    from fairway.cli.sending import packed  # noqa: PLC0415 - help must not wait for it

    where = {name: given.pop(name) for name in ("state", "kubeconfig", "context", "namespace")}
    org, job_type = given.pop("org"), given.pop("job_type")
    if job_type:
        from fairway.cli.organizing import queue_of  # noqa: PLC0415

        given["queue"] = queue_of(given["queue"], job_type)
    wanted = understand(words, {**given, **where}, state=where["state"], **launch)
    with packed(wanted) as packages:
        made = manifests(wanted, packages.files)
        if given["dryrun"]:
            _complete(wanted, made, None)
            _show_dry_run(wanted, made.jobs, given["output"])
            return 0
        with open_session(**where, config=wanted.config) as session:
            if org or job_type:
                from fairway.cli.organizing import team_namespace  # noqa: PLC0415
                from fairway.schedulers.names import JOB_TYPE  # noqa: PLC0415

                session.namespace = team_namespace(session, org, job_type, chosen=bool(where["namespace"]))
                for job in made.jobs if job_type else ():
                    job["metadata"].setdefault("labels", {})[JOB_TYPE] = job_type
            _complete(wanted, made, session)
            replaced = _predecessor(session, wanted.overrides.cluster)
            jobs = create(session, made, packages, replacing=replaced)
            for warning in (*session.rest.warnings, *_missing_references(session, jobs[0])):
                print_note(f"warning: {without_number(warning)}")
            return _follow_or_announce(session, jobs, given, words_after)


def _complete(wanted: LaunchRequest, made: "Launch", session: Session | None) -> None:
    """Complete the jobs for the scheduler that is configured for them, if any is."""
    config = wanted.config.queueconfig
    if config is None:
        return
    from fairway.cli.scheduling import author_at, complete_launch  # noqa: PLC0415 - hardly anybody configures one
    from fairway.schedulers.scheduling import Author  # noqa: PLC0415

    namespace = wanted.config.namespace or "default"
    author = author_at(session, session.namespace) if session else Author(system_user(), namespace=namespace)
    for warning in complete_launch(made.jobs, config, author):
        print_note(f"warning: {warning}")


def _missing_references(session: Session, job: Manifest) -> Iterator[str]:
    """Warnings about a queue or priority class that does not exist: the job would wait for it."""
    spec = job["spec"]
    if spec.get("queue"):
        yield from missing(session, "LocalQueue", "localqueues", spec["queue"])
    if spec.get("priorityClass"):
        yield from missing(session, "WorkloadPriorityClass", "workloadpriorityclasses", spec["priorityClass"])


def _follow_or_announce(
    session: Session, jobs: list[Manifest], given: Mapping[str, Any], words_after: Callable[[str], str]
) -> int:
    """Say what was launched, in the form that is wanted, and follow it if it is to be followed."""
    place = "" if session.own else session.place
    if given["output"] == "json":
        click.echo(as_json([summary(job) for job in jobs]))
    elif given["asynchronous"]:
        click.echo(ids(jobs))
    elif given["detach"] or len(jobs) > 1:
        click.echo(f"{announcement(jobs, place)}\n{words_after(ids(jobs))}")
        _warn_of_hopeless(session, jobs)
    else:
        print_note(announcement(jobs, place))
        return _follow(session, jobs[0], words_after)
    return 0


def _warn_of_hopeless(session: Session, jobs: list[Manifest]) -> None:
    """Say so if they can never run; those of one launch are alike, so the first speaks for all."""
    from fairway.cli.prospects import cannot_run  # noqa: PLC0415 - not for those who follow

    why = cannot_run(session, jobs[0])
    if why:
        who = f"job {title(jobs[0])}" if len(jobs) == 1 else f"jobs {ids(jobs)}"
        print_note(
            f"warning: {who} can never run with the current nodes and quotas: {why}; see "
            f"`fairway jobs why {id_of(jobs[0])}`"
        )


def _predecessor(session: Session, name: str) -> list[Manifest]:
    """The launch of the same name, if there was one; while it lives, its name is taken."""
    if not name:
        return []
    try:
        old: Manifest = session.rest.get(paths.job(session.namespace, name))
    except NotFound:
        return []
    if old["spec"].get("recover", True):
        raise NameTaken(
            f"{name} is the managed job {id_of(old)}; choose another name with -c, or remove it with "
            f"`fairway down {name}`"
        )
    if not has_ended(old):
        raise NameTaken(
            f"{name} is {phase_of(old)} (job {id_of(old)}); end it with `fairway down {name}`, "
            "or choose another name with -c"
        )
    return [old]


def _follow(session: Session, job: Manifest, words_after: Callable[[str], str]) -> int:
    from fairway.cli.following import follow  # noqa: PLC0415 - not for those who detach
    from fairway.cli.results import left_files  # noqa: PLC0415

    try:
        ended = follow(session, job)
    except KeyboardInterrupt:
        print_note(f"\nJob {title(job)} keeps running.\n{words_after(str(id_of(job)))}")
        return 130
    print_note(ending(ended))
    if left_files(session, ended):
        print_note(f"Files: `fairway jobs files {id_of(ended)}`, `fairway jobs download {id_of(ended)}`")
    return 0 if phase_of(ended) == "SUCCEEDED" else 1


def _show_dry_run(wanted: LaunchRequest, jobs: Sequence[Manifest], output: str) -> None:
    if output == "json":
        click.echo(as_json(jobs))
        return
    tasks = jobs[0]["spec"]["tasks"]
    for number, task in enumerate(tasks, 1):
        nodes = node_count(task)
        asks = ", ".join(f"{name} {value}" for name, value in (task.get("resources") or {}).items())
        which = f"Task {number}" if len(tasks) > 1 else "It"
        click.echo(f"{which} asks for {nodes} {'node' if nodes == 1 else 'nodes'}" + (f": {asks}" if asks else ""))
    what = f"{len(jobs)} jobs" if len(jobs) > 1 else "job"
    click.echo(f"Nothing was submitted; without --dryrun this would launch {what} {wanted.name}.")
