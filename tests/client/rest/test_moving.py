"""A server that is started anew may listen elsewhere: the kubeconfig says where, and those who follow find it."""

import io
from pathlib import Path

import pytest

from client.rest.scripted import Scripted, answer
from fairway.client.rest import Unreachable, open_rest

_FILE = """\
apiVersion: v1
kind: Config
current-context: {current}
contexts:
- name: fairway
  context: {{cluster: here, user: me}}
- name: other
  context: {{cluster: other, user: me}}
clusters:
- name: here
  cluster: {{server: "http://127.0.0.1:{port}"}}
- name: other
  cluster: {{server: "http://127.0.0.1:1"}}
users:
- name: me
  user: {{token: {token}}}
"""


def written(path: Path, port: int, current: str = "fairway", token: str = "secret") -> Path:  # noqa: S107 - of a test
    path.write_text(_FILE.format(port=port, current=current, token=token))
    return path


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    with Scripted() as gone:
        return written(tmp_path / "kubeconfig", gone.port)


def test_questions_are_asked_where_the_server_is_now(kubeconfig: Path) -> None:
    with open_rest(kubeconfig) as rest, Scripted([answer(b'{"a": 1}')]) as server:
        written(kubeconfig, server.port, token="fresh")  # noqa: S106 - of a test

        assert rest.get("/x") == {"a": 1}
        assert rest.server == f"http://127.0.0.1:{server.port}"
        assert b"Authorization: Bearer fresh" in server.requests[0]


def test_a_write_that_failed_is_not_sent_again_but_the_next_one_arrives(kubeconfig: Path) -> None:
    with open_rest(kubeconfig) as rest, Scripted([answer()]) as server:
        written(kubeconfig, server.port)

        with pytest.raises(Unreachable):
            rest.create("/x", {})
        rest.create("/x", {})
        assert server.targets() == ["POST /x"]


def test_all_that_speak_to_it_find_it(kubeconfig: Path) -> None:
    with open_rest(kubeconfig) as rest, rest.clone() as other, Scripted([answer()], [answer()]) as server:
        written(kubeconfig, server.port)

        rest.get("/x")
        rest.close()
        other.get("/y")
        assert server.targets() == ["GET /x", "GET /y"]


@pytest.mark.parametrize(
    "text", [None, "", "apiVersion: v1\n", "contexts: ["], ids=["gone", "empty", "other", "broken"]
)
def test_a_file_that_does_not_help_changes_nothing(kubeconfig: Path, text: str | None) -> None:
    with open_rest(kubeconfig) as rest:
        where = rest.server
        if text is None:
            kubeconfig.unlink()
        else:
            kubeconfig.write_text(text)

        with pytest.raises(Unreachable, match="connection refused"):
            rest.get("/x")
        assert rest.server == where


def test_it_stays_with_its_context_whatever_the_current_one_is_now(kubeconfig: Path) -> None:
    with open_rest(kubeconfig) as rest, Scripted([answer()]) as server:
        written(kubeconfig, server.port, current="other")

        rest.get("/x")
        assert rest.context == "fairway"


def test_an_upload_is_begun_anew_by_whoever_asks_again(kubeconfig: Path) -> None:
    with open_rest(kubeconfig) as rest, Scripted([answer()]) as server:
        written(kubeconfig, server.port)
        file = io.BytesIO(b"content")

        with pytest.raises(Unreachable):
            rest.upload("/x", file, 7)
        file.seek(0)
        rest.upload("/x", file, 7)
        assert server.requests[0].endswith(b"content")
