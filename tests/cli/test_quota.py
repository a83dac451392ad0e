"""`fairway quota` on a real server, with kubectl beside it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.testing.servers import Server

from .conftest import CommandLine

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
MERGE = "application/merge-patch+json"
EXAMPLE = Path(__file__).parents[2] / "examples/quota.yaml"


@pytest.fixture
def server(fairway: CommandLine) -> Any:
    with Server(fairway.state, "--cpus", "8", "--memory", "16Gi", jobs=True) as started:
        yield started


def written(directory: Path, **changes: Any) -> str:
    """The example with other fields of its spec, as a file."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    manifest["spec"] |= changes
    file = directory / "quota.yaml"
    file.write_text(yaml.safe_dump(manifest))
    return str(file)


def organizations() -> Any:
    return yaml.safe_load(EXAMPLE.read_text())["spec"]["organizations"]


def test_a_definition_is_planned_applied_and_found_as_it_is(
    fairway: CommandLine, server: Server, tmp_path: Path
) -> None:
    planned = fairway.run("quota", "plan", str(EXAMPLE))
    assert planned.returncode == 2, planned.stderr
    assert "+ ClusterQueue vision" in planned.stdout
    assert "+ AdmissionCheck company-limits" in planned.stdout
    assert "Warning" not in planned.stderr
    assert server.call("GET", f"{KUEUE}/clusterqueues/vision").code == 404

    fairway("quota", "apply", str(EXAMPLE))
    assert "everything is as defined" in fairway("quota", "plan", str(EXAMPLE))
    assert "everything is in sync" in fairway("quota", "diff")
    assert {one["name"] for one in json.loads(fairway("teams", "list", "-o", "json"))} == {"vision", "speech", "data"}
    assert server.call("GET", f"{KUEUE}/clusterqueues/cluster-queue").body["spec"]["cohortName"] == "teams"
    groups = {one["name"]: one["bindings"] for one in json.loads(fairway("users", "groups", "list", "-o", "json"))}
    assert groups["vision"] == [{"role": "editor", "namespace": "vision"}]
    assert {one["namespace"] for one in groups["ml-leads"]} == {"vision", "speech"}

    imported = tmp_path / "imported.yaml"
    imported.write_text(fairway("quota", "import"))
    assert "everything is as defined" in fairway("quota", "plan", str(imported))


def test_a_change_by_hand_is_drift_until_the_file_is_applied_again(fairway: CommandLine, server: Server) -> None:
    assert json.loads(fairway("quota", "diff", "-o", "json")) == [], "nothing was applied"
    fairway("quota", "apply", str(EXAMPLE))
    server.call("PATCH", f"{KUEUE}/clusterqueues/vision", {"spec": {"stopPolicy": "Hold"}}, content_type=MERGE)
    server.call("DELETE", f"{KUEUE}/namespaces/data/localqueues/spark")
    found = fairway.run("quota", "diff", "-o", "json")
    assert found.returncode == 2
    assert [(one["action"], one["kind"], one["name"]) for one in json.loads(found.stdout)[0]["changes"]] == [
        ("update", "ClusterQueue", "vision"),
        ("create", "LocalQueue", "spark"),
    ]
    fairway("quota", "apply", str(EXAMPLE))
    assert "everything is in sync" in fairway("quota", "diff")


def test_a_user_over_the_limit_of_a_team_waits_with_the_reason(fairway: CommandLine, server: Server) -> None:
    """Each user of the team speech holds at most one CPU."""
    fairway("quota", "apply", str(EXAMPLE))
    for name in ("first", "second"):
        fairway("jobs", "launch", "-d", "--namespace", "speech", "-n", name, "--cpus", "1", "--", "sleep 600")
    ends = time.monotonic() + 60
    said: list[str] = []
    while not any("of the 1 cpu that a user of team speech may hold at once" in one for one in said):
        assert time.monotonic() < ends, said
        said = [fairway("jobs", "why", "--namespace", "speech", name) for name in ("first", "second")]
    assert fairway.run("quota", "diff").returncode == 0


