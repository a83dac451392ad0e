"""The checks of `fairway doctor`: this machine, the state directory, the server, the queues.

Checks are read-only: they start no server and create no files. A finding that is not OK comes with a fix.
"""

import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from fairway.cli.session import MARK
from fairway.errors import ApiError, FairwayError, Forbidden, NotFound
from fairway.runtime.privacy import exposure

if TYPE_CHECKING:
    from fairway.cli.jobs.records import PendingRow
    from fairway.cli.session import Session
    from fairway.client.rest import Rest
    from fairway.managedjobs.configured import RunnerConfig

Severity = Literal["ok", "warning", "broken"]

_LITTLE_ROOM: Final = 1 << 30
_NO_ROOM: Final = 100 << 20
_MOST_SKEW_SECONDS: Final = 5.0
_MOST_NAMED: Final = 5
_OLDEST_PYTHON: Final = (3, 11)


class Finding(NamedTuple):
    """The result of one check."""

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
            "python", f"Python {name}", "Fairway needs Python 3.11 or newer: create a new virtual environment with it"
        )
    return ok("python", f"Python {name}")


def installation(own: Path | None, prefix: str = sys.prefix) -> Finding:
    """Whether a `pip install` in a job could change the Python environment that Fairway runs in."""
    if own is not None:
        return ok("installation", f"Fairway is installed in {own}, separate from the Python of jobs")
    return warning(
        "installation",
        f"Fairway is installed in the Python of {prefix}, which jobs also use: a `pip install` in a job can break it",
        "install it in its own environment: `pipx install .` or `python3 -m venv`",
    )


def kubectl(path: str | None = None) -> Finding:
    import shutil  # noqa: PLC0415

    found = shutil.which("kubectl", path=path)
    if found is None:
        return warning(
            "kubectl",
            "kubectl is not on the PATH (optional)",
            "use `fairway get`, `describe`, `apply` and `delete` instead, or install kubectl from kubernetes.io",
        )
    return ok("kubectl", f"kubectl is {found}")


def gpus(declared: int | None) -> Finding:
    """Compare the GPUs of the driver with those of the Node."""
    from fairway.runner.machine import Machine, MachineError  # noqa: PLC0415

    try:
        found = Machine.detect().gpus
    except MachineError as error:
        return warning("gpus", str(error), "declare the number of GPUs with `fairway up --gpus N`")
    if declared is not None and declared > found:
        return warning(
            "gpus",
            f"{declared} GPUs are declared, but the driver reports {found}",
            "fine for tests; jobs that need a real GPU will not find one",
        )
    if not found:
        return ok("gpus", "no GPUs: the NVIDIA driver reports none")
    return ok("gpus", f"{found} GPU{'s' if found > 1 else ''}")


# The state directory


def state_directory(state: Path) -> Iterator[Finding]:
    if state.exists() and not state.is_dir():
        yield broken("state", f"{state} is not a directory", "choose another directory with --state or $FAIRWAY_STATE")
        return
    if not state.is_dir():
        above = next((one for one in state.absolute().parents if one.exists()), Path("/"))
        if not os.access(above, os.W_OK | os.X_OK):
            yield broken(
                "state",
                f"{state} does not exist and cannot be created: {above} is not writable",
                "choose another directory with --state or $FAIRWAY_STATE",
            )
            return
        yield warning(
            "state",
            f"{state} does not exist yet",
            "`fairway up` creates it, as does any command that starts the server",
        )
        return
    mode = stat.S_IMODE(state.stat().st_mode)
    exposed = exposure(state)
    if exposed is not None:
        yield broken("state", *exposed)
    elif not os.access(state, os.R_OK | os.W_OK | os.X_OK):
        yield broken(
            "state", f"{state} is not readable and writable (mode {mode:04o})", f"chmod 700 {shlex.quote(str(state))}"
        )
    else:
        yield ok("state", f"{state} is private (mode {mode:04o})")
    yield disk(state)


def disk(state: Path, free: int | None = None) -> Finding:
    import shutil  # noqa: PLC0415

    free = shutil.disk_usage(state).free if free is None else free
    shown = f"{free / (1 << 30):.1f}Gi free on the disk of {state}"
    way_out = "free disk space, or move the state: `fairway backup`, then `fairway restore --state DIR`"
    if free < _NO_ROOM:
        return broken("disk", f"{shown}: writes will fail", way_out)
    if free < _LITTLE_ROOM:
        return warning("disk", shown, way_out)
    return ok("disk", shown)


