"""Limits: enforced by control groups where the machine lets us have some, and a clear word where it does not."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from fairway.runner.processes import Ended, ProcessLimits
from fairway.runner.supervising.cgroups import CgroupMount, Cgroups

from .servers import connected, eventually_so, hiding_daemon, is_gone, kill, play, supervisor_of

MEGABYTE = 1 << 20
EATER = "x = bytearray(200 << 20); print(len(x))"


def groups_of(token: str) -> list[Path]:
    """Walked with `os.walk`, which skips groups of other tests that vanish meanwhile; `rglob` fails on them."""
    return [
        Path(place, name)
        for place, names, _ in os.walk("/sys/fs/cgroup")
        if Path(place).name.startswith(f"fairway-{token}")
        for name in names
    ]


def token_of(directory: Path) -> str:
    header = (directory / "supervisor" / "journal").read_bytes().split(b"\n")[0]
    return str(json.loads(header)["token"])


def test_memory_is_limited_or_a_sentence_says_why_not(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            limits = ProcessLimits(memory_bytes=50 * MEGABYTE)
            ended = await server.run("eater", sys.executable, "-c", EATER, limits=limits)

            if "memory" in server.supervision.limits_note:
                assert ended.exit_code == 0
            else:
                assert ended == Ended(at=ended.at, signal=signal.SIGKILL, out_of_memory=True)
            modest = await server.run("modest", sys.executable, "-c", "print(1)", limits=limits)
            assert (modest.exit_code, modest.out_of_memory) == (0, False)
            assert groups_of(token_of(shared)) == []

    play(scene())


def test_cpu_is_limited_before_the_program_begins(shared: Path) -> None:
    script = "cat /proc/self/cgroup; exec sleep 600"

    async def scene() -> None:
        async with connected(shared) as server:
            await server.shell("slow", script, limits=ProcessLimits(cpu_millis=250))
            lines = (await server.says("slow", "0::")).splitlines()
            if server.supervision.limits_note == "":
                assert [line for line in lines if f"/fairway-{token_of(shared)}/" in line]
                texts = [path.read_text() for group in groups_of(token_of(shared)) for path in group.glob("cpu.*")]
                assert [text for text in texts if text.strip() in ("25000", "25000 100000")]
            assert (await server.stop("slow", 60)).signal == signal.SIGTERM
            assert groups_of(token_of(shared)) == []

    play(scene())


def test_cpus_are_a_share_under_contention(shared: Path) -> None:
    """Two that want the same CPU get it as they asked for it: nine to one."""
    burn = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"

    async def scene() -> None:
        async with connected(shared) as server:
            for name, millis in (("small", 100), ("large", 900)):
                await server.start(name, sys.executable, "-c", burn, limits=ProcessLimits(cpu_share_millis=millis))
            if server.supervision.limits_note == "":
                large, small = (server.processes[name].pid or 0 for name in ("large", "small"))
                ours = f"/fairway-{token_of(shared)}/"
                await eventually_so(lambda: all(ours in groups_in_proc(pid) for pid in (large, small)))
                before, begun = seconds_of(small), seconds_of(large)
                await eventually_so(lambda: seconds_of(large) > begun + 0.5)
                assert seconds_of(small) - before < 0.25
            for name in ("large", "small"):
                await server.stop(name)

    play(scene())


def test_a_share_counts_for_what_a_process_has_started_too(shared: Path) -> None:
    """It is moved after a second, with its children, also those in sessions of their own."""

    async def scene() -> None:
        async with connected(shared) as server:
            script = "(setsid sh -c 'echo $$; exec sleep 600' &); sleep 600"
            process = await server.shell("parent", script, limits=ProcessLimits(cpu_share_millis=100))
            child = int(await server.says("parent", "\n"))
            if server.supervision.limits_note == "":
                ours = f"/fairway-{token_of(shared)}/"
                await eventually_so(lambda: all(ours in groups_in_proc(pid) for pid in (process.pid or 0, child)))
            await server.stop("parent")
            assert groups_of(token_of(shared)) == []

    play(scene())


def test_a_short_process_with_a_share_needs_no_group(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            process = await server.shell("short", "cat /proc/self/cgroup", limits=ProcessLimits(cpu_share_millis=100))
            assert process is not None
            await server.ended("short")
            assert f"/fairway-{token_of(shared)}/" not in server.shown("short")

    play(scene())


def groups_in_proc(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def seconds_of(pid: int) -> float:
    """CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("argv", "cwd", "want"),
    [
        (("/no/such/program",), "/", "cannot start /no/such/program: there is no such file"),
        (("true",), "/no/where", "the working directory /no/where does not exist"),
        ((), "/", "the command is empty"),
    ],
)
def test_what_cannot_be_started_within_limits_says_why_too(
    shared: Path, request: pytest.FixtureRequest, argv: tuple[str, ...], cwd: str, want: str
) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            ended = await server.run(request.node.name, *argv, cwd=cwd, limits=ProcessLimits(cpu_millis=100))

            assert ended == Ended(at=ended.at, error=want)

    play(scene())


