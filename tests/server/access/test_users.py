"""The users file: tokens, changes by several processes, and files that are not as they should be."""

import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from fairway.errors import AlreadyExists, NotFound, Unauthorized, ValidationError
from fairway.server.access.authentication import Authentication
from fairway.server.access.roles import ANONYMOUS, Binding, Role
from fairway.server.access.users import Users, UsersFileBroken
from fairway.testing.clock import VirtualClock

EVERYWHERE = (Binding(Role.VIEWER),)


def test_a_token_finds_its_user_with_roles_and_groups(tmp_path: Path) -> None:
    users = Users(tmp_path)
    bindings = (Binding(Role.EDITOR, "research"), Binding(Role.VIEWER))
    token = users.add("ana", bindings, groups=("ml",))
    users.add("ben", EVERYWHERE)

    found = users.find(token)

    assert found is not None
    assert (found.name, found.bindings, found.groups) == ("ana", bindings, ("ml", "system:authenticated"))
    assert found.uid
    assert [account.name for account in users.all()] == ["ana", "ben"]


def test_tokens_look_like_ours_and_only_their_hash_is_kept(tmp_path: Path) -> None:
    users = Users(tmp_path)
    tokens = [users.add("ana", EVERYWHERE), users.add_token("ana")]

    assert all(re.fullmatch(r"fw_[0-9A-Za-z]{43}", token) for token in tokens)
    assert len(set(tokens)) == 2
    content = (tmp_path / "users.json").read_text()
    assert all(token not in content and token.removeprefix("fw_") not in content for token in tokens)


@pytest.mark.parametrize("token", ["", "fw_", "fw_" + "0" * 43, "é", "\udcff"])
def test_a_wrong_token_finds_nobody(tmp_path: Path, token: str) -> None:
    users = Users(tmp_path)
    users.add("ana", EVERYWHERE)

    assert users.find(token) is None


