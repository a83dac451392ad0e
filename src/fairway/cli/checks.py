"""What `fairway doctor` looks at: this machine, the state directory, the server, the queues.

A check finds facts and changes nothing: it starts no server, and makes no files. Each finding says what is, and if that
is not as it should be, the way out.
"""

import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from fairway.errors import ApiError, FairwayError, Forbidden, NotFound
from fairway.runtime.privacy import exposure

if TYPE_CHECKING:
    from fairway.cli.jobs.records import Waiting
    from fairway.client.rest import Rest
    from fairway.managed.configured import RunnerConfig

Severity = Literal["ok", "warning", "broken"]

_LITTLE_ROOM: Final = 1 << 30
_NO_ROOM: Final = 100 << 20
_MOST_SKEW_SECONDS: Final = 5.0
_MOST_NAMED: Final = 5
_OLDEST_PYTHON: Final = (3, 11)


class Finding(NamedTuple):
    """What one look found."""

    check: str
    severity: Severity
    message: str
    way_out: str = ""


def ok(check: str, message: str) -> Finding:
    return Finding(check, "ok", message)


def warning(check: str, message: str, way_out: str) -> Finding:
    return Finding(check, "warning", message, way_out)


def broken(check: str, message: str, way_out: str) -> Finding:
    return Finding(check, "broken", message, way_out)


# This machine


def python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Finding:
    name = ".".join(map(str, version))
    if version[:2] < _OLDEST_PYTHON:
        return broken(
            "python", f"Python {name}", "Fairway needs Python 3.11 or newer: make the environment anew with one"
        )
    return ok("python", f"Python {name}")


def installation(own: Path | None, prefix: str = sys.prefix) -> Finding:
    """Whether a `pip install` in a job could change the Python environment that Fairway runs in."""
    if own is not None:
        return ok("installation", f"Fairway is installed in {own}, which jobs do not see")
    return warning(
        "installation",
        f"Fairway is installed in the Python of {prefix}, which jobs use, too: a `pip install` in a job can break it",
        "install it in an environment of its own: `pipx install .` or `python3 -m venv`",
    )


def kubectl(path: str | None = None) -> Finding:
    import shutil  # noqa: PLC0415

    found = shutil.which("kubectl", path=path)
    if found is None:
        return warning(
            "kubectl",
            "kubectl is not on the PATH; nothing here needs it",
            "`fairway get`, `describe`, `apply` and `delete` do the same; kubectl is one file, from kubernetes.io",
        )
    return ok("kubectl", f"kubectl is {found}")


def gpus(declared: int | None) -> Finding:
    """What the driver shows beside what the node says."""
    from fairway.runner.machine import Machine, MachineError  # noqa: PLC0415

    try:
        found = Machine.detect().gpus
    except MachineError as error:
        return warning("gpus", str(error), "give --gpus to `fairway up` to say how many there are")
    if declared is not None and declared > found:
        return warning(
            "gpus",
            f"jobs may use {declared} GPUs, and the driver shows {found}",
            "that is fine for trying things out; jobs that need a GPU will not find one",
        )
    if not found:
        return ok("gpus", "no GPUs: the NVIDIA driver shows none")
    return ok("gpus", f"{found} GPU{'s' if found > 1 else ''}")


# The state directory


def state_directory(state: Path) -> Iterator[Finding]:
    if state.exists() and not state.is_dir():
        yield broken("state", f"{state} is not a directory", "choose another with --state or $FAIRWAY_STATE")
        return
    if not state.is_dir():
        above = next((one for one in state.absolute().parents if one.exists()), Path("/"))
        if not os.access(above, os.W_OK | os.X_OK):
            yield broken(
                "state",
                f"{state} is not there, and cannot be made: {above} cannot be written to",
                "choose another with --state or $FAIRWAY_STATE",
            )
            return
        yield warning("state", f"{state} is not there yet", "`fairway up` makes it, and so does any first command")
        return
    mode = stat.S_IMODE(state.stat().st_mode)
    exposed = exposure(state)
    if exposed is not None:
        yield broken("state", *exposed)
    elif not os.access(state, os.R_OK | os.W_OK | os.X_OK):
        yield broken(
            "state", f"{state} cannot be read and written (mode {mode:04o})", f"chmod 700 {shlex.quote(str(state))}"
        )
    else:
        yield ok("state", f"{state} is yours alone")
    yield disk(state)