def kubeconfig(path: Path) -> Finding:
    if not path.is_file():
        return warning("kubeconfig", f"{path} does not exist", "the server writes it when it starts: `fairway up`")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return broken(
            "kubeconfig",
            f"{path} can be read by others (mode {mode:04o}): it has a token",
            f"chmod 600 {shlex.quote(str(path))}",
        )
    return ok("kubeconfig", f"{path} is private (mode {mode:04o})")


def configuration(state: Path) -> Finding:
    from fairway.cli.configuration import read_config  # noqa: PLC0415
    from fairway.settings import SKYPILOT_CONFIG  # noqa: PLC0415

    try:
        found = read_config(state)
    except FairwayError as error:
        return broken("configuration", str(error), "correct the line or remove it")
    said = [one for one in found.warnings if one.startswith(SKYPILOT_CONFIG)]
    return ok("configuration", "; ".join(["the configuration is valid", *said]))


def starting(state: Path) -> Iterator[Finding]:
    """Whether a server could be started as it was the last time; nothing to say if it was without options."""
    from fairway.cli.remembering import settings_as_before  # noqa: PLC0415

    try:
        _, options = settings_as_before(state)
    except FairwayError as error:
        yield broken("start", str(error), f"correct it, or remove {state / 'up.json'} to start without saved options")
        return
    if options.words:
        yield ok("start", f"saved options of `fairway up`: {options.words}")


def others() -> Iterator[Finding]:
    """Servers of other users on this machine: they use the same CPUs and GPUs."""
    from fairway.cli.others import advice, servers_of_others  # noqa: PLC0415

    found = list(servers_of_others())
    if found:
        yield warning(
            "others",
            f"servers of other users on this machine: {', '.join(map(str, found[:_MOST_NAMED]))}",
            advice(found),
        )


# The server


def process(state: Path) -> Finding:
    from fairway.runtime.lease import holder  # noqa: PLC0415

    pid = holder(state) if state.is_dir() else None
    if pid is None:
        return warning(
            "process", f"no server runs on {state}", "start it with `fairway up`, or with any command that needs it"
        )
    return ok("process", f"the server is process {pid}")


def supervisor(state: Path) -> Finding:
    """Whether the supervisor, the parent of the job processes, answers."""
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
            f"the supervisor of the job processes does not answer ({error.strerror or error})",
            f"restart it with `fairway shutdown` and `fairway up`; see {state / 'supervisor.log'}",
        )
    return ok("supervisor", "the supervisor of the job processes answers")


def limits(state: Path) -> Finding:
    """What is enforced of what jobs ask for: what the supervisor can do, and what the configuration wants."""
    import msgspec  # noqa: PLC0415

    from fairway.runner.supervising.places import Enforceable, folder_of, limits_of  # noqa: PLC0415
    from fairway.runtime.lease import holder  # noqa: PLC0415

    folder = folder_of(state)
    if not folder.is_dir() or holder(folder) is None:
        return ok("limits", "no supervisor runs; which limits can be enforced is known once it does")
    try:
        can = msgspec.json.decode(limits_of(folder).read_bytes(), type=Enforceable)
    except (OSError, msgspec.MsgspecError):
        return warning("limits", "enforced limits are unknown: the supervisor is from another release", _NEW_SUPERVISOR)
    own = _runner_configuration(state)
    wanted = {"memory": own.memory or "limit", "cpu": own.cpu or "share"}
    said = ", ".join(_enforced(name, how, can.controllers.get(name)) for name, how in wanted.items())
    if all(name in can.controllers for name, how in wanted.items() if how != "none"):
        return ok("limits", said)
    way_out = "run the server as root, or as a service with `Delegate=yes` (docs/operate/runner.md)"
    return warning("limits", f"{said}. {can.note}", way_out)


_NEW_SUPERVISOR: Final = "the next server start replaces it once all jobs have ended"
_MEANT: Final = {"share": "a share under contention", "limit": "a limit"}


def _enforced(name: str, how: str, version: int | None) -> str:
    if how == "none":
        return f"a task's {name} is not enforced (runner.{name}: none)"
    meant = f"a task's {name} is {_MEANT[how]}"
    return f"{meant} (control groups v{version})" if version else f"{meant} that is not enforced"


def _runner_configuration(state: Path) -> "RunnerConfig":
    from fairway.managedjobs import config  # noqa: PLC0415
    from fairway.managedjobs.configured import USER_FILE, RunnerConfig  # noqa: PLC0415
    from fairway.managedjobs.tasks.errors import TaskError  # noqa: PLC0415

    try:
        return config.parse((state / USER_FILE).read_bytes(), USER_FILE).runner
    except (OSError, TaskError):  # reported by another check
        return RunnerConfig()