def test_what_is_not_in_the_file_goes_unless_it_has_workloads(
    fairway: CommandLine, server: Server, tmp_path: Path
) -> None:
    fairway("quota", "apply", str(EXAMPLE))
    fairway("jobs", "launch", "-d", "--namespace", "speech", "-n", "busy", "--cpus", "1", "--", "sleep 600")
    planned = fairway.run("quota", "plan", written(tmp_path, organizations=organizations()[1:])).stdout
    assert "! Cohort ml: it stays, because it is used by ClusterQueue speech" in planned
    fewer = organizations()
    del fewer[0]["teams"][1], fewer[1]
    file = written(tmp_path, organizations=fewer)
    applied = fairway.run("quota", "apply", "-y", file)
    assert applied.returncode == 1
    assert "ClusterQueue speech: it stays, because it has 1 unfinished workload" in applied.stderr
    left = [server.call("GET", f"{KUEUE}/clusterqueues/{name}").code for name in ("speech", "data")]
    assert left[0] == 200
    assert server.call("GET", "/api/v1/namespaces/data").body["metadata"]["labels"] == {
        "kubernetes.io/metadata.name": "data"
    }

    fairway("jobs", "cancel", "--namespace", "speech", "-a", "-y")
    fairway.run("jobs", "wait", "--namespace", "speech", "busy")
    fairway("quota", "apply", "-y", file)
    assert "ClusterQueue speech" not in fairway.run("quota", "plan", file).stdout


def test_a_role_is_withdrawn_even_if_another_cannot_be_granted(
    fairway: CommandLine, server: Server, tmp_path: Path
) -> None:
    """Once the definition is written, nothing says any more which roles were to go."""
    fairway("quota", "apply", str(EXAMPLE))
    changed = organizations()
    changed[0]["teams"][0]["submit"] = {"groups": ["oidc:vision"]}
    assert "oidc:vision" in fairway.refused("quota", "apply", "-y", written(tmp_path, organizations=changed))
    groups = {one["name"]: one["bindings"] for one in json.loads(fairway("users", "groups", "list", "-o", "json"))}
    assert groups["vision"] == []


WRONG = [
    ("guarantee", {"cpu": 1}, "did you mean guaranteed?"),
    ("guaranteed", {"cpu": 100}, "its teams are guaranteed"),
]


@pytest.mark.parametrize(("field", "value", "said"), WRONG)
def test_a_wrong_file_changes_nothing(
    fairway: CommandLine, server: Server, tmp_path: Path, field: str, value: Any, said: str
) -> None:
    changed = organizations()
    changed[0]["teams"][0].pop("maximum")
    changed[0]["teams"][0][field] = value
    assert said in fairway.refused("quota", "apply", written(tmp_path, organizations=changed))
    assert server.call("GET", f"{KUEUE}/clusterqueues/data").code == 404


def test_a_team_of_a_definition_is_changed_in_its_file(fairway: CommandLine, server: Server) -> None:
    fairway("quota", "apply", str(EXAMPLE))
    for words in (("set", "vision", "--cpus", "9"), ("remove", "vision", "-y")):
        assert "quota definition 'company'" in fairway.refused("teams", *words)
    assert server.call("GET", f"{KUEUE}/clusterqueues/vision").code == 200