def disk(state: Path, free: int | None = None) -> Finding:
    import shutil  # noqa: PLC0415

    free = shutil.disk_usage(state).free if free is None else free
    shown = f"{free / (1 << 30):.1f} GiB are free on the disk of {state}"
    way_out = "make room, or put the state elsewhere with --state; `fairway backup` copies it"
    if free < _NO_ROOM:
        return broken("disk", f"{shown}: writes will be refused", way_out)
    if free < _LITTLE_ROOM:
        return warning("disk", shown, way_out)
    return ok("disk", shown)


def kubeconfig(path: Path) -> Finding:
    if not path.is_file():
        return warning("kubeconfig", f"{path} is not there", "the server writes it at its start: `fairway up`")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return broken(
            "kubeconfig",
            f"{path} can be read by others (mode {mode:04o}): it has a token",
            f"chmod 600 {shlex.quote(str(path))}",
        )
    return ok("kubeconfig", f"{path} is for you alone")


def configuration(state: Path) -> Finding:
    from fairway.cli.configuration import read_config  # noqa: PLC0415
    from fairway.settings import SKYPILOT_CONFIG  # noqa: PLC0415

    try:
        found = read_config(state)
    except FairwayError as error:
        return broken("configuration", str(error), "put it right, or take the line out")
    said = [one for one in found.warnings if one.startswith(SKYPILOT_CONFIG)]
    return ok("configuration", "; ".join(["the configuration can be read", *said]))


def starting(state: Path) -> Iterator[Finding]:
    """Whether a server could be started as it was the last time; nothing to say if it was without options."""
    from fairway.cli.remembering import settings_as_before  # noqa: PLC0415

    try:
        _, options = settings_as_before(state)
    except FairwayError as error:
        yield broken("start", str(error), f"or remove {state / 'up.json'}: it starts without options then")
        return
    if options.words:
        yield ok("start", f"a server starts as with `fairway up {options.words}`")


def others() -> Iterator[Finding]:
    """Servers of other users on this machine: they use the same CPUs and GPUs."""
    from fairway.cli.others import advice, servers_of_others  # noqa: PLC0415

    found = list(servers_of_others())
    if found:
        yield warning(
            "others", f"another user's server is here: {', '.join(map(str, found[:_MOST_NAMED]))}", advice(found)
        )


# The server


def process(state: Path) -> Finding:
    from fairway.runtime.lease import holder  # noqa: PLC0415

    pid = holder(state) if state.is_dir() else None
    if pid is None:
        return warning("process", f"no server runs on {state}", "it starts by itself with any command; or `fairway up`")
    return ok("process", f"the server is process {pid}")


def supervisor(state: Path) -> Finding:
    """The process that holds the jobs."""
    import socket  # noqa: PLC0415

    from fairway.runner.supervising.places import socket_of, through  # noqa: PLC0415

    path = socket_of(state)
    try:
        with socket.socket(socket.AF_UNIX) as end, through(path.parent) as short:
            end.settimeout(5.0)
            end.connect(f"{short}/{path.name}")
    except OSError as error:
        return broken(
            "supervisor",
            f"the process that holds the jobs does not answer ({error.strerror or error})",
            f"`fairway shutdown` and `fairway up` start another; {state / 'supervisor.log'} may say why",
        )
    return ok("supervisor", "the process that holds the jobs answers")


def limits(state: Path) -> Finding:
    """What is enforced of what jobs ask for: what the supervisor can do, and what the configuration wants."""
    import msgspec  # noqa: PLC0415

    from fairway.runner.supervising.places import Enforceable, folder_of, limits_of  # noqa: PLC0415
    from fairway.runtime.lease import holder  # noqa: PLC0415

    folder = folder_of(state)
    if not folder.is_dir() or holder(folder) is None:
        return ok("limits", "no supervisor runs; what can be enforced is known when it does")
    try:
        can = msgspec.json.decode(limits_of(folder).read_bytes(), type=Enforceable)
    except (OSError, msgspec.MsgspecError):
        return warning("limits", "what is enforced is not known: the supervisor is of another release", _NEW_SUPERVISOR)
    own = _runner_configuration(state)
    wanted = {"memory": own.memory or "limit", "cpu": own.cpu or "share"}
    said = ", ".join(_enforced(name, how, can.controllers.get(name)) for name, how in wanted.items())
    if all(name in can.controllers for name, how in wanted.items() if how != "none"):
        return ok("limits", said)
    way_out = "run the server as root, or as a service with `Delegate=yes` (docs/operate/runner.md)"
    return warning("limits", f"{said}. {can.note}", way_out)


