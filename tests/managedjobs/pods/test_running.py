"""What a task's scripts meet when they really run: their shell, their files, their signals, each other."""

import os
from pathlib import Path

from fairway.managedjobs.tasks.task import Candidate, Files, Task

from .jobs import DIGEST
from .machinery import eventually, play, world_on

OTHER_DIGEST = "cd" * 32
PATIENT = {"spec": {"terminationGracePeriodSeconds": 600}}
"""Whoever does not end on SIGTERM does not end in time."""


def test_scripts_run_as_they_are_written_and_end_as_they_do(tmp_path: Path) -> None:
    """Nothing is replaced in them, nothing is forced on them, and none is too long."""
    words = {
        "nothing": ("", 0, []),
        "exit-code": ("exit 7", 7, []),
        "last-command": ("true; (exit 3)", 3, []),
        "no-set-e": ("false\necho still here", 0, ["still here"]),
        "name": ('echo "$0 has $# arguments"', 0, ["run has 0 arguments"]),
        "dollars": ("echo $(( $$ > 1 )) \"$(echo inner)\" '$$ $(HOSTNAME)'", 0, ["1 inner $$ $(HOSTNAME)"]),
        "quotes": ("""echo "it's" '"$HOME"' \\\\ ü""", 0, ['it\'s "$HOME" \\ ü']),
        "syntax": ("exec 2>/dev/null\nif", 2, []),
        "unknown": ("\nno-such-program", 127, ["run: line 2: no-such-program: command not found"]),
        "own-options": ("set -eu\nfalse\necho not here", 1, []),
        "long": (f"text='{'ü$$(x) ' * 60_000}'\nprintf %s \"$text\" | wc -c\nexit 5", 5, ["480000"]),
    }

    async def story() -> None:
        async with world_on(tmp_path) as world:
            pods = {}
            for name, (script, _, _) in words.items():
                (pods[name],) = await world.start(Task(run=script), name)
            await world.api.until(lambda: all(world.phase(pod) in {"Succeeded", "Failed"} for pod in pods.values()))
            ended = {name: (world.exit_code(pod), world.said(pod)) for name, pod in pods.items()}
            assert ended == {name: (code, lines) for name, (_, code, lines) in words.items()}

    play(story())


def test_a_task_that_is_stopped_may_save_and_finds_it_in_its_next_attempt(tmp_path: Path) -> None:
    run = """
    trap 'echo "step 5" >"$FAIRWAY_CHECKPOINT_DIR/model"; exit 0' TERM
    echo "attempt $FAIRWAY_ATTEMPT ${FAIRWAY_RESTART_CAUSE:-first} $(cat "$FAIRWAY_CHECKPOINT_DIR/model" 2>/dev/null)"
    echo $SKYPILOT_TASK_ID >>"$FAIRWAY_CHECKPOINT_DIR/ids"
    if [[ $FAIRWAY_ATTEMPT == 1 ]]; then sleep 1000; fi
    """

    async def story() -> None:
        async with world_on(tmp_path) as world:
            task = Task(run=run, pod_config=PATIENT)
            (first,) = await world.start(task)
            await eventually(lambda: world.said(first) == ["attempt 1 first "])
            await world.stop(first)
            second = await world.run(task, attempt=2, cause="preempted")
            assert world.said(second) == ["attempt 2 preempted step 5"]
            shared = world.checkpoints() / "0"
            assert len(set((shared / "ids").read_text().splitlines())) == 1, "a task keeps its id"
            assert shared.stat().st_mode & 0o777 == 0o700

    play(story())


def test_files_are_there_before_setup_and_setup_is_done_before_run(tmp_path: Path) -> None:
    async def story() -> None:
        async with world_on(tmp_path) as world:
            world.upload(DIGEST, {"train.sh": "#!/bin/sh\necho trains\n", "data/words": "in the workdir\n"})
            world.upload(OTHER_DIGEST, {"settings": "at home\n"})
            task = Task(
                files=(
                    Files(archive=DIGEST, path="."),
                    Files(archive=OTHER_DIGEST, path="~/.config/app"),
                    Files(archive=OTHER_DIGEST, path="more/deeper"),
                ),
                setup="./train.sh; cat data/words ~/.config/app/settings more/deeper/settings; cd /; touch ~/set-up",
                run='ls ~; [[ $HOME == "$PWD"/* ]] && echo "a home of its own"; [[ -w ~ ]] && echo "to write to"',
            )
            head = await world.run(task)
            assert world.said(head, "files") == []
            assert world.said(head, "setup") == ["trains", "in the workdir", "at home", "at home"]
            assert world.said(head) == ["set-up", "a home of its own", "to write to"]

            plain = await world.run(Task(run="echo $HOME"), "without-files")
            assert world.said(plain) == ["/home/of-the-server"]

    play(story())


def test_what_is_missing_or_broken_before_run_is_said_and_run_does_not_begin(tmp_path: Path) -> None:
    async def story() -> None:
        async with world_on(tmp_path) as world:
            absent = await world.run(Task(files=(Files(archive=DIGEST, path="data"),), run="echo no"), "absent")
            path = tmp_path / "archives" / "default" / f"{DIGEST}.tar.gz"
            assert world.said(absent, "files") == [
                f"fairway: the files for data are not on this machine: there is no {path}"
            ]
            path.parent.mkdir(parents=True)
            path.write_text("no archive")
            broken = await world.run(Task(files=(Files(archive=DIGEST, path="data"),), run="echo no"), "broken")
            assert world.said(broken, "files")[-1] == f"fairway: the files for data cannot be unpacked from {path}"
            failed = await world.run(Task(setup="echo broken; exit 9", run="echo no"), "failed-setup")
            assert (world.said(failed, "setup"), world.exit_code(failed, "setup")) == (["broken"], 9)
            for pod in (absent, broken, failed):
                assert (world.phase(pod), world.said(pod)) == ("Failed", [])

    play(story())