def test_yunikorn_gets_its_queues_in_its_config_map(fairway: CommandLine, server: Server, tmp_path: Path) -> None:
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "yunikorn"}})
    theirs = {"metadata": {"name": "yunikorn-configs"}, "data": {"log.level": "INFO"}}
    server.call("POST", "/api/v1/namespaces/yunikorn/configmaps", theirs)
    assert fairway.run("quota", "plan", "--target", "yunikorn", str(EXAMPLE)).returncode == 2
    fairway("quota", "apply", "--target", "yunikorn", str(EXAMPLE))
    found = server.call("GET", "/api/v1/namespaces/yunikorn/configmaps/yunikorn-configs").body
    assert found["data"]["log.level"] == "INFO"
    labels = server.call("GET", "/api/v1/namespaces/vision").body["metadata"]["labels"]
    assert (labels["fairway.dev/organization"], labels["fairway.dev/team"]) == ("ml", "vision"), "by them jobs find it"
    assert server.call("GET", f"{KUEUE}/clusterqueues/vision").code == 404
    assert found["data"]["queues.yaml"] == fairway("quota", "render", "--target", "yunikorn", str(EXAMPLE))
    assert "everything is in sync" in fairway("quota", "diff")

    edited = found["data"]["queues.yaml"].replace("3000m", "4000m")
    path = "/api/v1/namespaces/yunikorn/configmaps/yunikorn-configs"
    server.call("PATCH", path, {"data": {"queues.yaml": edited}}, content_type=MERGE)
    drift = fairway.run("quota", "diff")
    assert (drift.returncode, "resources.guaranteed.vcore: 4000m -> 3000m" in drift.stdout) == (2, True)
    imported = tmp_path / "imported.yaml"
    imported.write_text(fairway("quota", "import", "--target", "yunikorn"))
    assert "everything is as defined" in fairway("quota", "plan", str(imported))


def test_a_job_is_launched_by_organization_and_type(fairway: CommandLine, server: Server, tmp_path: Path) -> None:
    fairway("quota", "apply", str(EXAMPLE))
    launch = ("jobs", "launch", "-d", "-o", "json", "--cpus", "1")
    fairway(*launch, "--org", "data", "--type", "spark", "--", "true")
    (job,) = server.call("GET", "/apis/fairway.dev/v1alpha1/namespaces/data/managedjobs").body["items"]
    assert job["spec"]["queue"] == "spark"
    assert job["metadata"]["labels"]["fairway.dev/job-type"] == "spark"

    said = fairway.refused(*launch, "--org", "ml", "--type", "ray", "--", "true")
    assert "several teams" in said
    assert "vision (--namespace vision)" in said
    assert "there is data, ml" in fairway.refused(*launch, "--org", "sales", "--", "true")
    assert "has the job types spark, default" in fairway.refused(
        *launch, "--org", "data", "--type", "ray", "--", "true"
    )
    fairway(*launch, "--namespace", "vision", "--type", "ray", "--", "true")

    fairway(*launch, "--namespace", "vision", "--type", "ray", "-n", "large", "--cpus", "99", "--", "true")
    ends = time.monotonic() + 60
    while "(ClusterQueue vision" not in (said := fairway("jobs", "why", "--namespace", "vision", "large")):
        assert time.monotonic() < ends, said
    assert "in queue ray (ClusterQueue vision, team vision of organization ml)" in said

    found = json.loads(fairway("queues", "--org", "ml", "-o", "json"))
    assert [one["name"] for one in found["clusterQueues"]] == ["speech", "vision"]


def test_a_member_of_a_team_needs_no_namespace(fairway: CommandLine, server: Server, tmp_path: Path) -> None:
    """The home organization: the only team in which the user may launch jobs."""
    fairway("quota", "apply", str(EXAMPLE))
    fairway("users", "add", "ana", "--group", "speech")
    kubeconfig = tmp_path / "ana.kubeconfig"
    kubeconfig.write_text(fairway("users", "token", "ana", "-o", "kubeconfig"))
    mine = ("--kubeconfig", str(kubeconfig))
    fairway("jobs", "launch", "-d", *mine, "--type", "ray", "--cpus", "1", "--workdir", "none", "--", "true")
    (job,) = server.call("GET", "/apis/fairway.dev/v1alpha1/namespaces/speech/managedjobs").body["items"]
    assert (job["spec"]["queue"], job["spec"]["user"]) == ("ray", "ana")