_NEW_SUPERVISOR: Final = "let the jobs end; the next server replaces it"
_MEANT: Final = {"share": "a share under contention", "limit": "a limit"}


def _enforced(name: str, how: str, version: int | None) -> str:
    if how == "none":
        return f"a task's {name} is not enforced (runner.{name}: none)"
    meant = f"a task's {name} is {_MEANT[how]}"
    return f"{meant} (control groups v{version})" if version else f"{meant} that is not enforced"


def _runner_configuration(state: Path) -> "RunnerConfig":
    from fairway.managed import config  # noqa: PLC0415
    from fairway.managed.configured import USER_FILE, RunnerConfig  # noqa: PLC0415
    from fairway.managed.tasks.errors import TaskError  # noqa: PLC0415

    try:
        return config.parse((state / USER_FILE).read_bytes(), USER_FILE).runner
    except (OSError, TaskError):  # another check tells
        return RunnerConfig()


def answer(rest: "Rest", ours: str) -> Iterator[Finding]:
    """Whether the server answers, and whether it is of this release."""
    version = rest.get("/version").get("gitVersion", "")
    yield ok("server", f"{rest.server} answers")
    _, mark, theirs = version.partition("+fairway-")
    if not mark:
        yield warning(
            "version", f"{rest.server} is {version or 'of no known release'}, not a Fairway server", "see --context"
        )
    elif theirs != ours:
        yield warning(
            "version",
            f"the server is Fairway {theirs}, this is {ours}",
            "`fairway shutdown` and `fairway up` start this one; jobs go on meanwhile",
        )
    else:
        yield ok("version", f"the server is Fairway {theirs}, as this is")


def clock(rest: "Rest", namespace: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Finding:
    """The server's clock, by what it would write on a new object, beside ours."""
    from fairway.client.rest import paths  # noqa: PLC0415

    draft = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "clock-"}}
    try:
        made = rest.create(paths.resource("v1", "configmaps", namespace), draft, dryRun="All")
    except ApiError as error:
        return warning(
            "clock", f"the server does not tell its time: {error}", "a user who may create ConfigMaps can ask"
        )
    theirs = datetime.fromisoformat(made["metadata"]["creationTimestamp"])
    skew = (now() - theirs).total_seconds()
    if abs(skew) > _MOST_SKEW_SECONDS:
        order = "behind" if skew > 0 else "ahead of"
        return warning(
            "clock",
            f"the server's clock is {abs(skew):.0f} s {order} ours",
            "set both by NTP: ages and waiting times are wrong until then",
        )
    return ok("clock", "the clocks agree")


# Queues and jobs


def queues(rest: "Rest", namespace: str) -> Iterator[Finding]:
    from fairway.cli.quotas import API, cluster_queue, local_queue  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    local = [local_queue(one) for one in rest.get(paths.resource(API, "localqueues", namespace))["items"]]
    yield default_queue(local, namespace)
    found = [cluster_queue(one) for one in rest.get(paths.resource(API, "clusterqueues"))["items"]]
    stopped = [queue for queue in found if not queue.active]
    for queue in stopped:
        yield warning(
            "queues",
            f"ClusterQueue {queue.name} admits nothing: {queue.trouble}",
            f"`fairway describe clusterqueue {queue.name}` shows what it names",
        )
    if found and not stopped:
        yield ok("queues", f"{len(found)} ClusterQueue{'s are' if len(found) > 1 else ' is'} active")
    if not found:
        yield warning("queues", "there is no ClusterQueue, so nothing is admitted", "`fairway apply -f FILE` makes one")


def commitment(rest: "Rest") -> Iterator[Finding]:
    """Quotas that add up to more than the nodes have; nothing to say if they do not."""
    from fairway.cli.quotas import API  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.model.commitment import allocatable, promised, warnings  # noqa: PLC0415

    try:
        found = rest.get(paths.resource("v1", "nodes"))["items"]
    except Forbidden:  # whoever is at home in one namespace sees no nodes, and can change no quota
        return
    queues = {one["metadata"]["name"]: promised(one) for one in rest.get(paths.resource(API, "clusterqueues"))["items"]}
    nodes = {one["metadata"]["name"]: allocatable(one) for one in found}
    for said in warnings(queues, nodes):
        yield warning("quotas", said, "lower the quotas, add nodes, or leave it so if that is meant")


