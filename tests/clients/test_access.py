"""Who may do what, as kubectl meets it: roles, tokens, TLS."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from fairway.cli.group import fairway
from fairway.server.access.users import Users
from fairway.testing.servers import Server

from .hand import Hand
from .kubectl import Kubectl
from .manifests import cluster_queue, config, job, named, pod, workload
from .test_definitions import crontab, definition
from .test_logs import Running

As = Callable[..., Kubectl]


def users(server: Server, *arguments: str) -> str:
    """What `fairway users` prints."""
    result = CliRunner().invoke(fairway, ["users", *arguments, "--state", str(server.state)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def as_user(server: Server, kubectl: Kubectl, tmp_path: Path) -> As:
    """Adds a user of this role in the namespace of the test, or everywhere, and gives back their kubectl."""

    def add(role: str, place: str = "here") -> Kubectl:
        where = ["--namespace", kubectl.namespace] if place == "here" else ["--everywhere"]
        name = f"{role}-{kubectl.namespace}"
        written = users(server, "add", name, "--role", role, "--group", "crew", "-o", "kubeconfig", *where)
        path = tmp_path / name
        path.write_text(written)
        return Kubectl(kubectl.binary, path, kubectl.home, kubectl.namespace)

    return add


def test_whoami_names_the_user_and_their_groups(kubectl: Kubectl, as_user: As) -> None:
    user = as_user("viewer").json("auth whoami")["status"]["userInfo"]

    assert user["username"] == f"viewer-{kubectl.namespace}"
    assert user["groups"] == ["crew", "system:authenticated"]
    assert re.search(r"^Username +admin$", kubectl("auth whoami"), re.MULTILINE)


@pytest.mark.parametrize(
    ("role", "question", "want"),
    [
        pytest.param("viewer", "get pods", "yes", id="a viewer reads pods"),
        pytest.param("viewer", "get pods --subresource=log", "yes", id="a viewer reads logs"),
        pytest.param("viewer", "create pods", "no", id="a viewer creates nothing"),
        pytest.param("viewer", "get secrets", "no", id="a viewer sees no secrets"),
        pytest.param("viewer", "get pods --namespace default", "no", id="a viewer of one namespace stays there"),
        pytest.param("viewer everywhere", "get pods --namespace default", "yes", id="a viewer of everything"),
        pytest.param("viewer", "list clusterqueues", "yes", id="a viewer reads the queues of all"),
        pytest.param("editor", "create jobs", "yes", id="an editor creates jobs"),
        pytest.param("editor", "create rayjobs.ray.io", "yes", id="an editor creates RayJobs"),
        pytest.param("editor", "update pods --subresource=status", "no", id="an editor fakes no status"),
        pytest.param("editor everywhere", "create clusterqueues", "no", id="an editor grants themselves no quota"),
        pytest.param("admin", "create localqueues", "yes", id="an admin of one namespace makes its queues"),
        pytest.param("admin", "create namespaces", "no", id="an admin of one namespace makes no other"),
        pytest.param("admin everywhere", "'*' '*'", "yes", id="an admin does everything"),
    ],
)
def test_can_i_answers_as_the_server_will(as_user: As, role: str, question: str, want: str) -> None:
    result = as_user(*role.split()).run(f"auth can-i {question}")

    assert result.output.strip() == want
    assert result.code == (0 if want == "yes" else 1)


def test_can_i_lists_what_there_is(as_user: As) -> None:
    head, *rows = as_user("viewer").table("auth can-i --list")

    assert head == ["Resources", "Non-Resource URLs", "Resource Names", "Verbs"]
    listed = {row[0]: row[3] for row in rows}
    assert listed["pods/log"] == "[get list watch]"
    assert "secrets" not in listed


def test_an_editor_works_in_one_namespace(as_user: As, kubectl: Kubectl, hand: Hand) -> None:
    editor = as_user("editor")
    hand.make(cluster_queue(kubectl.namespace))

    editor("create -f -", given=[pod("p"), job("j"), config("c")])
    editor("patch pod p -p", '{"metadata":{"labels":{"by":"editor"}}}')
    editor("delete configmap c")

    assert editor("get pods,jobs -o name").split() == ["pod/p", "job.batch/j"]
    assert editor(f"get clusterqueue {kubectl.namespace} -o name")
    refusals = {
        "get pods -n default": "pods is forbidden",
        "get pods -A": "at the cluster scope",
        "patch pod p --subresource=status --type=merge -p {}": 'cannot patch resource "pods/status"',
        "create namespace another": "namespaces is forbidden",
        f"delete clusterqueue {kubectl.namespace}": "is forbidden",
    }
    assert {said: want for said, want in refusals.items() if want not in editor.refused(said)} == {}
    assert "workloads.kueue.x-k8s.io is forbidden" in editor.refused("create -f -", given=workload("w"))


def test_a_viewer_reads_and_changes_nothing(as_user: As, hand: Hand) -> None:
    hand.make(pod("p"), named("Secret", "s", stringData={"word": "open"}))
    viewer = as_user("viewer")

    assert viewer("get pods -o name") == "pod/p\n"
    assert viewer("logs p") == ""
    user = f"viewer-{hand.namespace}"
    assert viewer.refused("get secrets") == (
        f'Error from server (Forbidden): secrets is forbidden: User "{user}" cannot list resource "secrets" '
        f'in API group "" in the namespace "{hand.namespace}"'
    )
    assert f'User "{user}" cannot delete resource "pods"' in viewer.refused("delete pod p")
    assert hand.look(pod("p"))


def test_custom_kinds_are_for_administrators_of_the_server(as_user: As, kubectl: Kubectl) -> None:
    """As in a cluster, where `edit` and `view` reach no custom kind by themselves."""
    kubectl("apply -f -", given=definition("roles.example.com"))
    kubectl("wait --for=condition=Established crd/crontabs.roles.example.com --timeout=30s")
    kubectl("apply -f -", given=crontab("roles.example.com"))
    editor = as_user("editor")

    assert "forbidden" in editor.refused("get crontabs.roles.example.com")
    assert "forbidden" in editor.refused("delete crd crontabs.roles.example.com")
    assert "crontabs.roles.example.com" in editor("get crd -o name"), "which kinds there are is no secret"
    kubectl("delete crd crontabs.roles.example.com")


def test_a_revoked_token_ends_at_once(as_user: As, server: Server, kubectl: Kubectl) -> None:
    viewer = as_user("viewer")
    name = f"viewer-{kubectl.namespace}"
    assert viewer("auth whoami -o", "jsonpath={.status.userInfo.username}") == name
    listed = json.loads(users(server, "list", "-o", "json"))
    (token,) = next(user["tokens"] for user in listed if user["name"] == name)

    users(server, "token", name, "--revoke", token["id"])

    assert "You must be logged in" in viewer.refused("get pods")


def test_a_removed_user_is_out_at_once(as_user: As, server: Server, kubectl: Kubectl) -> None:
    editor = as_user("editor")
    assert editor("get pods -o name") == ""

    users(server, "remove", f"editor-{kubectl.namespace}")

    assert "You must be logged in" in editor.refused("get pods")


def test_without_a_good_token_only_health_and_version_are_told(server: Server) -> None:
    """kubectl would ask for a name and a password instead, so this is asked plainly."""
    codes = {
        path: server.call("GET", path, token=token).code
        for path, token in (("/readyz", ""), ("/version", ""), ("/api/v1/pods", ""), ("/api/v1/nodes", "fw_guessed"))
    }

    assert codes == {"/readyz": 200, "/version": 200, "/api/v1/pods": 403, "/api/v1/nodes": 401}


def test_a_server_with_another_certificate_is_not_trusted(kubectl: Kubectl, tmp_path: Path) -> None:
    with Server(tmp_path / "state") as other:
        known = yaml.safe_load(kubectl.kubeconfig.read_text())
        known["clusters"][0]["cluster"]["server"] = other.url
        path = tmp_path / "crossed"
        path.write_text(yaml.safe_dump(known))

        said = Kubectl(kubectl.binary, path, tmp_path).refused("get --raw /readyz")

    assert "certificate signed by unknown authority" in said


def test_a_watch_of_a_removed_user_ends_and_says_why(server: Server, kubectl: Kubectl, as_user: As, hand: Hand) -> None:
    theirs = as_user("viewer")
    hand.make(config("seen"))
    with theirs.following("get configmaps --watch") as watch:
        watch.until("seen")
        Users(server.state).remove(f"viewer-{kubectl.namespace}")
        hand.make(config("unseen"))
        watch.rest()
    refused = theirs.run("get configmaps")
    assert refused.code == 1
    assert "Unauthorized" in refused.errors or "must be logged in" in refused.errors


def test_a_followed_log_of_a_removed_user_is_cut_off(server: Server, kubectl: Kubectl, as_user: As, hand: Hand) -> None:
    theirs, running = as_user("viewer"), Running(hand, "web")
    running.write("ready")
    with theirs.following("logs --follow web") as log:
        log.until("ready")
        Users(server.state).remove(f"viewer-{kubectl.namespace}")
        assert log.rest() == []
