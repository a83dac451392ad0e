"""Commands of Ray's processes."""

import shlex

import pytest

from fairway.ray import commands
from fairway.ray.commands import HeadPorts, WorkerPorts

HEAD = HeadPorts(20001, 20002, 20003, 20004, 20005, 20006, 20007)
AGENTS = {
    "--dashboard-agent-listen-port", "--dashboard-agent-grpc-port", "--runtime-env-agent-port", "--metrics-export-port",
}  # fmt: skip


def test_a_head_listens_on_its_own_ports_of_the_loopback_address_whatever_the_manifest_asks_for() -> None:
    asked = {"port": "6379", "dashboard-host": "0.0.0.0", "num-cpus": "0", "object-manager-port": "8076"}  # noqa: S104

    words = shlex.split(commands.ray_start(asked, commands.head_parameters(), commands.port_parameters(HEAD)))

    assert words[:3] == ["ray", "start", "--head"]
    assert {"--port=20001", "--dashboard-host=127.0.0.2", "--num-cpus=0", "--object-manager-port=0"} < set(words)
    assert words[3:] == sorted(words[3:])


@pytest.mark.parametrize(
    ("parameters", "ports"),
    [
        pytest.param(commands.head_parameters(), HEAD, id="head"),
        pytest.param(commands.worker_parameters(), WorkerPorts(20008, 20009, 20010, 20011), id="worker"),
    ],
)
def test_all_ports_are_chosen_before_a_node_starts(parameters: dict[str, str], ports: HeadPorts | WorkerPorts) -> None:
    words = shlex.split(commands.ray_start(parameters, commands.port_parameters(ports)))
    said = dict(word.split("=") for word in words if "port=" in word)

    assert said.keys() >= AGENTS
    assert {int(port) for port in said.values()} == {0, *ports}
    assert {name for name, port in said.items() if port == "0"} == {
        "--min-worker-port", "--max-worker-port", "--node-manager-port", "--object-manager-port",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({}, {}, id="nothing said leaves it to Ray"),
        pytest.param({"requests": {"cpu": "500m"}}, {"num-cpus": "1"}, id="CPUs are rounded up"),
        pytest.param(
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2500m"}}, {"num-cpus": "3"}, id="limits before requests"
        ),
        pytest.param(
            {"limits": {"memory": "8G", "nvidia.com/gpu": "2"}},
            {"memory": "8000000000", "object-store-memory": "2400000000", "num-gpus": "2"},
            id="memory in bytes, with its share for the object store, and GPUs",
        ),
        pytest.param(
            {"requests": {"memory": "100Mi"}},
            {"memory": "104857600", "object-store-memory": "78643200"},
            id="the object store has at least what Ray needs",
        ),
    ],
)
def test_a_node_has_exactly_what_its_container_asks_for(resources: dict[str, object], expected: dict[str, str]) -> None:
    assert commands.resource_parameters(resources) == expected


def test_a_parameter_cannot_leave_its_word() -> None:
    text = commands.ray_start({"resources": '{"a": 1}', "x; rm -rf /": "$(id)'"})

    assert shlex.split(text) == ["ray", "start", '--resources={"a": 1}', "--x; rm -rf /=$(id)'"]


def test_ports_are_searched_around_the_range_and_taken_ones_left_out() -> None:
    taken = {31_998, 20_000}

    found = commands.choose_ports(3, 11_998, lambda port: port not in taken)

    assert found == (31_999, 20_001, 20_002)


def test_a_head_alone_needs_no_ports_of_workers() -> None:
    assert commands.choose_ports(0, 5, lambda _port: True) == ()


def test_without_enough_free_ports_the_error_says_how_many_there_are() -> None:
    with pytest.raises(ValueError, match="2 free ports are needed, and there are 1 from 20000 on"):
        commands.choose_ports(2, 0, lambda port: port == 20_000)