def test_no_node_runs_before_all_are_set_up(tmp_path: Path) -> None:
    """The worker's setup waits for the head to have come as far as it may; had the head gone on, it would be first."""
    door = tmp_path / "door"
    os.mkfifo(door)
    told = '>>"$FAIRWAY_CHECKPOINT_DIR/story"'
    task = Task(
        num_nodes=3,
        setup=f'if [[ $SKYPILOT_SETUP_NODE_RANK == 2 ]]; then read <"{door}"; fi; echo set up {told}',
        run=f'echo run {told}; wc -l <<<"$SKYPILOT_NODE_IPS"',
    )

    async def story() -> None:
        async with world_on(tmp_path / "state") as world:
            pods = await world.start(task)
            assert pods == ["train-1-head", "train-1-worker1", "train-1-worker2"]
            gang = world.checkpoints() / ".gang-0-1"
            await eventually(lambda: (gang / "0").exists() and (gang / "1").exists())
            with door.open("w") as opened:
                opened.write("\n")
            await world.api.until(lambda: all(world.phase(pod) == "Succeeded" for pod in pods))
            lines = (world.checkpoints() / "0" / "story").read_text().splitlines()
            assert lines == ["set up"] * 3 + ["run"] * 3
            assert [world.said(pod) for pod in pods] == [["3"]] * 3

    play(story())


def test_a_node_that_waits_for_others_can_be_stopped(tmp_path: Path) -> None:
    task = Task(num_nodes=2, setup="exit $SKYPILOT_SETUP_NODE_RANK", run="echo no", pod_config=PATIENT)

    async def story() -> None:
        async with world_on(tmp_path) as world:
            head, worker = await world.start(task)
            await world.api.until(lambda: world.phase(worker) == "Failed" and world.phase(head) == "Running")
            await eventually((world.checkpoints() / ".gang-0-1" / "0").exists)
            assert world.said(head) == []
            await world.stop(head)

    play(story())


def test_secrets_arrive_in_setup_and_run_and_nowhere_else(tmp_path: Path) -> None:
    async def story() -> None:
        async with world_on(tmp_path) as world:
            secret = {"metadata": {"name": "train-secrets"}, "stringData": {"KEY": "s3cr3t $(HOSTNAME) $$"}}
            await world.api.create("secrets", secret)
            world.upload(DIGEST, {"file": ""})
            task = Task(
                secrets=("KEY",),
                envs={"KEY": "hidden by the secret", "PLAIN": "$(HOSTNAME) $$ ${KEY}"},
                files=(Files(archive=DIGEST, path="."),),
                setup='echo "$KEY"',
                run='echo "$KEY"; echo "$PLAIN"',
            )
            head = await world.run(task)
            assert world.said(head, "setup") == ["s3cr3t $(HOSTNAME) $$"]
            assert world.said(head) == ["s3cr3t $(HOSTNAME) $$", "$(HOSTNAME) $$ ${KEY}"]
            pod = world.api.get("pods", head)
            assert pod is not None
            assert "s3cr3t" not in str(pod)
            files = next(one for one in pod["spec"]["initContainers"] if one["name"] == "files")
            assert not files.get("env")

    play(story())


def test_nothing_of_ours_but_the_documented_variables_is_left_in_the_tasks_shell(tmp_path: Path) -> None:
    """Not of the lines that go before, not of the server; and they are not disturbed by what the task says to bash."""
    own = {"own": "1", "bell": "2", "gang": "3", "PATH": "/usr/bin:/bin", "IFS": "/", "TMOUT": "1"}
    task = Task(
        num_nodes=2,
        envs={**own, "BASH_ENV": "./greeting"},
        setup="echo 'echo read; marker=there' >greeting",
        run="""
        echo "$own $bell $gang"
        echo /proc/$$/fd/*
        set -o posix
        set
        echo --
        env -i /bin/bash -c 'set -o posix; set'
        """,
    )
    of_the_runner = {"HOME", "HOSTNAME", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}

    async def story() -> None:
        async with world_on(tmp_path) as world:
            head = await world.run(task)
            read, kept, descriptors, *rest = world.said(head)
            assert (read, kept) == ("read", "1 2 3"), "BASH_ENV is read once, by the task's own shell"
            assert {path.rpartition("/")[2] for path in descriptors.split()} <= {"0", "1", "2", "3"}
            names = {line.partition("=")[0] for line in rest[: rest.index("--")] if "=" in line}
            shells = {line.partition("=")[0] for line in rest[rest.index("--") :]}
            found = {name for name in names - shells if not name.startswith(("SKYPILOT_", "FAIRWAY_"))}
            assert found - of_the_runner == {*own, "BASH_ENV", "marker", "PYTHONUNBUFFERED"} - shells

    play(story())


def test_setup_and_run_see_the_gpus_of_their_node(tmp_path: Path) -> None:
    async def story() -> None:
        async with world_on(tmp_path) as world:
            task = Task(
                candidates=(Candidate(gpus=2, accelerators=("T4",)),),
                setup="echo $SKYPILOT_SETUP_NUM_GPUS_PER_NODE $CUDA_VISIBLE_DEVICES",
                run="echo $SKYPILOT_NUM_GPUS_PER_NODE $CUDA_VISIBLE_DEVICES",
            )
            head = await world.run(task)
            assert world.said(head, "setup") == world.said(head) == ["2 0,1"]

    play(story())
