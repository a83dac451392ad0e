"""`fairway queues`: figures of quota, and the tables of them."""

import pytest

from fairway.apis.machinery.amounts import readable
from fairway.cli import quotas
from fairway.cli.queues import as_text
from fairway.cli.quotas import QuotaUsage, cohorts, local_queue
from fairway.cli.tables import Screen

from .looking import PAPER, cluster_queue, golden

TEAM_A = quotas.cluster_queue(
    cluster_queue(
        "team-a",
        {
            ("spot", "cpu"): ("9", "12", "3"),
            ("spot", "memory"): ("36Gi", "6Gi", "0"),
            ("on-demand", "nvidia.com/gpu"): ("4", "1", "0"),
        },
        cohort="teams",
        running=3,
        pending=12,
    )
)
TEAM_B = quotas.cluster_queue(
    cluster_queue(
        "team-b", {("spot", "cpu"): ("6", "0", "0")}, cohort="teams", trouble="references missing ResourceFlavor(s): x"
    )
)
OPEN = quotas.cluster_queue(cluster_queue("open", {("any", "cpu"): ("1000000000", "500m", "0")}))
LOCAL = local_queue(
    {
        "metadata": {"name": "user-queue", "namespace": "default"},
        "spec": {"clusterQueue": "team-a"},
        "status": {"reservingWorkloads": 4, "admittedWorkloads": 3, "pendingWorkloads": 11},
    }
)
QUEUES = [OPEN, TEAM_A, TEAM_B]
COHORTS = cohorts(QUEUES, [{"metadata": {"name": "teams"}, "spec": {"parentName": "company"}}])


def test_all_tables() -> None:
    assert as_text(QUEUES, COHORTS, [LOCAL], PAPER) == golden("queues.txt")


@pytest.mark.parametrize("width", [80, 99])
def test_without_blocks_and_on_a_narrow_screen(width: int) -> None:
    shown = as_text(QUEUES, COHORTS, [LOCAL], Screen(width=width, unicode=False))

    assert shown.isascii()
    assert max(map(len, shown.splitlines())) <= width


def test_without_any_queue_one_is_told_how_to_make_one() -> None:
    assert "fairway apply" in as_text([], [], [], PAPER)


def test_a_queue_without_quota_is_there_all_the_same() -> None:
    bare = quotas.cluster_queue({"metadata": {"name": "bare"}, "spec": {}})

    assert quotas.as_table([bare], PAPER).splitlines()[1].split() == ["bare", "-", "0", "0", "-", "-"]


def test_a_cohort_has_the_quota_of_its_queues_and_its_own() -> None:
    own = {
        "metadata": {"name": "teams"},
        "spec": {
            "resourceGroups": [{"flavors": [{"name": "spot", "resources": [{"name": "cpu", "nominalQuota": 5}]}]}]
        },
    }
    (found,) = cohorts([TEAM_A, TEAM_B], [own])

    assert found.pools[0] == QuotaUsage("spot", "cpu", quota=20 * 10**9, used=12 * 10**9)


def test_for_scripts() -> None:
    assert quotas.queue_record(TEAM_A)["pools"][0] == {
        "flavor": "spot",
        "resource": "cpu",
        "unit": "",
        "quota": 9,
        "used": 12,
        "borrowed": 3,
        "borrowingLimit": None,
    }


@pytest.mark.parametrize(
    ("resource", "nanos", "want"),
    [
        ("cpu", 5_500_000_000, "5.5"),
        ("cpu", 0, "0"),
        ("cpu", 333_333_333, "0.333"),
        ("cpu", 128 * 10**9, "128"),
        ("cpu", 10**9 * 10**9, "unlimited"),
        ("memory", 1023 * 10**9, "<0.001Gi"),
        ("memory", 512 * 2**20 * 10**9, "0.5Gi"),
        ("memory", 100 * 2**20 * 10**9, "0.098Gi"),
        ("memory", 2048 * 2**30 * 10**9, "2048Gi"),
        ("memory", 1536 * 2**20 * 10**9, "1.5Gi"),
        ("memory", 2**70 * 10**9, "unlimited"),
        ("nvidia.com/gpu", 4 * 10**9, "4"),
    ],
)
def test_amounts_as_people_say_them(resource: str, nanos: int, want: str) -> None:
    assert readable(resource, nanos) == want


@pytest.mark.parametrize(
    ("resource", "nanos", "want"),
    [
        pytest.param("memory", (125 * 2**30 + 900 * 2**20) * 10**9, "125Gi", id="whole Gi from 100 on"),
        pytest.param("memory", (16 * 2**30 - 1) * 10**9, "15.99Gi", id="a byte short of 16Gi"),
        pytest.param("memory", 512 * 2**20 * 10**9, "0.5Gi", id="exact"),
        pytest.param("memory", 1000 * 10**9, "0Gi", id="next to nothing"),
        pytest.param("cpu", 15_999_999_999, "15.99", id="CPUs"),
    ],
)
def test_what_is_free_is_rounded_down(resource: str, nanos: int, want: str) -> None:
    assert readable(resource, nanos, down=True) == want