def default_queue(local: list[Any], namespace: str) -> Finding:
    queue = next((one for one in local if one.name == "default"), None)
    if queue is None:
        names = ", ".join(one.name for one in local[:_MOST_NAMED])
        there = f"; there are {names}" if names else ""
        return warning(
            "default queue",
            f"namespace {namespace} has no LocalQueue `default`{there}",
            "jobs that name no queue wait until there is one; or say --queue, or set a queue in the configuration",
        )
    if not queue.active:
        return warning(
            "default queue",
            f"the LocalQueue `default` of {namespace} admits nothing: {queue.trouble}",
            f"`fairway describe clusterqueue {queue.cluster_queue}` shows more",
        )
    return ok("default queue", f"the LocalQueue `default` of {namespace} leads to {queue.cluster_queue}")


def waiting_jobs(rest: "Rest", namespace: str) -> Iterator[Finding]:
    """Jobs that wait: all of them, or those of a namespace where one may not see the others."""
    from fairway.cli.jobs.queue import who_waits  # noqa: PLC0415

    try:
        waiting = who_waits(rest, None)
    except Forbidden:
        waiting = who_waits(rest, namespace)
    yield hopeless(waiting)
    placed = [one for one in waiting if one.outcome == "WaitingForNode"]
    if placed:
        names = _named(placed)
        yield warning(
            "nodes",
            f"{len(placed)} with quota wait for a node: {names} ({placed[0].message.partition(': ')[2]})",
            "more is admitted than the nodes have room for: end what runs outside the queues, or lower the quotas",
        )


def outside(rest: "Rest") -> Iterator[Finding]:
    """What runs outside every queue; nothing to say if nothing does."""
    from fairway.cli.outside import outsiders, sentence  # noqa: PLC0415

    said = sentence(outsiders(rest))
    if said:
        yield warning(
            "outside",
            said,
            "label them kueue.x-k8s.io/queue-name; `jobsOutsideQueues: Deny` in ConfigMap kueue-system/fairway-config "
            "forbids it",
        )


def _named(waiting: "Sequence[Waiting]") -> str:
    names = [one.owner.name if one.owner else one.metadata.name for one in waiting[:_MOST_NAMED]]
    return ", ".join(names) + (f" and {len(waiting) - _MOST_NAMED} more" if len(waiting) > _MOST_NAMED else "")


def hopeless(waiting: "Sequence[Waiting]") -> Finding:
    """Those that can never run as things are."""
    found = [one for one in waiting if not one.can_ever_run]
    if not found:
        return ok("jobs", f"{len(waiting)} wait, and all of them can run some day" if waiting else "no job waits")
    names = [one.owner.name if one.owner else one.metadata.name for one in found[:_MOST_NAMED]]
    return warning(
        "jobs",
        f"{len(found)} of {len(waiting)} that wait can never run as things are: {_named(found)}",
        f"`fairway jobs why {names[0]}` says what they ask for that nobody has",
    )


def not_run(rest: "Rest", namespace: str) -> Iterator[Finding]:
    """Objects of kinds that are stored and not run, which the server has said so of."""
    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.kinds.kind import NOT_RUN  # noqa: PLC0415
    from fairway.kinds.registry import default_registry  # noqa: PLC0415

    for kind in default_registry().kinds:
        if kind.not_run is None:
            continue
        version = kind.api_version(kind.stored)
        try:
            items = rest.get(paths.resource(version, kind.plural))["items"]
        except Forbidden:
            items = rest.get(paths.resource(version, kind.plural, namespace))["items"]
        except NotFound:
            continue
        found = [one["metadata"]["name"] for one in items if (one.get("status") or {}).get("reason") == NOT_RUN]
        if found:
            more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            count = f"{len(found)} {kind.kind}{'s are' if len(found) > 1 else ' is'} stored and not run"
            yield warning("not run", f"{count}: {', '.join(found[:_MOST_NAMED])}{more}", kind.not_run.message)


def declared_gpus(rest: "Rest") -> int | None:
    """How many GPUs the nodes say they have."""
    from fairway.client.rest import paths  # noqa: PLC0415

    nodes = rest.get(paths.resource("v1", "nodes"))["items"]
    amounts = [((node.get("status") or {}).get("allocatable") or {}).get("nvidia.com/gpu", "0") for node in nodes]
    return sum(int(amount) for amount in amounts if str(amount).isdigit()) if nodes else None
