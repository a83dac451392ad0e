"""The door: instant help, other words for the same, and how things end that go wrong."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from fairway import __version__
from fairway.cli import catalog, group
from fairway.cli.main import main
from fairway.client.rest import Unreachable
from fairway.errors import FairwayError, NotFound
from fairway.managedjobs.tasks.errors import TaskError

_WITHOUT = """
import sys
from fairway.cli.main import main
code = main({words!r})
loaded = {{name.partition(".")[0] for name in sys.modules}}
slow = loaded & {{"click", "msgspec", "typing", "yaml", "json", "asyncio", "ssl"}}
print("slow:", *sorted(slow), file=sys.stderr)
sys.exit(code)
"""


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the interpreter that runs this
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"], ["help"], ["version"], ["--version"]], ids=" ".join)
def test_help_and_version_import_nothing_slow(words: list[str]) -> None:
    done = python(_WITHOUT.format(words=words))

    assert (done.returncode, done.stderr) == (0, "slow:\n")
    assert done.stdout.startswith("fairway " if "version" in "".join(words) else "Usage: fairway ")


def test_help_is_the_same_with_and_without_click() -> None:
    context = click.Context(group.fairway, info_name="fairway")

    assert group.fairway.get_help(context) + "\n" == catalog.help_text()


def test_every_command_is_in_the_help() -> None:
    lines = catalog.help_text().splitlines()

    for name in catalog.PLACES:
        assert any(line.startswith(f"  {name} ") for line in lines), name


def test_version_also_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "-o", "json"]) == 0
    assert capsys.readouterr().out == f'{{"version": "{__version__}"}}\n'


def test_job_is_taken_for_jobs_and_status_for_queue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "status", "--help"]) == 0
    assert "List running and waiting jobs, with position and reason." in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--frob"], ["jobs", "quueue"], ["get"], ["top", "surplus"]], ids=" ".join)
def test_wrong_usage_is_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "See `fairway" in said


@pytest.fixture
def broken_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `fairway frob` raise something."""

    def broken(error: BaseException) -> None:
        @click.command()
        def frob() -> None:
            raise error

        monkeypatch.setattr(group.fairway, "get_command", lambda _context, _name: frob)

    return broken


@pytest.mark.parametrize(
    ("error", "code", "want"),
    [
        pytest.param(FairwayError("no way"), 1, "error: no way\n", id="what goes wrong on purpose"),
        pytest.param(NotFound('pods "a" not found'), 1, 'error: pods "a" not found\n', id="what the server refuses"),
        pytest.param(TaskError("task.yaml:3: cpus: 'x'"), 2, "error: task.yaml:3: cpus: 'x'\n", id="a wrong task"),
        pytest.param(
            Unreachable("https://x: nobody answers"),
            1,
            "error: https://x: nobody answers\n"
            "`fairway up` starts the server of this machine; `fairway doctor` finds what is wrong.\n",
            id="nobody answers",
        ),
        pytest.param(KeyboardInterrupt(), 130, "\n", id="Ctrl-C"),
        pytest.param(click.Abort(), 1, "Nothing was changed.\n", id="no as an answer"),
        pytest.param(click.ClickException("so not"), 1, "error: so not\n", id="what click says"),
        pytest.param(click.exceptions.Exit(7), 7, "", id="an exit code of its own"),
    ],
)
def test_how_errors_end(
    broken_command: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    want: str,
) -> None:
    broken_command(error)

    assert main(["frob"]) == code
    assert capsys.readouterr() == ("", want)


def test_a_mistake_of_ours_is_not_hidden(broken_command: Callable[[BaseException], None]) -> None:
    broken_command(RuntimeError("a bug"))

    with pytest.raises(RuntimeError, match="a bug"):
        main(["frob"])


@pytest.mark.parametrize("words", ["--help", "users --help"])
def test_who_stops_reading_hears_no_complaint(words: str) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as nobody:
        done = subprocess.run(  # noqa: S603 - the interpreter that runs this
            [sys.executable, "-m", "fairway.cli.main", *words.split()],
            stdout=nobody,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )

    assert (done.returncode, done.stderr) == (141, b"")


def test_ctrl_c_leaves_no_traceback(tmp_path: Path) -> None:
    waits = (
        "import sys, time\nimport click\nfrom fairway.cli import group, main\n"
        "@click.command()\ndef frob():\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "group.fairway.get_command = lambda *_: frob\nsys.exit(main.main(['frob']))"
    )
    process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this
        [sys.executable, "-c", waits], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert (process.returncode, errors.strip()) == (130, b"")


def test_where_the_encoding_has_no_blocks_help_is_still_printed() -> None:
    done = python("import sys; from fairway.cli.main import main; sys.exit(main(['--help']))", PYTHONIOENCODING="ascii")

    assert done.returncode == 0, done.stderr


def test_a_state_directory_that_cannot_be_one_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FAIRWAY_STATE", str(tmp_path / "file"))

    for words in (["jobs", "queue"], ["up", "--port", "0"]):
        assert main(words) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == (
            f"error: {tmp_path}/file cannot be used as the state directory: it is not a directory; "
            "choose a writable one with --state or $FAIRWAY_STATE"
        )


def test_a_file_that_nobody_expected_to_be_missing_is_said_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/some/file")

    monkeypatch.setattr("fairway.cli.shutdown._end_server", lost)

    assert main(["shutdown"]) == 1
    assert capsys.readouterr().err == "error: /some/file: Permission denied\n"


def test_a_wrong_option_of_the_server_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--state", str(tmp_path), "--gpus", "many"]) == 2
    assert capsys.readouterr().err.startswith("error: --gpus many: give a number")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["version"], 0, "", id="a command that does not need it"),
        pytest.param(["jobs", "launch", "--dryrun", "--workdir", "/etc/apt", "true"], 0, "", id="another directory"),
        pytest.param(["jobs", "launch", "--dryrun", "true"], 1,
                     "error: the current directory has been removed; change to another one\n", id="it would be copied"),
    ],
)  # fmt: skip
def test_a_working_directory_that_is_gone(arguments: list[str], code: int, said: str, tmp_path: Path) -> None:
    script = f"""
import os, pathlib
gone = pathlib.Path({str(tmp_path)!r}) / "gone"
gone.mkdir()
os.chdir(gone)
gone.rmdir()
from fairway.cli.main import main
raise SystemExit(main({arguments}))
"""
    done = python(script, FAIRWAY_STATE=str(tmp_path / "state"))

    assert (done.returncode, done.stderr) == (code, said)