def test_a_process_within_limits_is_as_any_other(shared: Path, tmp_path: Path) -> None:
    script = 'echo "$PWD $GREETING"; echo oops >&2; cat /proc/$$/stat; read line || echo end; exit 3'

    async def scene() -> None:
        async with connected(shared) as server:
            process = await server.shell(
                "any", script, cwd=str(tmp_path), env={"GREETING": "hi", "a.b": "c"}, limits=ProcessLimits(cpu_millis=1)
            )
            ended = await server.ended("any")
            shown = server.shown("any").splitlines()

            assert ended.exit_code == 3
            assert sorted(line for line in shown if "(" not in line) == [f"{tmp_path} hi", "end", "oops"]
            stat = next(line for line in shown if "(" in line).split()
            assert stat[0] == stat[5] == str(process.pid), "it leads a session of its own"

    play(scene())


def test_a_daemon_that_hides_is_found_in_its_control_group(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.start("beside", "sleep", "600")
            await server.shell(
                "hider",
                hiding_daemon(shared / "hider-in-group"),
                limits=ProcessLimits(cpu_millis=900),
            )
            daemon = int(await server.says("hider", "\n"))
            await server.ended("hider")
            if server.supervision.limits_note == "":
                assert is_gone(daemon)
            await server.stop("beside")

    play(scene())


def test_control_groups_of_a_killed_supervisor_are_emptied_and_removed(own: Path) -> None:
    async def scene() -> None:
        async with connected(own) as server:
            await server.shell(
                "job", "(env -i setsid sleep 600 &); sleep 600", limits=ProcessLimits(memory_bytes=MEGABYTE * 90)
            )
        pid = supervisor_of(own)
        assert pid is not None
        kill(pid)
        async with connected(own) as server:
            ended = server.processes["job"].ended
            assert ended is not None
            assert ended.lost
            assert groups_of(token_of(own)) == []

    play(scene())


def files(directory: Path, **texts: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (directory / name.replace("_", ".", 1)).write_text(text)


@pytest.fixture
def second(tmp_path: Path) -> CgroupMount:
    """What a file system of version 2 looks like; files that the kernel would make are made by the tests."""
    for place in (tmp_path, tmp_path / "user.slice", tmp_path / "user.slice" / "fairway.service"):
        files(place, cgroup_procs="", cgroup_subtree_control="")
    return CgroupMount(2, frozenset({"cpu", "memory"}), "/", tmp_path)


def test_version_2_gets_its_own_files(second: CgroupMount) -> None:
    inner = second.point / "user.slice" / "fairway.service" / "fairway-x"
    files(inner, cgroup_subtree_control="")
    cgroups = Cgroups("fairway-x", [second], {"": "/user.slice/fairway.service"})
    files(inner / f"{cgroups.instance}-1", memory_max="max", memory_swap_max="max", cpu_max="max 100000")

    group = cgroups.make(ProcessLimits(cpu_millis=1500, memory_bytes=MEGABYTE))

    assert cgroups.note == ""
    assert group is not None
    place = inner / f"{cgroups.instance}-1"
    assert group.entrances == [str(place / "cgroup.procs")]
    assert (place / "cpu.max").read_text() == "150000 100000"
    assert (place / "memory.max").read_text().startswith(str(MEGABYTE))
    assert (inner / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert not group.ran_out_of_memory()
    (place / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    assert group.ran_out_of_memory()


@pytest.mark.parametrize(("millis", "want"), [(100, "4"), (1000, "39"), (4000, "157"), (1, "1")])
def test_version_2_has_the_shares_of_a_kubelet(second: CgroupMount, millis: int, want: str) -> None:
    inner = second.point / "user.slice" / "fairway.service" / "fairway-x"
    files(inner, cgroup_subtree_control="", cpu_weight="100")
    cgroups = Cgroups("fairway-x", [second], {"": "/user.slice/fairway.service"})
    files(inner / f"{cgroups.instance}-1", cpu_weight="100")

    assert cgroups.make(ProcessLimits(cpu_share_millis=millis)) is not None
    assert (inner / f"{cgroups.instance}-1" / "cpu.weight").read_text().startswith(want)
    assert (inner / "cpu.weight").read_text() != "100", "jobs as a whole weigh as much as all CPUs"
    assert cgroups.controllers == {"cpu": 2, "memory": 2}


@pytest.mark.parametrize(
    ("mounts", "want"),
    [
        pytest.param([], "the control groups for it are not mounted.", id="nothing is mounted"),
        pytest.param(
            [CgroupMount(1, frozenset({"cpu"}), "/", Path("/nowhere"))],
            "cannot create control groups under /nowhere (Permission denied); "
            "the control groups for it are not mounted.",
            id="what is mounted cannot be written",
        ),
    ],
)
def test_a_sentence_says_why_nothing_is_limited(mounts: list[CgroupMount], want: str) -> None:
    cgroups = Cgroups("fairway-x", mounts, {})

    assert cgroups.note == f"CPU and memory limits of containers are not enforced: {want}"
    assert cgroups.make(ProcessLimits(cpu_millis=100, memory_bytes=MEGABYTE)) is None