def test_a_hash_is_no_token(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.add("ana", EVERYWHERE)
    account = users.get("ana")

    assert account is not None
    assert users.find(account.tokens[0].sha256) is None


def test_a_token_ends_when_it_expires(tmp_path: Path) -> None:
    clock = VirtualClock()
    users = Users(tmp_path, clock)
    token = users.add("ana", EVERYWHERE, expires=clock.now() + timedelta(days=30))
    clock.advance(30 * 86400 - 1)
    assert users.find(token) is not None
    clock.advance(1)

    assert users.find(token) is None


def test_a_revoked_token_ends_and_the_others_keep_working(tmp_path: Path) -> None:
    users = Users(tmp_path)
    first, second = users.add("ana", EVERYWHERE), users.add_token("ana")
    account = users.get("ana")
    assert account is not None
    users.revoke("ana", account.tokens[0].id)

    assert users.find(first) is None
    assert users.find(second) is not None


def test_a_removed_user_can_do_nothing_and_one_of_the_same_name_is_somebody_else(tmp_path: Path) -> None:
    users = Users(tmp_path)
    token = users.add("ana", EVERYWHERE)
    before = users.get("ana")
    users.remove("ana")
    assert users.find(token) is None
    users.add("ana", EVERYWHERE)
    after = users.get("ana")

    assert users.find(token) is None
    assert before is not None
    assert after is not None
    assert before.uid != after.uid


def test_new_bindings_replace_the_old_ones(tmp_path: Path) -> None:
    users = Users(tmp_path)
    token = users.add("ana", EVERYWHERE)
    users.change("ana", bindings=(Binding(Role.ADMIN),))
    found = users.find(token)

    assert found is not None
    assert found.bindings == (Binding(Role.ADMIN),)


def test_what_is_not_there_or_there_already_is_said(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.add("ana", EVERYWHERE)

    with pytest.raises(AlreadyExists, match='user "ana" already exists'):
        users.add("ana", EVERYWHERE)
    with pytest.raises(NotFound, match='user "ben" not found'):
        users.remove("ben")
    with pytest.raises(NotFound, match='user "ben" not found'):
        users.add_token("ben")
    with pytest.raises(NotFound, match='user "ana" has no token "xyz"'):
        users.revoke("ana", "xyz")


@pytest.mark.parametrize("name", ["", "a b", "system:admin", "-a", "a\n", "a" * 129, "ä", "../x", 'a"b'])
def test_names_that_could_be_mistaken_are_refused(tmp_path: Path, name: str) -> None:
    users = Users(tmp_path)

    with pytest.raises(ValidationError, match="name: Invalid value"):
        users.add(name, EVERYWHERE)
    with pytest.raises(ValidationError, match=r"groups\[0\]: Invalid value"):
        users.add("ana", EVERYWHERE, groups=(name,))
    assert users.all() == ()


@pytest.mark.parametrize("namespace", ["", "*", "A", "a/b", "-a", "a" * 64])
def test_a_binding_needs_the_name_of_a_namespace(tmp_path: Path, namespace: str) -> None:
    with pytest.raises(ValidationError, match=r"bindings\[0\].namespace: Invalid value"):
        Users(tmp_path).add("ana", (Binding(Role.EDITOR, namespace),))


def test_a_running_server_sees_changes_by_others_at_once(tmp_path: Path) -> None:
    server, command = Users(tmp_path), Users(tmp_path)
    token = command.add("ana", EVERYWHERE)
    assert server.find(token) is not None
    command.remove("ana")
    assert server.find(token) is None


def test_changes_by_several_processes_at_once_are_all_kept(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from fairway.server.access.users import *\n"
        "from fairway.server.access.roles import *\n"
        "for i in range(10): Users(Path(sys.argv[1])).add(f'{sys.argv[2]}{i}', (Binding(Role.VIEWER),))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name])  # noqa: S603 - this interpreter
        for name in "abc"
    ]

    assert [process.wait() for process in processes] == [0, 0, 0]
    assert {account.name for account in Users(tmp_path).all()} == {f"{name}{i}" for name in "abc" for i in range(10)}


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    Users(tmp_path / "state").add("ana", EVERYWHERE)

    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()} == {
        "users.json": 0o600,
        "users.lock": 0o600,
    }


def test_a_file_left_by_a_crash_before_the_replacement_does_no_harm(tmp_path: Path) -> None:
    token = Users(tmp_path).add("ana", EVERYWHERE)
    (tmp_path / "users.new").write_text('{"format": 1, "us')
    users = Users(tmp_path)
    users.add("ben", EVERYWHERE)

    assert users.find(token) is not None
    assert not (tmp_path / "users.new").exists()


BROKEN = {
    "no JSON": b"{",
    "no object": b"[]",
    "no format": b"{}",
    "an unknown role": b'{"format":1,"users":[{"name":"a","uid":"1","bindings":[{"role":"root"}]}]}',
    "a binding to no namespace": b"""
        {"format":1,"users":[{"name":"a","uid":"1","bindings":[{"role":"admin","namespace":""}]}]}""",
    "bytes that are no text": b'{"format":1,"users":[{"name":"\xff","uid":"1"}]}',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_refused_at_the_start_and_changes_nothing_later(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    users = Users(tmp_path)
    token = users.add("ana", EVERYWHERE)
    (tmp_path / "users.json").write_bytes(content)

    with pytest.raises(UsersFileBroken, match="is not a users file"):
        Users(tmp_path)
    assert users.find(token) is not None
    assert users.find(token) is not None
    assert caplog.text.count("using the previous users") == 1
    with pytest.raises(UsersFileBroken):
        users.add("ben", EVERYWHERE)
    assert (tmp_path / "users.json").read_bytes() == content


def test_a_file_of_a_newer_version_is_refused_as_such(tmp_path: Path) -> None:
    (tmp_path / "users.json").write_text(json.dumps({"format": 3, "users": "in some new shape"}))

    with pytest.raises(UsersFileBroken, match=r"has format 3, this Fairway reads up to 2; use a newer one"):
        Users(tmp_path)


def test_without_the_file_there_is_nobody(tmp_path: Path) -> None:
    users = Users(tmp_path)
    token = users.add("ana", EVERYWHERE)
    (tmp_path / "users.json").unlink()

    assert users.find(token) is None


def test_the_bearer_token_of_a_request_says_who_it_is(tmp_path: Path) -> None:
    users = Users(tmp_path)
    token = users.add("ana", EVERYWHERE)

    for header in (f"Bearer {token}", f"bearer {token}", f"  BEARER   {token} "):
        assert Authentication(users).user(header.encode()).name == "ana"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "fw_x"])
def test_a_request_without_a_token_is_by_somebody_unknown(tmp_path: Path, header: str) -> None:
    assert Authentication(Users(tmp_path)).user(header.encode()) is ANONYMOUS


@pytest.mark.parametrize("header", ["Bearer x", "Bearer fw_x y", "Bearer \x00"])
def test_a_wrong_token_is_refused_rather_than_unknown(tmp_path: Path, header: str) -> None:
    with pytest.raises(Unauthorized, match=r"^Unauthorized$"):
        Authentication(Users(tmp_path)).user(header.encode())


def test_whoever_is_remembered_is_refused_a_moment_after_somebody_else_removed_them(tmp_path: Path) -> None:
    now = 1.0
    server, command = Users(tmp_path), Users(tmp_path)
    header = f"Bearer {command.add('ana', EVERYWHERE)}".encode()
    authentication = Authentication(server, lambda: now)
    assert authentication.user(header).name == "ana"
    assert authentication.user(header).name == "ana"
    command.remove("ana")
    now += 0.02

    with pytest.raises(Unauthorized):
        authentication.user(header)


def test_whoever_is_remembered_has_the_roles_of_now(tmp_path: Path) -> None:
    users = Users(tmp_path)
    header = f"Bearer {users.add('ana', EVERYWHERE)}".encode()
    authentication = Authentication(users)
    before = authentication.user(header)
    users.change("ana", bindings=(Binding(Role.VIEWER, "team"),))

    assert before.bindings == EVERYWHERE
    assert authentication.user(header).bindings == (Binding(Role.VIEWER, "team"),)


def test_a_token_is_refused_once_it_has_expired(tmp_path: Path) -> None:
    clock = VirtualClock()
    users = Users(tmp_path, clock)
    header = f"Bearer {users.add('ana', EVERYWHERE, expires=clock.now() + timedelta(days=1))}".encode()
    authentication = Authentication(users)
    assert authentication.user(header).name == "ana"
    clock.advance(86400)

    with pytest.raises(Unauthorized):
        authentication.user(header)


def test_a_new_token_is_known_at_once(tmp_path: Path) -> None:
    server, elsewhere = Users(tmp_path), Users(tmp_path)
    authentication = Authentication(server, lambda: 1.0)
    assert authentication.user(f"Bearer {elsewhere.add('ana', EVERYWHERE)}".encode()).name == "ana"

    token = elsewhere.add("ben", EVERYWHERE)

    assert authentication.user(f"Bearer {token}".encode()).name == "ben"


def test_a_user_has_the_roles_of_their_groups(tmp_path: Path) -> None:
    users = Users(tmp_path)
    token = users.add("ana", (Binding(Role.VIEWER, "a"),), groups=("ml", "unknown"))
    users.add_group("ml", (Binding(Role.EDITOR, "b"), Binding(Role.VIEWER, "a")))

    found = Users(tmp_path).find(token)
    assert found is not None
    assert found.bindings == (Binding(Role.VIEWER, "a"), Binding(Role.EDITOR, "b"))
    users.remove_group("ml")
    assert [account.name for account in users.all()] == ["ana"]
    lost = users.find(token)
    assert lost is not None
    assert lost.bindings == (Binding(Role.VIEWER, "a"),)
    with pytest.raises(NotFound, match='group "ml" not found'):
        users.change_group("ml", ())


def test_a_file_of_the_format_before_is_read(tmp_path: Path) -> None:
    users = Users(tmp_path)
    token = users.add("ana", EVERYWHERE)
    path = tmp_path / "users.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps({"format": 1, "users": written["users"]}))

    assert Users(tmp_path).find(token) is not None
