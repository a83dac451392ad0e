"""Commands of Ray's processes."""

import shlex

import pytest

from fairway.ray import commands
from fairway.ray.commands import HeadPorts, WorkerPorts

HEAD = HeadPorts(gcs=20001, dashboard=20002, client=20003, agent=20004, metrics=20005)


def test_a_head_listens_on_its_own_ports_of_the_loopback_address_whatever_the_manifest_asks_for() -> None:
    asked = {"port": "6379", "dashboard-host": "0.0.0.0", "num-cpus": "0", "temp-dir": "/tmp/ray"}  # noqa: S104, S108

    words = shlex.split(commands.ray_start(asked, commands.head_parameters(HEAD, "/run/r")))

    assert words[:3] == ["ray", "start", "--head"]
    assert {"--port=20001", "--dashboard-host=127.0.0.2", "--temp-dir=/run/r", "--num-cpus=0", "--block"} < set(words)
    assert words[3:] == sorted(words[3:])


def test_a_worker_joins_its_head_and_leaves_the_logs_to_the_monitor_of_the_head() -> None:
    words = shlex.split(commands.ray_start(commands.worker_parameters(WorkerPorts(20006, 20007), "/run/r", HEAD.gcs)))

    assert "--head" not in words
    assert {"--address=127.0.0.2:20001", "--include-log-monitor=false", "--metrics-export-port=20007"} < set(words)


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