def answer(rest: "Rest", ours: str) -> Iterator[Finding]:
    """Whether the server answers, and whether it is of this release."""
    version = rest.get("/version").get("gitVersion", "")
    yield ok("server", f"{rest.server} answers")
    _, mark, theirs = version.partition(MARK)
    if not mark:
        yield ok("version", f"{rest.server} is Kubernetes {version or 'of an unknown version'}")
    elif theirs != ours:
        yield warning(
            "version",
            f"the server is Fairway {theirs}, the command line {ours}",
            "restart it with `fairway shutdown` and `fairway up`; jobs keep running",
        )
    else:
        yield ok("version", f"server and command line are Fairway {theirs}")


def cluster(session: "Session") -> Iterator[Finding]:
    """Whether a cluster serves what the commands need: ManagedJobs, Kueue's kinds, a controller that answers."""
    from fairway.cli.waiting import who_waits  # noqa: PLC0415
    from fairway.cli.way_out import KUEUE  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    context = session.rest.context
    install = f"an administrator installs it: `fairway cluster install --context {context}`"
    if not session.rest.exists(paths.FAIRWAY):
        yield broken("fairway", f"{session.place} has no Fairway: it serves no ManagedJobs", install)
        return
    yield ok("fairway", f"{session.place} serves ManagedJobs")
    if not session.rest.exists(KUEUE):
        yield warning("kueue", f"{session.place} has no queues: it serves no kinds of Kueue", "jobs start at once")
        return
    who_waits(session, session.namespace)
    if session.explains:
        yield ok("controller", "the controller answers why jobs wait")
    else:
        yield warning(
            "controller",
            "the controller does not answer why jobs wait; the commands use what the stored objects say",
            f"`fairway cluster doctor --context {context}` finds out why",
        )


def clock(rest: "Rest", namespace: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Finding:
    """The server's clock, by what it would write on a new object, beside ours."""
    from fairway.client.rest import paths  # noqa: PLC0415

    draft = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "clock-"}}
    try:
        made = rest.create(paths.resource("v1", "configmaps", namespace), draft, dryRun="All")
    except ApiError as error:
        return warning(
            "clock",
            f"cannot read the clock of the server: {error}",
            "run this check as a user who may create ConfigMaps",
        )
    theirs = datetime.fromisoformat(made["metadata"]["creationTimestamp"])
    skew = (now() - theirs).total_seconds()
    if abs(skew) > _MOST_SKEW_SECONDS:
        order = "behind" if skew > 0 else "ahead of"
        return warning(
            "clock",
            f"the clock of the server is {abs(skew):.0f} s {order} the local clock",
            "synchronize both with NTP; ages and waiting times are wrong until then",
        )
    return ok("clock", "the clocks of server and client agree")


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
            f"`fairway describe clusterqueue {queue.name}` shows its conditions",
        )
    if found and not stopped:
        yield ok("queues", f"{len(found)} ClusterQueue{'s are' if len(found) > 1 else ' is'} active")
    if not found:
        yield warning(
            "queues", "there is no ClusterQueue: no job is admitted", "create one with `fairway apply -f FILE`"
        )


def commitment(rest: "Rest") -> Iterator[Finding]:
    """Quotas that add up to more than the nodes have; nothing to say if they do not."""
    from fairway.apis.kueue.commitment import allocatable, promised, warnings  # noqa: PLC0415
    from fairway.cli.quotas import API  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    try:
        found = rest.get(paths.resource("v1", "nodes"))["items"]
    except Forbidden:  # a user of one namespace cannot list nodes, nor change quotas
        return
    queues = {one["metadata"]["name"]: promised(one) for one in rest.get(paths.resource(API, "clusterqueues"))["items"]}
    nodes = {one["metadata"]["name"]: allocatable(one) for one in found}
    for said in warnings(queues, nodes):
        yield warning("quotas", said, "lower the quotas or add nodes; ignore this if overcommitment is intended")


