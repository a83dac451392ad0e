"""For tests of the commands that look: jobs and queues with fixed figures, and the command line in this process."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from fairway.cli.jobs.records import JobWithAttempts, PendingRow, WaitingInDetail, by_name
from fairway.cli.main import main
from fairway.cli.tables import Screen

NOW = datetime(2030, 1, 2, 12, 0, 0, tzinfo=UTC)
_DATA = Path(__file__).with_name("data")
PAPER = Screen()
"""Without edge and colours."""


def ago(seconds: float) -> str:
    """A time before NOW, as the API writes it."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def golden(name: str) -> str:
    """What is expected word for word, from the files beside the tests; without the last line break."""
    return (_DATA / name).read_text(encoding="utf-8").removesuffix("\n")


def job(number: int, name: str = "train", phase: str = "PENDING", **fields: Any) -> JobWithAttempts:
    """A ManagedJob; `fields` are those of the status, but for `spec` and `submitted` (seconds ago)."""
    spec = {"id": number, "name": name, "user": "ana", "queue": "user-queue", "tasks": [{"run": "true"}]}
    spec |= fields.pop("spec", {})
    submitted = fields.pop("submitted", 600)
    workload = f"managedjob-{name}-{number}"
    return msgspec.convert(
        {
            "metadata": {
                "name": f"{name}-{number}",
                "namespace": "default",
                "uid": f"uid-{number}",
                "creationTimestamp": ago(submitted),
            },
            "spec": spec,
            "status": {"phase": phase, "workload": workload, "priority": 0, **fields},
        },
        JobWithAttempts,
    )


def waiting(of: JobWithAttempts, position: int | None = 1, **fields: Any) -> WaitingInDetail:
    """What the queue says about a job."""
    return msgspec.convert(
        {
            "metadata": {"name": of.status.workload, "namespace": "default"},
            "owner": {"kind": "ManagedJob", "name": of.metadata.name},
            "clusterQueue": "cluster-queue",
            "localQueue": "user-queue",
            "position": position,
            "outcome": "NoFit",
            "message": "needs 6 CPUs, 3 free in default-flavor",
            **fields,
        },
        WaitingInDetail,
    )


def known(*entries: PendingRow) -> dict[tuple[str, str], PendingRow]:
    return by_name(list(entries))


def cluster_queue(
    name: str,
    pools: Mapping[tuple[str, str], tuple[str, str, str]],
    *,
    cohort: str = "",
    running: int = 0,
    pending: int = 0,
    trouble: str = "",
) -> dict[str, Any]:
    """A ClusterQueue as the API shows it; `pools` have quota, what is used and what of that is borrowed."""
    flavors = list(dict.fromkeys(flavor for flavor, _ in pools))
    quota: dict[str, list[Any]] = {flavor: [] for flavor in flavors}
    used: dict[str, list[Any]] = {flavor: [] for flavor in flavors}
    for (flavor, resource), (nominal, total, borrowed) in pools.items():
        quota[flavor].append({"name": resource, "nominalQuota": nominal})
        used[flavor].append({"name": resource, "total": total, "borrowed": borrowed})
    return {
        "metadata": {"name": name},
        "spec": {
            "resourceGroups": [{"flavors": [{"name": one, "resources": quota[one]} for one in flavors]}],
            **({"cohortName": cohort} if cohort else {}),
        },
        "status": {
            "flavorsReservation": [{"name": one, "resources": used[one]} for one in flavors],
            "reservingWorkloads": running,
            "admittedWorkloads": running,
            "pendingWorkloads": pending,
            "conditions": [{"type": "Active", "status": "False" if trouble else "True", "message": trouble}],
        },
    }


class Said(NamedTuple):
    """How a command ended."""

    code: int
    output: str
    errors: str


class Here:
    """`fairway` in this process, on a state directory: quick, and with the exit code that a shell would see."""

    def __init__(self, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._state = state
        self._capsys = capsys

    def tried(self, *words: str) -> Said:
        self._capsys.readouterr()
        try:
            code = main([*words, "--state", str(self._state)])
        except SystemExit as ended:
            code = int(ended.code or 0)
        output, errors = self._capsys.readouterr()
        return Said(code, output, errors)

    def __call__(self, *words: str) -> str:
        """What a command prints that must succeed."""
        code, output, errors = self.tried(*words)
        assert code == 0, f"{output}\n{errors}"
        return output

    def json(self, *words: str) -> Any:
        return msgspec.json.decode(self(*words, "-o", "json"))

    def refused(self, *words: str, code: int = 1) -> str:
        """What a command says that must not succeed."""
        said = self.tried(*words)
        assert said.code == code, said
        return said.errors.strip()
