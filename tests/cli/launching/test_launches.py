"""`fairway launch`, `status` and `down`: tasks that run once, under a name."""

import re

import pytest

from .conftest import Commands, masked, until


@pytest.fixture(autouse=True)
def _alone(fairway: Commands) -> None:
    fairway("jobs", "cancel", "-u", "-y")
    fairway("down", "-a", "-u", "-y")


def names(fairway: Commands) -> list[str]:
    return [one["metadata"]["name"] for one in fairway.jobs() if one["spec"].get("recover") is False]


def test_a_launch_has_the_name_that_it_is_given(fairway: Commands) -> None:
    said = fairway("launch", "-y", "-d", "-c", "dev", "exec sleep 1000")

    assert re.sub(" +", " ", masked(said)).splitlines() == [
        "Job N (dev) submitted.",
        " fairway status dev show its status",
        " fairway logs dev follow its log",
        " fairway down dev stop it",
    ]
    assert names(fairway) == ["dev"]
    until(lambda: fairway.json("status", "dev")[0]["status"] == "RUNNING")


def test_the_name_is_taken_while_the_task_lives_and_free_when_it_has_ended(fairway: Commands) -> None:
    fairway("launch", "-y", "-d", "-c", "dev", "exec sleep 1000")
    until(lambda: fairway.json("status", "dev")[0]["status"] == "RUNNING")
    (first,) = fairway.json("status", "dev")

    said = fairway.refused("launch", "-y", "-c", "dev", "true")
    assert said == (
        f"error: dev is RUNNING (job {first['id']}); end it with `fairway down dev`, or choose another name with -c"
    )

    fairway("jobs", "cancel", "-y", "dev")
    assert fairway("launch", "-y", "-c", "dev", "echo second") == "second\n"
    (second,) = fairway.json("status", "dev")
    assert second["id"] > first["id"]
    assert names(fairway) == ["dev"]


def test_a_managed_job_is_not_replaced_by_a_launch(fairway: Commands) -> None:
    number = fairway.submitted("-n", "mine", "true")
    fairway.until(number, "SUCCEEDED")

    said = fairway.refused("launch", "-y", "-c", f"mine-{number}", "true")

    assert f"mine-{number} is the managed job {number}; choose another name" in said


def test_launches_without_a_name_get_one_each(fairway: Commands) -> None:
    for _ in range(2):
        fairway("launch", "-y", "-d", "true")

    assert len(set(names(fairway))) == 2


def test_status_lists_launches_and_with_all_also_jobs(fairway: Commands) -> None:
    fairway("launch", "-y", "-c", "one", "true")
    fairway("launch", "-y", "-c", "two", "--cpus", "2", "true")
    number = fairway.submitted("-n", "managed", "true")
    fairway.until(number, "SUCCEEDED")

    shown = re.sub("0s", "TIME", masked(fairway("status")))
    assert [re.sub(" +", " ", line) for line in shown.splitlines()] == [
        "NAME ID USER INFRA RESOURCES STATUS LAUNCHED RAN WHY",
        f"two N {fairway.json('status')[0]['user']} here N cpu SUCCEEDED TIME ago TIME",
        f"one N {fairway.json('status')[0]['user']} here N cpu SUCCEEDED TIME ago TIME",
    ]
    assert [one["name"] for one in fairway.json("status")] == ["two", "one"]
    assert [one["name"] for one in fairway.json("status", "-a")][:3] == ["managed", "two", "one"]
    assert [one["name"] for one in fairway.json("status", "tw?")] == ["two"]
    assert "there is no job 'three'" in fairway.refused("status", "three")


def test_where_nothing_was_launched_it_is_said_how(fairway: Commands) -> None:
    assert fairway("status").startswith("No launched tasks. `fairway launch")
    assert fairway.json("status") == []


def test_down_ends_and_forgets(fairway: Commands) -> None:
    fairway("launch", "-y", "-d", "-c", "dev", "exec sleep 1000")
    (dev,) = fairway.json("status", "dev")
    until(lambda: fairway.json("status", "dev")[0]["status"] == "RUNNING")

    assert fairway("down", "-y", "dev") == f"Job {dev['id']} (dev) deleted.\n"

    assert names(fairway) == []
    pods = "/api/v1/namespaces/default/pods?labelSelector=fairway.dev/job=dev"
    until(lambda: not fairway.server.call("GET", pods).body["items"])


def test_down_of_all_leaves_managed_jobs_alone(fairway: Commands) -> None:
    for name in ("one", "two"):
        fairway("launch", "-y", "-d", "-c", name, "true")
    number = fairway.submitted("true")

    assert masked(fairway("down", "-a", "-y")) == "N jobs (N-N) deleted.\n"

    assert names(fairway) == []
    assert fairway.job(number)["spec"]["id"] == number
    assert fairway("down", "-a", "-y") == "Nothing to delete.\n"
    assert fairway.json("down", "-a", "-y") == []
    assert "say which tasks" in fairway.refused("down", code=2)
