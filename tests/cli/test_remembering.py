"""The options of the last `fairway up`, and servers that are started with them again."""

import json
import stat
from pathlib import Path

import pytest

from fairway.cli.remembering import FILE, Options, remember, remembered, settings_as_before, settings_with
from fairway.settings import Settings, SettingsError

from .conftest import CommandLine


def kept(state: Path, text: str) -> Path:
    state.mkdir(exist_ok=True)
    (state / FILE).write_text(text)
    return state


def test_what_was_said_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    remember(Settings(state=tmp_path, port=0, gpus="T4:8", api_only=True))

    assert json.loads((tmp_path / FILE).read_text()) == {"port": 0, "gpus": "T4:8", "api_only": True}
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / FILE]
    assert remembered(tmp_path).words == "--port 0 --gpus T4:8 --api-only"


def test_paths_hold_wherever_the_next_command_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("server.crt", "server.key"):
        Path(name).touch()
    remember(Settings(state=tmp_path, tls_cert=Path("server.crt"), tls_key=Path("server.key")))

    monkeypatch.chdir("/")
    settings, _ = settings_as_before(tmp_path, {})
    assert (settings.tls_cert, settings.tls_key) == (tmp_path / "server.crt", tmp_path / "server.key")


def test_where_nothing_was_kept_nothing_is_special(tmp_path: Path) -> None:
    settings, options = settings_as_before(tmp_path / "nowhere", {})

    assert settings == Settings(state=tmp_path / "nowhere")
    assert (options, options.words) == (Options(), "")


@pytest.mark.parametrize(
    ("environment", "want"), [({}, 8000), ({"FAIRWAY_PORT": "9000"}, 9000), ({"FAIRWAY_PORT": ""}, 8000)]
)
def test_the_environment_wins_over_the_port_that_was_kept(
    tmp_path: Path, environment: dict[str, str], want: int
) -> None:
    settings, _ = settings_as_before(kept(tmp_path, '{"port": 8000, "cpus": "4"}'), environment)

    assert (settings.port, settings.cpus) == (want, "4")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("{", "up.json, the options of the last `fairway up`, cannot be used: ", id="cut off"),
        pytest.param('{"gpu": "8"}', "unknown field `gpu`", id="a field that there is not"),
        pytest.param('{"port": "x"}', "Expected `int`", id="a port in words"),
        pytest.param('{"cpus": "lots"}', "--cpus lots: give an amount", id="an amount that is none"),
        pytest.param(
            '{"tls_cert": "/no", "tls_key": "/no"}', "--tls-cert /no: there is no such file", id="a file gone"
        ),
    ],
)
def test_what_cannot_be_used_is_said_with_the_way_out(tmp_path: Path, text: str, want: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        settings_as_before(kept(tmp_path, text), {})

    assert want in str(refusal.value)
    assert "start the server with `fairway up` and new options" in str(refusal.value)


@pytest.mark.parametrize("port", ["many", "-1", "70000"])
def test_a_port_of_the_environment_that_is_none(tmp_path: Path, port: str) -> None:
    with pytest.raises(SettingsError, match=r"FAIRWAY_PORT .*: a port is a number from 0 to 65535"):
        settings_as_before(tmp_path, {"FAIRWAY_PORT": port})


def test_a_server_that_starts_by_itself_has_what_the_last_up_was_told(fairway: CommandLine) -> None:
    def gpus() -> str:
        (node,) = json.loads(fairway("get", "nodes", "-o", "json"))["items"]
        return str(node["status"]["allocatable"].get("nvidia.com/gpu", "0"))

    fairway("up", "--port", "0", "--gpus", "T4:2")
    late = fairway.run("up", "--gpus", "4")
    assert late.returncode == 0
    assert "was not changed. To apply --gpus, run `fairway shutdown` first." in late.stderr

    fairway("shutdown")
    told = fairway.run("queues")
    assert "starting one with the options of the last `fairway up`: --port 0 --gpus T4:2 ..." in told.stderr
    assert gpus() == "2"

    fairway("shutdown")
    fairway("up")
    assert gpus() == "2", "without options it starts as before"

    fairway("shutdown")
    fairway("up", "--port", "0")
    assert gpus() == "2", "what is not said again stays"

    fairway("shutdown")
    fairway("up", "--reset", "--port", "0")
    assert gpus() == "0", "unless it is to be forgotten"


def test_a_later_up_keeps_what_it_does_not_say_and_names_it(fairway: CommandLine) -> None:
    fairway("up", "--port", "0", "--api-only", "--gpus", "T4:8", "--memory", "8Gi")
    fairway("shutdown")

    second = fairway.run("up", "--cpus", "8")
    assert (
        "Saved options used: --port 0 --memory 8Gi --gpus T4:8 --api-only (`fairway up --reset` discards them)."
        in second.stderr
    )
    assert remembered(fairway.state).words == "--port 0 --cpus 8 --memory 8Gi --gpus T4:8 --api-only"

    third = fairway.run("up", "--cpus", "16")
    assert "was not changed" in third.stderr
    assert remembered(fairway.state).cpus == "8"
    fairway("shutdown")
    fairway("up", "--reset", "--port", "0", "--api-only")
    assert remembered(fairway.state).words == "--port 0 --api-only"


def test_options_that_contradict_those_of_before_take_their_place(tmp_path: Path) -> None:
    for name in ("a.crt", "a.key"):
        (tmp_path / name).touch()
    brought = {"tls_cert": tmp_path / "a.crt", "tls_key": tmp_path / "a.key"}
    kept(tmp_path, json.dumps({name: str(path) for name, path in brought.items()}))
    plain, _ = settings_with(tmp_path, {"insecure": True}, {})
    assert (plain.tls_cert, plain.insecure) == (None, True)

    kept(tmp_path, '{"insecure": true, "port": 8000}')
    settings, before = settings_with(tmp_path, brought, {"FAIRWAY_PORT": "9000"})
    assert (settings.tls_cert, settings.insecure, settings.port) == (tmp_path / "a.crt", False, 9000)
    assert before.words == "--port 8000"
