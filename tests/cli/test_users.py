"""`fairway users`, as it is typed, against a server: also one that is reached by a kubeconfig."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from fairway.cli.group import fairway
from fairway.server.access.roles import Binding, Role
from fairway.server.access.users import Users
from fairway.testing.servers import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("users") / "state") as started:
        for name in ("research", "trials"):
            started.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        team = {"metadata": {"name": "eyes", "labels": {"fairway.dev/team": "vision"}}}
        started.call("POST", "/api/v1/namespaces", team)
        yield started


@pytest.fixture(autouse=True)
def nobody_yet(server: Server) -> None:
    users = Users(server.state)
    for account in users.all():
        if account.name != "admin":
            users.remove(account.name)
    for group in users.groups():
        users.remove_group(group.name)


def run(server: Server, *arguments: str) -> Result:
    return CliRunner().invoke(fairway, ["users", *arguments, "--state", str(server.state)])


def done(server: Server, *arguments: str) -> Result:
    result = run(server, *arguments)
    assert result.exit_code == 0, result.output
    return result


def bindings(server: Server, name: str) -> tuple[Binding, ...]:
    account = Users(server.state).get(name)
    assert account is not None
    return account.bindings


@pytest.mark.parametrize(
    ("options", "want", "says"),
    [
        pytest.param(
            ["--team", "vision"],
            (Binding(Role.EDITOR, "eyes"),),
            "ben may submit and change jobs, and read everything, in namespace eyes (editor).",
            id="a team: an editor of its namespace",
        ),
        pytest.param(
            ["--team", "vision", "--role", "admin"],
            (Binding(Role.ADMIN, "eyes"),),
            "ben may do everything, also with local queues and workloads, in namespace eyes (admin).",
            id="a team with a role",
        ),
        pytest.param(
            ["--role", "viewer", "-n", "research", "--namespace", "trials", "-n", "research"],
            (Binding(Role.VIEWER, "research"), Binding(Role.VIEWER, "trials")),
            "ben may read everything but secrets in namespace research (viewer); read everything but secrets in "
            "namespace trials (viewer).",
            id="a role in namespaces",
        ),
        pytest.param(
            ["--role", "admin", "--everywhere"],
            (Binding(Role.ADMIN),),
            "ben may do everything on the whole server (admin).",
            id="a role everywhere, by asking for it",
        ),
    ],
)
def test_add_gives_what_was_asked_for_and_says_it(
    server: Server, options: list[str], want: tuple[Binding, ...], says: str
) -> None:
    result = done(server, "add", "ben", *options)

    user = Users(server.state).find(result.stdout.strip())
    assert user is not None
    assert (user.name, user.bindings) == ("ben", want)
    assert result.stderr.splitlines()[-1] == says


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(["add", "ben"], 2, "give ben a role: --team TEAM; or --role ROLE with", id="nothing is said"),
        pytest.param(
            ["add", "ben", "--role", "editor"], 2, "--role editor: also give --team", id="a role without a place"
        ),
        pytest.param(
            ["add", "ben", "-n", "research"],
            2,
            "give a role: --role admin, editor or viewer",
            id="a place without a role",
        ),
        pytest.param(
            ["add", "ben", "--role", "admin", "--everywhere", "-n", "a"],
            2,
            "cannot be combined with --team or --namespace",
            id="both places",
        ),
        pytest.param(
            ["add", "ben", "--team", "hearing"], 2, "--team hearing: no such team; there is vision", id="no team"
        ),
        pytest.param(["add", "a b", "--team", "vision"], 1, 'User "a b" is invalid: name: Invalid value', id="no name"),
        pytest.param(["add", "ben", "--role", "root"], 2, "'root' is not one of 'admin', 'editor'", id="no role"),
        pytest.param(["add", "b", "--expires", "soon"], 2, "'soon' is not a time; write a number", id="no time"),
        pytest.param(["add", "admin", "--team", "vision"], 1, 'user "admin" already exists', id="there already"),
        pytest.param(["edit", "eve", "--team", "vision"], 1, 'user "eve" not found', id="edit: no user"),
        pytest.param(["edit", "admin"], 2, "nothing to change: give a role or a group", id="edit: nothing is said"),
        pytest.param(["edit", "admin", "--no-namespace", "x"], 2, "no role is held in namespace x", id="edit: no role"),
        pytest.param(["edit", "admin", "--no-group", "x"], 2, "admin is not in group x", id="edit: not in the group"),
        pytest.param(["remove", "eve"], 1, 'user "eve" not found', id="remove: no user"),
        pytest.param(["token", "eve"], 1, 'user "eve" not found', id="token: no user"),
        pytest.param(["token", "admin", "--revoke", "x"], 1, 'user "admin" has no token "x"', id="token: no token"),
        pytest.param(
            ["token", "e", "--revoke", "x", "--expires", "1d"],
            2,
            "--revoke cannot be combined with --expires or --output",
            id="both",
        ),
        pytest.param(["groups", "add", "ml"], 2, "give ml a role", id="a group without roles"),
        pytest.param(["groups", "remove", "ml"], 1, 'group "ml" not found', id="no group"),
    ],
)
def test_what_is_refused_changes_nothing(server: Server, arguments: list[str], code: int, message: str) -> None:
    before = (server.state / "users.json").read_bytes()
    from fairway.cli.main import main  # noqa: PLC0415 - the exit codes of refusals are made there

    result = CliRunner().invoke(fairway, ["users", *arguments, "--state", str(server.state)])

    said = str(result.exception) if result.exit_code == 1 else result.stderr
    assert message in said
    assert main(["users", *arguments, "--state", str(server.state)]) == code
    assert (server.state / "users.json").read_bytes() == before


def test_a_namespace_or_group_that_is_not_there_yet_is_warned_of(server: Server) -> None:
    said = done(server, "add", "ben", "--role", "editor", "-n", "reserch", "--group", "ml").stderr

    assert "Warning: namespace 'reserch' does not exist yet" in said
    assert "Warning: group 'ml' has no roles yet; `fairway users groups add ml` gives it some." in said


def test_edit_changes_what_is_named_and_keeps_the_rest(server: Server) -> None:
    token = done(server, "add", "ben", "--role", "editor", "-n", "research", "-n", "trials").stdout.strip()

    done(server, "edit", "ben", "--role", "viewer", "--namespace", "research")
    assert bindings(server, "ben") == (Binding(Role.VIEWER, "research"), Binding(Role.EDITOR, "trials"))
    done(server, "edit", "ben", "--team", "vision", "--no-namespace", "trials")
    assert bindings(server, "ben") == (Binding(Role.VIEWER, "research"), Binding(Role.EDITOR, "eyes"))
    said = done(server, "edit", "ben", "--no-team", "vision", "--no-namespace", "research").stderr
    assert said.splitlines()[-1] == "ben has no role and may do nothing here."
    assert Users(server.state).find(token) is not None, "tokens stay"


def test_groups_grant_roles_at_once_and_take_them_away(server: Server) -> None:
    token = done(server, "add", "ben", "--group", "ml").stdout.strip()
    path = "/api/v1/namespaces/eyes/configmaps"
    assert server.call("GET", path, token=token).code == 403

    done(server, "groups", "add", "ml", "--team", "vision")
    assert server.call("GET", path, token=token).code == 200
    assert server.call("GET", "/api/v1/namespaces/research/configmaps", token=token).code == 403
    (group,) = json.loads(done(server, "groups", "list", "-o", "json").stdout)
    assert group == {"name": "ml", "bindings": [{"role": "editor", "namespace": "eyes"}], "members": ["ben"]}

    done(server, "groups", "edit", "ml", "--role", "viewer", "-n", "research", "--no-team", "vision")
    assert server.call("GET", path, token=token).code == 403
    assert server.call("GET", "/api/v1/namespaces/research/configmaps", token=token).code == 200
    done(server, "groups", "remove", "ml")
    assert server.call("GET", "/api/v1/namespaces/research/configmaps", token=token).code == 403


def test_users_are_managed_over_a_kubeconfig_by_admins_only(server: Server, tmp_path: Path) -> None:
    paths = {}
    for name, options in {"ana": ["--role", "admin", "--everywhere"], "ben": ["--role", "admin", "-n", "eyes"]}.items():
        paths[name] = tmp_path / name
        paths[name].write_text(done(server, "add", name, *options, "-o", "kubeconfig").stdout)
    elsewhere = ["--state", str(tmp_path / "none")]

    def by(name: str, *arguments: str) -> Result:
        return CliRunner().invoke(fairway, ["users", *arguments, "--kubeconfig", str(paths[name]), *elsewhere])

    assert by("ana", "add", "kim", "--team", "vision").exit_code == 0
    assert bindings(server, "kim") == (Binding(Role.EDITOR, "eyes"),)
    for arguments in (["add", "eve", "--team", "vision"], ["edit", "ben", "--role", "admin", "--everywhere"], ["list"]):
        result = by("ben", *arguments)
        assert result.exit_code == 1
        assert "forbidden" in str(result.exception)
    assert not (tmp_path / "none").exists(), "no server is started for a kubeconfig"
    assert bindings(server, "ben") == (Binding(Role.ADMIN, "eyes"),)


def test_who_was_added_is_in_the_audit_log(server: Server) -> None:
    token = done(server, "add", "audited", "--team", "vision").stdout.strip()
    server.stop()
    lines = [json.loads(line) for line in (server.state / "audit.log").read_text().splitlines()]
    server.start()

    (line,) = [one for one in lines if one.get("name") == "audited"]
    assert (line["user"], line["verb"], line["resource"], line["code"]) == ("admin", "create", "users", 201)
    assert token not in (server.state / "audit.log").read_text()


def test_the_list_shows_roles_and_ids_of_tokens_but_no_tokens(server: Server) -> None:
    places = ["--role", "editor", "-n", "research", "-n", "trials"]
    token = done(server, "add", "ben", *places, "--expires", "30d").stdout.strip()
    table = done(server, "list").stdout

    assert [re.split(r" {2,}", line)[:4] for line in table.splitlines()] == [
        ["NAME", "ROLE", "NAMESPACE", "GROUPS"],
        ["admin", "admin", "*", "-"],
        ["ben", "editor", "research", "-"],
        ["", "editor", "trials"],
    ]
    assert re.search(r"[0-9a-f]{8} \(until \d{4}-\d\d-\d\d \d\d:\d\d UTC\)", table)
    assert token not in table
    _, ben = json.loads(done(server, "list", "-o", "json").stdout)
    assert ben["bindings"] == [{"role": "editor", "namespace": name} for name in ("research", "trials")]
    assert ben["tokens"][0].keys() == {"id", "created", "expires"}


def test_tokens_are_added_and_revoked(server: Server) -> None:
    first = done(server, "add", "ben", "--team", "vision").stdout.strip()
    second = done(server, "token", "ben").stdout.strip()
    third = json.loads(done(server, "token", "ben", "-o", "json").stdout)["token"]
    _, ben = json.loads(done(server, "list", "-o", "json").stdout)
    done(server, "token", "ben", "--revoke", ben["tokens"][0]["id"])

    found = [Users(server.state).find(token) is not None for token in (first, second, third)]
    assert found == [False, True, True]


def test_a_kubeconfig_leads_to_the_server_and_the_namespace_of_the_user(server: Server) -> None:
    places = ["--role", "editor", "-n", "research", "-n", "trials"]
    added = yaml.safe_load(done(server, "add", "ben", *places, "-o", "kubeconfig").stdout)
    again = yaml.safe_load(done(server, "token", "ben", "-o", "kubeconfig").stdout)

    for found in (added, again):
        assert found["contexts"][0]["context"] == {"cluster": "fairway", "user": "ben", "namespace": "research"}
        assert found["clusters"][0]["cluster"]["server"] == server.url
        token = found["users"][0]["user"]["token"]
        assert server.call("GET", "/api/v1/namespaces/research/configmaps", token=token).code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        pytest.param("POST", "users", {"metadata": {}}, 400, id="no name"),
        pytest.param("POST", "users", {"metadata": {"name": "x"}, "spec": {"role": "admin"}}, 400, id="unknown field"),
        pytest.param("POST", "users", {"metadata": {"name": "x"}, "spec": {"expires": "2020-01-01T00:00:00Z"}}, 400,
                     id="a token that has ended already"),
        pytest.param("POST", "users", {"kind": "Pod", "metadata": {"name": "x"}}, 400, id="another kind"),
        pytest.param("PUT", "users/admin", {"metadata": {"name": "admin"}}, 405, id="no replacing"),
        pytest.param("PATCH", "groups/none", {"spec": {}}, 400, id="a group without a word about its roles"),
        pytest.param("DELETE", "users/admin/token", None, 400, id="which token"),
        pytest.param("GET", "users/admin/password", None, 404, id="no such part"),
        pytest.param("GET", "namespaces/default/users", None, 404, id="users belong to no namespace"),
    ],
)  # fmt: skip
def test_requests_that_make_no_sense(server: Server, method: str, path: str, body: object, code: int) -> None:
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = server.call(method, f"/apis/fairway.dev/v1alpha1/{path}", body, content_type=content)

    assert (answer.code, answer.body["kind"]) == (code, "Status")


@pytest.mark.parametrize(
    "command", [(), ("add",), ("edit",), ("remove",), ("list",), ("token",), ("groups",), ("groups", "add")]
)
def test_every_help_teaches_by_example_or_table(command: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(fairway, ["users", *command, "--help"]).stdout

    assert re.search(r"^  (Examples?|Roles):\n", shown, re.MULTILINE)
