"""The engine decides as Kueue did: every recorded world, step by step.

Where a recording says why a workload waits, that may be left over from an earlier try, so messages are compared as a
share of all, not one by one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.testing.conformance import Replay, compare, main, read_worlds

RECORDINGS = sorted((Path(__file__).parent / "data").glob("*.jsonl.gz"))

SAME_MESSAGES = 0.93
"""The least share of messages that are the same to the letter; most others are stale."""


def worlds() -> Iterator[Any]:
    for path in RECORDINGS:
        for world in read_worlds(path):
            yield pytest.param(world, id=f"{path.name.partition('.')[0]} seed {world['seed']}")


@pytest.mark.parametrize("world", list(worlds()))
def test_every_step_is_decided_as_kueue_did(world: dict[str, Any]) -> None:
    assert list(compare(world)) == []


def test_the_command_says_how_many_worlds_agree() -> None:
    count = sum(1 for _ in read_worlds(RECORDINGS[0]))
    command = [sys.executable, "-m", "fairway.testing.conformance", str(RECORDINGS[0])]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own module

    assert (ended.returncode, ended.stdout) == (0, f"agree {count} of {count} worlds\n")


def test_a_world_that_disagrees_is_reported_with_seed_and_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay that cannot fail proves nothing: one wanted state is changed, in a step in the middle."""
    honest, tampered = _two_worlds()
    step, name = next(
        (number, name)
        for number, step in enumerate(tampered["trace"])
        for name, expected in step["expect"].items()
        if number > 2 and expected["state"] == "admitted"
    )
    tampered["trace"][step]["expect"][name]["state"] = "pending"
    file = tmp_path / "tampered.jsonl"
    file.write_bytes(b"\n".join(msgspec.json.encode(world) for world in (honest, tampered)))

    code = main([str(file)])

    assert code == 1
    assert capsys.readouterr().out.splitlines() == [
        f"tampered.jsonl: seed {tampered['seed']}, step {step}, {name} state: wanted pending, decided admitted",
        "agree 1 of 2 worlds",
    ]


def test_only_the_world_that_is_asked_for_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    honest, tampered = _two_worlds()
    tampered["trace"][-1]["expect"]["nobody"] = {"state": "admitted"}
    file = tmp_path / "two.jsonl"
    file.write_bytes(b"\n".join(msgspec.json.encode(world) for world in (honest, tampered)))

    code = main([str(file), "--seed", str(honest["seed"])])

    assert (code, capsys.readouterr().out) == (0, "agree 1 of 1 worlds\n")


def test_a_workload_that_should_not_exist_is_reported() -> None:
    _, world = _two_worlds()
    last = len(world["trace"]) - 1
    name = next(iter(world["trace"][last]["expect"]))
    del world["trace"][last]["expect"][name]

    assert [(found.step, found.workload, found.field) for found in compare(world)] == [(last, name, "existence")]


def test_what_was_recorded_too_early_is_passed_through_with_its_message() -> None:
    """World 109: a reclaimed workload is parked at the flavors it continues with, and admitted a second later."""
    world, number = _recorded_too_early()
    step = world["trace"][number]
    want = {name: one["why"] for name, one in step["passing"].items() if "why" in one}
    said: list[dict[str, str]] = []
    replay = Replay(world)
    for before in world["trace"][:number]:
        replay.step(before["do"])

    replay.step(step["do"], lambda: said.append({name: replay.message(name) for name in want}))

    assert want in said
    assert replay.outcome().keys() == step["expect"].keys()
    assert {replay.outcome()[name]["state"] for name in want} == {"admitted"}


def test_a_world_that_does_not_pass_through_what_was_recorded_is_reported() -> None:
    world, number = _recorded_too_early()
    name = next(name for name, one in world["trace"][number]["passing"].items() if "why" in one)
    world["trace"][number]["passing"][name]["evictions"] = {"Preempted": 2}

    assert [(found.step, found.field) for found in compare(world)] == [(number, "passing")]


def test_messages_say_what_kueue_said() -> None:
    """Which flavor and resource is short, and by how much: to the letter, for nearly all who wait."""
    said = [pair for path in RECORDINGS for world in read_worlds(path) for pair in _messages(world)]
    same = sum(want == got for want, got in said)

    assert same / len(said) >= SAME_MESSAGES, f"{same} of {len(said)} messages agree"


def _messages(world: dict[str, Any]) -> Iterator[tuple[str, str]]:
    replay = Replay(world)
    for step in world["trace"]:
        replay.step(step["do"])
        for name, want in step["expect"].items():
            if want["state"] == "pending" and "why" in want:
                yield want["why"], replay.message(name)


def _recorded_too_early() -> tuple[dict[str, Any], int]:
    """World 109, and its first step that was recorded before things had come to rest."""
    world = next(one for path in RECORDINGS for one in read_worlds(path) if one["seed"] == 109)
    return world, next(number for number, step in enumerate(world["trace"]) if "passing" in step)


def _two_worlds() -> tuple[dict[str, Any], dict[str, Any]]:
    source = read_worlds(RECORDINGS[-1])
    return deepcopy(next(source)), deepcopy(next(source))


@pytest.mark.parametrize(
    ("content", "want_error"),
    [
        pytest.param(b"not json\n", "cannot be read as recorded worlds", id="a file that is no recording"),
        pytest.param(
            b'{"seed": 1, "namespace": "w1", "objects": [], "trace": [{"do": {"explode": "j1"}, "expect": {}}]}\n',
            "step 'explode' is not one of activate, create",
            id="a step that nobody knows",
        ),
        pytest.param(
            b'{"seed": 1, "namespace": "w1", "objects": [{"apiVersion": "v1", "kind": "Pod"}], "trace": []}\n',
            'apiVersion: Unsupported value: "v1"',
            id="an object that is not Kueue's",
        ),
    ],
)
def test_what_cannot_be_replayed_is_an_error_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, want_error: str
) -> None:
    recording = tmp_path / "wrong.jsonl"
    recording.write_bytes(content)

    assert main([str(recording)]) == 2
    assert want_error in capsys.readouterr().err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere.jsonl.gz"]) == 2
    assert "nowhere.jsonl.gz cannot be read" in capsys.readouterr().err
