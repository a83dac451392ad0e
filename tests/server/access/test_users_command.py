"""`fairway users`, as it is typed."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from fairway.cli.users import users
from fairway.server.access.roles import Binding, Role
from fairway.server.access.users import Users


def run(state: Path, *arguments: str) -> Result:
    return CliRunner().invoke(users, [*arguments, "--state", str(state)])


def added(state: Path, *arguments: str) -> str:
    result = run(state, "add", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def test_add_prints_a_token_that_works(tmp_path: Path) -> None:
    token = added(tmp_path, "ben", "-n", "research", "--namespace", "trials", "-n", "research", "--group", "ml")
    user = Users(tmp_path).find(token)

    assert user is not None
    assert user.bindings == (Binding(Role.EDITOR, "research"), Binding(Role.EDITOR, "trials"))
    assert user.groups == ("ml", "system:authenticated")


def test_the_state_directory_can_come_from_the_environment(tmp_path: Path) -> None:
    result = CliRunner().invoke(users, ["add", "ana", "--role", "admin"], env={"FAIRWAY_STATE": str(tmp_path)})

    user = Users(tmp_path).find(result.stdout.strip())
    assert user is not None
    assert user.bindings == (Binding(Role.ADMIN),)


def test_the_list_shows_roles_and_ids_of_tokens_but_no_tokens(tmp_path: Path) -> None:
    added(tmp_path, "ana", "--role", "admin")
    token = added(tmp_path, "ben", "-n", "a", "-n", "b", "--expires", "30d")
    table = run(tmp_path, "list").stdout

    assert [re.split(r" {2,}", line)[:3] for line in table.splitlines()] == [
        ["NAME", "ROLE", "NAMESPACE"],
        ["ana", "admin", "*"],
        ["ben", "editor", "a"],
        ["", "editor", "b"],
    ]
    assert re.search(r"[0-9a-f]{8} \(until \d{4}-\d\d-\d\d \d\d:\d\d UTC\)", table)
    assert token not in table


def test_the_list_as_json(tmp_path: Path) -> None:
    added(tmp_path, "ben", "-n", "a")
    (ben,) = json.loads(run(tmp_path, "list", "-o", "json").stdout)

    assert (ben["name"], ben["bindings"]) == ("ben", [{"role": "editor", "namespace": "a"}])
    assert ben["tokens"][0].keys() == {"id", "created", "expires"}
    assert json.loads(run(tmp_path / "empty", "list", "-o", "json").stdout) == []


def test_an_empty_list_says_what_to_do(tmp_path: Path) -> None:
    assert "Add one with: fairway users add NAME" in run(tmp_path, "list").stderr


def test_tokens_are_added_and_revoked(tmp_path: Path) -> None:
    first = added(tmp_path, "ben")
    second = run(tmp_path, "token", "ben").stdout.strip()
    (ben,) = json.loads(run(tmp_path, "list", "-o", "json").stdout)
    assert run(tmp_path, "token", "ben", "--revoke", ben["tokens"][0]["id"]).exit_code == 0

    assert Users(tmp_path).find(first) is None
    assert Users(tmp_path).find(second) is not None


def test_remove(tmp_path: Path) -> None:
    token = added(tmp_path, "ben")
    assert run(tmp_path, "remove", "ben").exit_code == 0

    assert Users(tmp_path).find(token) is None


def test_a_kubeconfig_leads_to_the_server_with_the_token_of_the_user(tmp_path: Path) -> None:
    cluster = {"name": "fairway", "cluster": {"server": "http://127.0.0.1:1234"}}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"clusters": [cluster], "users": [{"name": "owner"}]}))
    config = yaml.safe_load(added(tmp_path, "ben", "--kubeconfig"))
    again = yaml.safe_load(run(tmp_path, "token", "ben", "--kubeconfig").stdout)

    assert config["clusters"] == [cluster]
    assert config["current-context"] == "ben"
    assert config["contexts"] == [{"name": "ben", "context": {"cluster": "fairway", "user": "ben"}}]
    for found in (config, again):
        assert Users(tmp_path).find(found["users"][0]["user"]["token"]) is not None


def test_a_kubeconfig_begins_in_the_namespace_where_the_user_may_do_something(tmp_path: Path) -> None:
    cluster = {"name": "fairway", "cluster": {"server": "http://127.0.0.1:1234"}}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"clusters": [cluster]}))
    places = ("--namespace", "research", "--namespace", "trials")
    config = yaml.safe_load(added(tmp_path, "ben", *places, "--kubeconfig"))
    again = yaml.safe_load(run(tmp_path, "token", "ben", "--kubeconfig").stdout)

    for found in (config, again):
        assert found["contexts"][0]["context"] == {"cluster": "fairway", "user": "ben", "namespace": "research"}


def test_without_a_server_there_is_no_kubeconfig_and_no_user_is_left_behind(tmp_path: Path) -> None:
    result = run(tmp_path, "add", "ben", "--kubeconfig")

    assert result.exit_code == 1
    assert "has `fairway serve` ever run here?" in result.stderr
    assert Users(tmp_path).all() == ()


MISTAKES = [
    (("add", "a b"), 1, 'User "a b" is invalid: name: Invalid value'),
    (("add", "ben", "--role", "root"), 2, "'root' is not one of 'admin', 'editor', 'viewer'"),
    (("add", "ben", "--expires", "soon"), 2, "'soon' is not a time; write a number and m, h, d or w"),
    (("remove", "eve"), 1, 'user "eve" not found'),
    (("token", "eve"), 1, 'user "eve" not found'),
    (("token", "eve", "--revoke", "x", "--expires", "1d"), 2, "--revoke ends a token"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES)
def test_mistakes_are_told_in_a_line(tmp_path: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    result = run(tmp_path, *arguments)

    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert f"Error: {tmp_path}/file/below" in run(tmp_path / "file" / "below", "add", "ben").stderr


@pytest.mark.parametrize("command", [(), ("add",), ("remove",), ("list",), ("token",)])
def test_every_help_teaches_by_example_or_table(command: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(users, [*command, "--help"]).stdout

    assert re.search(r"^  (Examples?|Roles):\n", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 80
