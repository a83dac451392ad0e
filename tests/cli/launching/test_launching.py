"""`fairway jobs launch`: from what is typed to the job, its output and the exit code."""

import json
import os
import re
from pathlib import Path

import pytest

from fairway.testing.servers import Server

from .conftest import Commands, masked


def test_a_job_that_is_left_alone_is_announced_with_what_to_do_next(fairway: Commands, tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text("run: echo hello\n")

    said = fairway("jobs", "launch", "-y", "-d", "train.yaml")

    assert re.sub(" +", " ", masked(said)).splitlines() == [
        "Job N (train) submitted.",
        " fairway jobs queue show its status",
        " fairway jobs why N explain why it waits",
        " fairway jobs logs N follow its log",
        " fairway jobs cancel N stop it",
    ]


def test_the_log_is_shown_until_the_job_has_ended(fairway: Commands) -> None:
    said = fairway.run("jobs", "launch", "-y", "-n", "greeter", "echo one; echo two >&2")

    assert said.code == 0
    assert said.output == "one\ntwo\n"
    assert masked(said.errors).splitlines()[0] == "Job N (greeter) submitted."
    assert masked(said.errors).splitlines()[-1] == "Job N (greeter) ended: SUCCEEDED"


def test_a_job_that_fails_ends_the_command_with_one(fairway: Commands) -> None:
    said = fairway.run("jobs", "launch", "-y", "echo before; exit 7")

    assert (said.code, said.output) == (1, "before\n")
    assert "FAILED" in said.errors.splitlines()[-1]
    assert "exit code 7" in said.errors.splitlines()[-1]


def test_a_command_keeps_its_words_apart(fairway: Commands) -> None:
    said = fairway.run("jobs", "launch", "-y", "--", "printf", "%s\\n", "a b", "$HOME", "-d")

    assert said.output == "a b\n$HOME\n-d\n"


def test_one_word_is_a_script_as_it_is(fairway: Commands) -> None:
    assert fairway("jobs", "launch", "-y", "for i in 1 2; do echo $i; done") == "1\n2\n"


def test_a_program_that_is_there_is_a_command_and_not_a_task_file(fairway: Commands, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho I ran\n")
    program.chmod(0o755)

    assert fairway("jobs", "launch", "-y", str(program)) == "I ran\n"


def test_a_task_can_come_from_standard_input(fairway: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.write(write, b"name: piped\nrun: echo from a pipe\n")
    os.close(write)
    with os.fdopen(read) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        said = fairway.run("jobs", "launch", "-y", "-")

    assert said.output == "from a pipe\n"
    assert "(piped) submitted." in said.errors


def test_files_go_along_and_only_those_that_should(fairway: Commands, tmp_path: Path) -> None:
    (tmp_path / "work/data").mkdir(parents=True)
    (tmp_path / "work/data/kept").touch()
    (tmp_path / "work/data/junk.o").touch()
    (tmp_path / "work/.git").mkdir()
    (tmp_path / "work/.gitignore").write_text("*.o\n")
    (tmp_path / "work/script.sh").write_text(
        "#!/bin/sh\nfind . -type f -not -path './.*/*' | sort; cat ~/settings.json\n"
    )
    (tmp_path / "work/script.sh").chmod(0o755)
    (tmp_path / "settings.json").write_text("{}\n")
    (tmp_path / "train.yaml").write_text(
        "workdir: work\nfile_mounts:\n  ~/settings.json: settings.json\n  more/here.json: settings.json\n"
        "setup: echo setting up\nrun: ./script.sh\n"
    )

    said = fairway("jobs", "launch", "-y", "train.yaml")

    assert said.splitlines() == [
        "setting up",
        "./.gitignore",
        "./data/kept",
        "./more/here.json",
        "./script.sh",
        "{}",
    ]


def test_what_the_server_has_is_not_sent_again(fairway: Commands, tmp_path: Path, server: Server) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a").write_text("the same")
    archives = server.state / "archives/default"

    fairway.submitted("--workdir", "work", "true")
    before = {path: path.stat().st_ino for path in archives.iterdir()}
    os.utime(tmp_path / "work/a", (1, 1))
    fairway.submitted("--workdir", "work", "true")

    assert {path: path.stat().st_ino for path in archives.iterdir()} == before


def test_variables_come_from_files_flags_and_this_shell(
    fairway: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HERE", "three")
    (tmp_path / "vars").write_text("ONE=of the file\nTWO='two'\n")
    (tmp_path / "t.yaml").write_text("envs: {ONE: null, TWO: null, FROM_HERE: null}\nrun: echo $ONE $TWO $FROM_HERE\n")

    said = fairway("jobs", "launch", "-y", "--env-file", "vars", "--env", "ONE=one", "--env", "FROM_HERE", "t.yaml")

    assert said == "one two three\n"


def test_secrets_reach_the_task_and_nobody_else(
    fairway: Commands, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"KEY": "hush-of-the-shell", "TOKEN": "hush-of-the-file", "PASSWORD": "hush-of-the-flag"}
    monkeypatch.setenv("KEY", words["KEY"])
    (tmp_path / "secret").write_text(f"TOKEN={words['TOKEN']}\n")
    (tmp_path / "t.yaml").write_text(
        "secrets: {KEY: null, TOKEN: null, PASSWORD: null}\nrun: echo ${#KEY} ${#TOKEN} ${#PASSWORD}\n"
    )
    given = ("--secret", "KEY", "--secret-file", "secret", "--secret", f"PASSWORD={words['PASSWORD']}", "t.yaml")

    said = fairway.run("jobs", "launch", "-y", *given)
    assert said.output == "17 16 16\n"
    others = [
        said.errors,
        fairway("jobs", "launch", "-d", "-o", "json", *given),
        fairway("jobs", "launch", "--dryrun", "-o", "json", *given),
        fairway("jobs", "launch", "--dryrun", *given),
        fairway("jobs", "queue", "-o", "json"),
        fairway("status", "-a", "-o", "json"),
        json.dumps(fairway.jobs()),
        server.output.read_text(),
        (server.state / "audit.log").read_text(),
    ]

    assert [text for text in others if "hush" in text] == []


def test_a_sweep_is_one_range_of_ids(fairway: Commands) -> None:
    (first,) = fairway.json("jobs", "launch", "true")[:1]

    said = fairway("jobs", "launch", "-y", "-n", "sweep", "--num-jobs", "3", "echo $FAIRWAY_JOB_RANK")

    begin = first["id"] + 1
    assert said.splitlines()[0] == f"Jobs {begin}-{begin + 2} (sweep) submitted: 3 jobs."
    assert [line.split("   ")[0].strip() for line in said.splitlines()[1:]] == [
        "fairway jobs queue",
        f"fairway jobs cancel {begin}-{begin + 2}",
    ]
    made = [fairway.job(number) for number in range(begin, begin + 3)]
    assert [one["spec"]["rank"] for one in made] == [0, 1, 2]
    assert len({one["spec"]["array"] for one in made}) == 1
    assert len({one["metadata"]["creationTimestamp"] for one in made}) == 1
    assert fairway("jobs", "logs", str(begin + 2)) == "2\n"


def test_as_json_the_jobs_are_told_and_not_followed(fairway: Commands) -> None:
    (told,) = fairway.json("jobs", "launch", "-n", "quiet", "--priority", "7", "--queue", "user-queue", "sleep 0.1")

    assert told.pop("id") > 0
    assert told.pop("object").startswith("quiet-")
    assert told == {
        "name": "quiet",
        "namespace": "default",
        "user": fairway.jobs()[0]["spec"]["user"],
        "queue": "user-queue",
        "priority": 7,
        "priorityClass": None,
        "status": "PENDING",
    }


def test_a_dry_run_sends_nothing_and_starts_nothing(
    fairway: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_STATE", str(tmp_path / "nowhere"))

    said = fairway("jobs", "launch", "--dryrun", "-n", "try", "--cpus", "3", "--num-jobs", "2", "true")

    assert said.splitlines() == [
        "It asks for 1 node: cpus 3",
        "Nothing was submitted; without --dryrun this would launch 2 jobs try.",
    ]
    assert not (tmp_path / "nowhere").exists()


TASKS = {
    "typo.yaml": "resources:\n  cpu: 4\nrun: true\n",
    "empty.yaml": "",
    "env.yaml": "envs: {MODEL: null}\nrun: true\n",
    "workdir.yaml": "workdir: nowhere\nrun: echo\n",
    "file.yaml": "workdir: typo.yaml\nrun: echo\n",
    "mount.yaml": "file_mounts: {data: nowhere}\nrun: echo\n",
    "good.yaml": "run: echo\n",
}


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(["typo.yaml"], "typo.yaml:2: resources.cpu: ", id="a field that there is not"),
        pytest.param(["empty.yaml"], "empty.yaml:1: the file is empty", id="nothing at all"),
        pytest.param(["env.yaml"], "env.yaml:1: envs.MODEL: MODEL has no value; pass --env MODEL=", id="no value"),
        pytest.param(["workdir.yaml"], "workdir.yaml:1: workdir: nowhere does not exist", id="no such directory"),
        pytest.param(["file.yaml"], "file.yaml:1: workdir: typo.yaml is not a directory", id="a file as directory"),
        pytest.param(["mount.yaml"], "mount.yaml:1: file_mounts.data: nowhere does not exist", id="no such file"),
        pytest.param(["gud.yaml"], "gud.yaml: there is no such file; did you mean good.yaml?", id="a name mistyped"),
        pytest.param(["."], ".: this is a directory; name a task file in it", id="a directory"),
        pytest.param(["good.yaml", "--name", "7"], '--name: "7" looks like the id of a job', id="a number as name"),
        pytest.param(["good.yaml", "--cpus", "many"], "--cpus: ", id="a flag that makes no sense"),
        pytest.param(["good.yaml", "--env", "NOT_SET_HERE"], "--env: NOT_SET_HERE is not set here", id="not set"),
        pytest.param(["good.yaml", "--env-file", "none"], "none: cannot be read: No such file", id="no variables"),
        pytest.param(["good.yaml", "--config", "x"], "--config: 'x' is not a file", id="no configuration"),
        pytest.param(["good.yaml", "--num-jobs", "0"], "--num-jobs: must be from 1", id="no jobs at all"),
        pytest.param([], "give a task file or a command", id="nothing to run"),
        pytest.param(["good.yaml", "--cpu", "3"], "--cpus", id="an option mistyped"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_code_2(
    fairway: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], want: str
) -> None:
    monkeypatch.setenv("FAIRWAY_STATE", str(tmp_path / "nowhere"))
    for name, text in TASKS.items():
        (tmp_path / name).write_text(text)

    said = fairway.refused("jobs", "launch", "-y", *words, code=2)

    assert want in said
    assert not (tmp_path / "nowhere").exists(), "no server was started for it"
    if want[0].islower() and ":" in want:
        assert len(said.splitlines()) == 1


def test_configuration_is_laid_in_layers(
    fairway: Commands, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queue(*words: str) -> str:
        return str(fairway.json("jobs", "launch", *words, "true")[0]["queue"])

    (server.state / "config.yaml").write_text("jobs: {queue: of-the-user}\n")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    try:
        assert queue() == "of-the-user"
        (tmp_path / ".fairway.yaml").write_text("jobs: {queue: of-the-project}\n")
        assert queue() == "of-the-project"
        monkeypatch.setenv("FAIRWAY_QUEUE", "of-the-environment")
        assert queue() == "of-the-environment"
        assert queue("--config", "jobs.queue=of-this-once") == "of-this-once"
        assert queue("--queue", "of-the-flag", "--config", "jobs.queue=of-this-once") == "of-the-flag"
    finally:
        (server.state / "config.yaml").unlink()
        fairway("jobs", "cancel", "-a", "-y")


def test_who_interrupts_leaves_the_job_alone(fairway: Commands) -> None:
    with fairway.process("jobs", "launch", "-n", "long", "echo begun; exec sleep 1000") as following:
        number = int(re.findall(r"\d+", following.reads("submitted"))[0])
        following.reads("begun")

        following.interrupt()

        said, code = following.rest()
    assert code == 130
    assert f"Job {number} (long) keeps running." in said
    assert f"fairway jobs cancel {number}" in said
    assert fairway.phase(number) == "RUNNING"
    fairway("jobs", "cancel", "-y", str(number))


def test_those_who_wait_are_told_why(fairway: Commands) -> None:
    first = fairway.submitted("--cpus", "4", "exec sleep 1000")
    fairway.until(first, "RUNNING")
    with fairway.process("jobs", "launch", "-n", "second", "--cpus", "2", "echo my turn") as following:
        said = following.reads("waits")
        assert "position 1 in cluster-queue: needs 2 CPUs, 0 free in default-flavor" in said

        fairway("jobs", "cancel", "-y", str(first))

        rest, code = following.rest()
    assert code == 0
    assert rest.splitlines()[0] == "my turn"
    assert "ended: SUCCEEDED" in rest.splitlines()[-1]


def test_a_job_is_followed_through_a_preemption(fairway: Commands, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo attempt $FAIRWAY_ATTEMPT; while [ ! -e {go} ]; do sleep 0.02; done"
    with fairway.process("jobs", "launch", "-n", "low", "--cpus", "4", "--priority", "1", script) as following:
        following.reads("attempt 1")
        high = fairway.submitted("--cpus", "4", "--priority", "1000", f"while [ ! -e {go} ]; do sleep 0.02; done")
        said = following.reads("attempt 1 was preempted")
        fairway.until(high, "RUNNING")
        go.touch()
        rest, code = following.rest()

    assert "--- attempt 1 was preempted" in said
    assert code == 0
    assert rest.splitlines().index("--- attempt 2 ---") < rest.splitlines().index("attempt 2")


def test_those_who_follow_outlive_a_restart_of_the_server(fairway: Commands, server: Server, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo one; while [ ! -e {go} ]; do sleep 0.02; done; echo two"
    with fairway.process("jobs", "launch", "-n", "steady", script) as following:
        following.reads("one")
        port = int(server.url.rpartition(":")[2])
        server.stop()
        following.reads("does not answer")
        server.start(port=port)
        go.touch()
        rest, code = following.rest()

    assert code == 0
    assert [line for line in rest.splitlines() if line in ("one", "two")] == ["two"]


def test_several_nodes_are_told_apart(fairway: Commands, tmp_path: Path) -> None:
    (tmp_path / "gang.yaml").write_text("num_nodes: 3\nsetup: echo setup\nrun: echo run of $SKYPILOT_NODE_RANK\n")

    said = fairway("jobs", "launch", "-y", "gang.yaml").splitlines()

    nodes = ("head", "worker1", "worker2")
    assert sorted(said[:3]) == [f"({name}) setup" for name in nodes], "all are set up before any runs"
    assert sorted(said[3:]) == [f"({name}) run of {rank}" for rank, name in enumerate(nodes)]


def test_a_pipeline_is_followed_task_by_task(fairway: Commands, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("name: both\n---\nname: a\nrun: echo first\n---\nname: b\nrun: echo second\n")

    said = fairway.run("jobs", "launch", "-y", "p.yaml")

    assert (said.code, said.output) == (0, "first\nsecond\n")
    assert "--- task 1 ---" in said.errors
    assert "--- task 2 ---" in said.errors


def test_the_alias_of_the_guides_works(fairway: Commands) -> None:
    assert "submitted" in fairway("job", "launch", "-y", "-d", "-n", "job1", "true")
    assert "job1" in fairway("job", "status", "--all")


def test_the_server_decides_which_priorities_a_user_may_have(fairway: Commands) -> None:
    """The user who started the server is its administrator."""
    number = fairway.submitted("--priority", "5000", "true")

    assert fairway.job(number)["spec"]["priority"] == 5000


def test_a_queue_or_a_class_that_is_not_there_is_warned_of(fairway: Commands) -> None:
    said = fairway.run("jobs", "launch", "-y", "--async", "--queue", "nowhere", "--priority", "no-class", "true")

    assert said.code == 0
    assert "warning: there is no LocalQueue 'nowhere', and the job waits until there is; there " in said.errors
    assert "warning: there is no WorkloadPriorityClass 'no-class', and the job waits" in said.errors
    fairway("jobs", "cancel", said.output.strip(), "-y")


def test_what_the_server_refuses_is_said_in_its_words_alone(fairway: Commands) -> None:
    said = fairway.refused("jobs", "launch", "-y", "--namespace", "nowhere", "true")

    assert said == 'error: namespaces "nowhere" not found'
