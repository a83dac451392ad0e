"""`fairway teams` on a real server, with kubectl beside it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairway.testing.servers import Server

from .conftest import CommandLine

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
MACHINE = ("--cpus", "8", "--memory", "32Gi", "--gpus", "T4:4")


@pytest.fixture
def server(fairway: CommandLine) -> Any:
    with Server(fairway.state, *MACHINE, jobs=True) as started:
        yield started


def quotas(server: Server, queue: str) -> dict[str, str]:
    spec = server.call("GET", f"{KUEUE}/clusterqueues/{queue}").body["spec"]
    return {
        resource["name"]: resource["nominalQuota"]
        for group in spec["resourceGroups"]
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }


def there(server: Server, *paths: str) -> list[int]:
    return [server.call("GET", path).code for path in paths]


TEAM = ("/api/v1/namespaces/vision", f"{KUEUE}/clusterqueues/vision", f"{KUEUE}/namespaces/vision/localqueues/default")


def test_a_team_is_made_used_changed_and_removed(fairway: CommandLine, server: Server) -> None:
    added = fairway.run("teams", "add", "vision", "--cpus", "4", "--gpus", "2", "--borrow")
    assert (added.returncode, added.stdout) == (
        0,
        "Team vision: namespace vision, 4 CPUs, 16Gi memory, 2 GPUs, borrows from other teams.\n",
    )
    assert "The default queue has the quota that the teams leave: CPUs 4, memory 16Gi, GPUs 2." in added.stderr
    assert there(server, *TEAM) == [200, 200, 200]
    assert quotas(server, "vision") == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"}
    assert quotas(server, "cluster-queue") == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"}

    said = fairway.run("jobs", "launch", "--namespace", "vision", "-y", "--cpus", "1", "echo from the team")
    assert "from the team" in said.stdout, said.stderr

    fairway("teams", "set", "vision", "--cpus", "6", "--no-borrow")
    assert quotas(server, "vision") == {"cpu": "6", "memory": "16Gi", "nvidia.com/gpu": "2"}
    assert quotas(server, "cluster-queue")["cpu"] == "2"
    (team,) = json.loads(fairway("teams", "list", "-o", "json"))
    assert (team["name"], team["namespace"], team["borrows"]) == ("vision", "vision", False)

    assert fairway("teams", "remove", "vision") == "Removed team vision and namespace vision.\n"
    assert there(server, *TEAM) == [404, 404, 404]
    assert quotas(server, "cluster-queue") == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"}
    assert "cohortName" not in server.call("GET", f"{KUEUE}/clusterqueues/cluster-queue").body["spec"]


def test_adding_again_changes_nothing_and_other_values_are_refused(fairway: CommandLine, server: Server) -> None:
    fairway("teams", "add", "vision", "--cpus", "4")
    before = server.call("GET", TEAM[1]).body["metadata"]["generation"]

    assert fairway("teams", "add", "vision", "--cpus", "4") == "Team vision already exists, unchanged.\n"
    assert "`fairway teams set vision`" in fairway.refused("teams", "add", "vision", "--cpus", "5")
    assert server.call("GET", TEAM[1]).body["metadata"]["generation"] == before


def test_a_team_is_made_whole_or_not_at_all(fairway: CommandLine, server: Server) -> None:
    """The LocalQueue cannot be made, and so nothing else is."""
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "vision"}})
    taken = {"metadata": {"name": "default"}, "spec": {"clusterQueue": "cluster-queue"}}
    server.call("POST", f"{KUEUE}/namespaces/vision/localqueues", taken)

    assert "already exists" in fairway.refused("teams", "add", "vision", "--cpus", "4")

    assert there(server, TEAM[1]) == [404]
    assert "fairway.dev/team" not in server.call("GET", TEAM[0]).body["metadata"]["labels"]
    assert quotas(server, "cluster-queue")["cpu"] == "8"


def test_a_namespace_that_was_there_before_stays(fairway: CommandLine, server: Server) -> None:
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "eyes"}})
    fairway("teams", "add", "vision", "--cpus", "1", "--in-namespace", "eyes")
    assert "belongs to team 'vision'" in fairway.refused(
        "teams", "add", "other", "--cpus", "1", "--in-namespace", "eyes"
    )

    assert fairway("teams", "remove", "vision") == "Removed team vision.\n"

    assert "fairway.dev/team" not in server.call("GET", "/api/v1/namespaces/eyes").body["metadata"]["labels"]
    assert there(server, f"{KUEUE}/namespaces/eyes/localqueues/default") == [404]


def test_a_team_with_jobs_is_removed_only_on_demand(fairway: CommandLine, server: Server) -> None:
    fairway("teams", "add", "vision", "--cpus", "4")
    fairway("jobs", "launch", "--namespace", "vision", "-y", "-d", "exec sleep 1000")

    said = fairway.refused("teams", "remove", "vision")
    assert "team vision has jobs that have not ended (managedjobs/job-1" in said
    assert "add -y to confirm" in said
    assert there(server, *TEAM) == [200, 200, 200]

    assert fairway("teams", "remove", "vision", "-y") == "Removed team vision and namespace vision.\n"
    assert there(server, *TEAM) == [404, 404, 404]


def test_more_quota_than_the_machine_has_is_warned_of(fairway: CommandLine, server: Server) -> None:
    fairway("teams", "add", "vision", "--cpus", "6")
    said = fairway.run("teams", "add", "speech", "--cpus", "4")

    assert said.returncode == 0
    assert (
        "Warning: all ClusterQueues together have a quota of 10 cpu (vision 6, speech 4), and the nodes have 8"
        in said.stderr
    )
    assert quotas(server, "cluster-queue")["cpu"] == "0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["add", "vision"], "--cpus is required", id="no quota"),
        pytest.param(["add", "vision", "--cpus", "many"], "--cpus many: give an amount", id="no amount"),
        pytest.param(["add", "vision", "--cpus", "-1"], "--cpus -1: give an amount", id="less than nothing"),
        pytest.param(["add", "vision", "--cpus", "1", "--gpus", "V100:1"], "no machine here has that model; there is",
                     id="a model that nobody has"),
        pytest.param(["add", "Vision!", "--cpus", "1"], "Vision!", id="no name"),
        pytest.param(["add", "cluster-queue", "--cpus", "1"], "is not a team's", id="the name of another queue"),
        pytest.param(["set", "vision", "--cpus", "1"], "there is no team 'vision'", id="set: no team"),
        pytest.param(["set", "vision"], "nothing to change: give --cpus", id="set: nothing"),
        pytest.param(["remove", "vision"], "there is no team 'vision'", id="remove: no team"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(fairway: CommandLine, server: Server, arguments: list[str], message: str) -> None:
    assert message in fairway.refused("teams", *arguments)
    assert there(server, *TEAM) == [404, 404, 404]


def test_a_model_of_gpus_is_its_flavor_where_there_are_several(fairway: CommandLine, server: Server) -> None:
    for model in ("t4", "v100"):
        labels = {"nodeLabels": {"skypilot.co/accelerator": model}}
        server.call("POST", f"{KUEUE}/resourceflavors", {"metadata": {"name": f"gpu-{model}"}, "spec": labels})
    spec = server.call("GET", f"{KUEUE}/clusterqueues/cluster-queue").body["spec"]
    resources = {one["name"]: one for one in spec["resourceGroups"][0]["flavors"][0]["resources"]}
    gpu = resources.pop("nvidia.com/gpu")
    plain = {"name": "default-flavor", "resources": list(resources.values())}
    groups = [
        {"coveredResources": list(resources), "flavors": [plain]},
        {
            "coveredResources": [gpu["name"]],
            "flavors": [{"name": f"gpu-{model}", "resources": [gpu]} for model in ("t4", "v100")],
        },
    ]
    patch = {"spec": {"resourceGroups": groups}}
    merge = "application/merge-patch+json"
    assert server.call("PATCH", f"{KUEUE}/clusterqueues/cluster-queue", patch, content_type=merge).code == 200

    assert "give the model" in fairway.refused("teams", "add", "vision", "--cpus", "1", "--gpus", "2")
    fairway("teams", "add", "vision", "--cpus", "1", "--gpus", "T4:1,V100:3")

    flavors = server.call("GET", TEAM[1]).body["spec"]["resourceGroups"][1]["flavors"]
    found = {flavor["name"]: flavor["resources"][0]["nominalQuota"] for flavor in flavors}
    assert found == {"gpu-t4": "1", "gpu-v100": "3"}


def test_a_team_is_ordinary_objects_that_kubectl_can_change(fairway: CommandLine, server: Server) -> None:
    tool = Path(__file__).parents[2] / "tools/kubectl/get"
    found = subprocess.run([tool], capture_output=True, text=True, check=True)  # noqa: S603 - our own tool
    kubectl = [found.stdout.strip(), "--kubeconfig", str(server.kubeconfig)]
    fairway("teams", "add", "vision", "--cpus", "4")
    path = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
    patch = json.dumps([{"op": "replace", "path": path, "value": "3"}])

    subprocess.run(  # noqa: S603 - our own tool
        [*kubectl, "patch", "clusterqueue", "vision", "--type=json", "-p", patch], check=True, capture_output=True
    )

    fairway("teams", "set", "vision", "--memory", "2Gi")
    assert quotas(server, "vision") == {"cpu": "3", "memory": "2Gi", "nvidia.com/gpu": "0"}
    assert quotas(server, "cluster-queue") == {"cpu": "5", "memory": "30Gi", "nvidia.com/gpu": "4"}


def test_the_default_queue_follows_the_machine_less_the_teams(fairway: CommandLine) -> None:
    with Server(fairway.state, *MACHINE, jobs=True):
        fairway("teams", "add", "vision", "--cpus", "3")
    with Server(fairway.state, "--cpus", "16", "--memory", "32Gi", "--gpus", "T4:4", jobs=True) as server:
        assert quotas(server, "cluster-queue")["cpu"] == "13"
        assert quotas(server, "vision")["cpu"] == "3"


def test_a_default_queue_that_somebody_changed_is_left_alone(fairway: CommandLine, server: Server) -> None:
    patch = {"spec": {"queueingStrategy": "StrictFIFO"}}
    merge = "application/merge-patch+json"
    server.call("PATCH", f"{KUEUE}/clusterqueues/cluster-queue", patch, content_type=merge)

    assert "default queue" not in fairway.run("teams", "add", "vision", "--cpus", "4").stderr
    assert quotas(server, "cluster-queue")["cpu"] == "8"