def default_queue(local: list[Any], namespace: str) -> Finding:
    queue = next((one for one in local if one.name == "default"), None)
    if queue is None:
        names = ", ".join(one.name for one in local[:_MOST_NAMED])
        there = f"; there are {names}" if names else ""
        return warning(
            "default queue",
            f"namespace {namespace} has no LocalQueue `default`{there}",
            "create it, give --queue, or set a queue in the configuration; jobs without a queue wait until then",
        )
    if not queue.active:
        return warning(
            "default queue",
            f"the LocalQueue `default` of {namespace} admits nothing: {queue.trouble}",
            f"`fairway describe clusterqueue {queue.cluster_queue}` shows more",
        )
    return ok("default queue", f"the LocalQueue `default` of {namespace} points to ClusterQueue {queue.cluster_queue}")


def waiting_jobs(session: "Session") -> Iterator[Finding]:
    """Jobs that wait: all of them, or those of a namespace where one may not see the others."""
    from fairway.cli.waiting import who_waits  # noqa: PLC0415

    try:
        waiting = who_waits(session, None)
    except Forbidden:
        waiting = who_waits(session, session.namespace)
    yield hopeless(waiting)
    placed = [one for one in waiting if one.outcome == "WaitingForNode"]
    if placed:
        names = _named(placed)
        yield warning(
            "nodes",
            f"{_waiting(len(placed), 'with quota')} for a node: {names} ({placed[0].message.partition(': ')[2]})",
            "the quotas exceed the free room on the nodes: stop pods outside the queues, or lower the quotas",
        )


def outside(rest: "Rest") -> Iterator[Finding]:
    """Pods outside every queue: those that run, and those that get no node."""
    from fairway.cli.outside import on_nodes, pods_outside, sentence, unschedulable  # noqa: PLC0415

    pods = pods_outside(rest)
    if waiting := unschedulable(pods):
        yield warning("nodes", waiting, "`fairway describe pod NAME` shows the events of one; delete or change it")
    if said := sentence(on_nodes(pods)):
        yield warning(
            "outside",
            said,
            "label them kueue.x-k8s.io/queue-name; `jobsOutsideQueues: Deny` in ConfigMap kueue-system/fairway-config "
            "forbids them",
        )


def _waiting(count: int, which: str = "") -> str:
    """`1 job waits`, `3 jobs with quota wait`."""
    return " ".join(
        filter(None, ("1 job" if count == 1 else f"{count} jobs", which, "waits" if count == 1 else "wait"))
    )


def _named(waiting: "Sequence[PendingRow]") -> str:
    names = [one.owner.name if one.owner else one.metadata.name for one in waiting[:_MOST_NAMED]]
    return ", ".join(names) + (f" and {len(waiting) - _MOST_NAMED} more" if len(waiting) > _MOST_NAMED else "")


def hopeless(waiting: "Sequence[PendingRow]") -> Finding:
    """Jobs that can never run with the current nodes and quotas."""
    found = [one for one in waiting if not one.can_ever_run]
    if not found:
        return ok("jobs", f"{_waiting(len(waiting))} and can run eventually" if waiting else "no jobs wait")
    names = [one.owner.name if one.owner else one.metadata.name for one in found[:_MOST_NAMED]]
    return warning(
        "jobs",
        f"{len(found)} of {len(waiting)} waiting jobs can never run with the current nodes and quotas: {_named(found)}",
        f"`fairway jobs why {names[0]}` explains why",
    )


def without_ray(rest: "Rest", namespace: str) -> Iterator[Finding]:
    """RayJobs and RayClusters that the server does not run, because Ray is not installed."""
    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.ray.clusters import NOT_INSTALLED, NOT_INSTALLED_MESSAGE  # noqa: PLC0415

    for kind in ("RayJob", "RayCluster"):
        plural = f"{kind.lower()}s"
        try:
            items = rest.get(paths.resource("ray.io/v1", plural))["items"]
        except Forbidden:
            items = rest.get(paths.resource("ray.io/v1", plural, namespace))["items"]
        except NotFound:
            continue
        found = [one["metadata"]["name"] for one in items if (one.get("status") or {}).get("reason") == NOT_INSTALLED]
        if found:
            more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            count = f"{len(found)} {kind}{'s do' if len(found) > 1 else ' does'} not run"
            yield warning("ray", f"{count}: {', '.join(found[:_MOST_NAMED])}{more}", NOT_INSTALLED_MESSAGE)


def declared_gpus(rest: "Rest") -> int | None:
    """The number of GPUs in the status of all nodes."""
    from fairway.client.rest import paths  # noqa: PLC0415

    nodes = rest.get(paths.resource("v1", "nodes"))["items"]
    amounts = [((node.get("status") or {}).get("allocatable") or {}).get("nvidia.com/gpu", "0") for node in nodes]
    return sum(int(amount) for amount in amounts if str(amount).isdigit()) if nodes else None
