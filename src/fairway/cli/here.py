"""What a launch takes from the shell it is typed in: the current directory and the Python environment.

A bare command (`fairway jobs launch -- python train.py`) means the files and the Python of this shell, as with
`sbatch`: it runs in a copy of the current directory, and finds the programs that this shell finds. With `--in-place`
a task runs in the directory itself. A task file says by itself what it needs (`workdir`, `setup`), as in SkyPilot.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairway.cli.session import print_note
from fairway.installation import OWN, SEARCH_PATHS, without_own

if TYPE_CHECKING:
    from fairway.managedjobs.tasks.documents import TaskFile
    from fairway.managedjobs.tasks.parse import ParsedFile, ParsedTask

_ENVIRONMENT: Final = (*SEARCH_PATHS, "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_VERSION")
"""The variables that decide which programs and which Python a shell finds."""

_FLAG: Final = "--in-place"


def bare_command(words: Sequence[str], given: Mapping[str, Any]) -> "TaskFile":
    """The task of a command: what it runs, and the directory it runs in a copy of."""
    import shlex  # noqa: PLC0415 - only for commands

    from fairway.managedjobs.tasks import documents  # noqa: PLC0415 - help must not wait for it

    command = shlex.join(words) if len(words) > 1 else words[0]
    copied = "" if given["workdir"] or given["in_place"] else _directory_to_copy(Path.cwd(), Path.home())
    return documents.of_command(command, workdir=copied)


def _directory_to_copy(here: Path, home: Path) -> str:
    """`.`, or empty where there is nothing to copy or where this is no directory of a project."""
    with os.scandir(here) as entries:
        if not any(entries):
            return ""
    if home.is_relative_to(here):
        why = "it is your home directory" if here == home else "it contains your home directory"
    elif here.stat().st_mode & stat.S_ISVTX:
        why = "it is writable by all users"
    else:
        return "."
    print_note(
        f"{here} is not copied, because {why}: the command runs in an empty directory. See --workdir and {_FLAG}."
    )
    return ""


def with_shell(parsed: "ParsedFile", environ: Mapping[str, str] = os.environ) -> "ParsedFile":
    """The task of a bare command with the search paths of this shell, unless it runs on another machine."""
    from msgspec import structs  # noqa: PLC0415 - help must not wait for it

    (one,) = parsed.tasks
    if any(candidate.infra for candidate in one.task.candidates):
        return parsed
    found = without_own({name: environ[name] for name in _ENVIRONMENT if environ.get(name)})
    envs = {name: value for name, value in found.items() if name not in one.secrets} | one.task.envs
    _check_program(one.task.run, environ.get("PATH", ""), envs.get("PATH", ""))
    task = structs.replace(one, task=structs.replace(one.task, envs=envs))
    return structs.replace(parsed, tasks=(task,))


def _check_program(command: str, shell: str, job: str) -> None:
    """Say it if the shell would run a program of Fairway's own environment, which the job does not get."""
    import shlex  # noqa: PLC0415 - only for commands
    import shutil  # noqa: PLC0415

    from fairway.managedjobs.tasks.errors import TaskError  # noqa: PLC0415

    try:
        program = shlex.split(command)[0]
    except (ValueError, IndexError):  # the shell that runs it will say what is wrong
        return
    found = shutil.which(program, path=shell)
    if OWN is None or found is None or "/" in program or not Path(found).is_relative_to(OWN):
        return
    instead = shutil.which(program, path=job)
    if instead is None:
        hint = f"write {program}3, or activate" if shutil.which(f"{program}3", path=job) else "activate"
        raise TaskError(
            f"{program} is only found in Fairway's own environment ({OWN}), which jobs do not use; {hint} the "
            "environment of your project",
            field="the command",
        )
    print_note(f"{program} is {instead} for the job: Fairway's own environment ({OWN}) is not used.")


def in_place(parsed: "ParsedFile", state: Path, *, own: bool) -> "ParsedFile":
    """The same tasks in the directories themselves instead of copies of them: each in its `workdir`, else in this one.

    Only at the server of this machine that runs as this user: elsewhere the directory is another one, or another's.
    """
    from msgspec import structs  # noqa: PLC0415 - help must not wait for it

    from fairway.managedjobs.tasks.errors import TaskError  # noqa: PLC0415

    if not own:
        raise TaskError("needs the server of this machine, and another one is selected; remove it", field=_FLAG)
    if state.exists() and state.stat().st_uid != os.geteuid():
        raise TaskError(f"the server of {state} runs as another user; remove it to use a copy", field=_FLAG)
    return structs.replace(parsed, tasks=tuple(map(_in_place, parsed.tasks)))


def _in_place(one: "ParsedTask") -> "ParsedTask":
    from msgspec import structs  # noqa: PLC0415 - help must not wait for it

    from fairway.managedjobs.podconfig import RUN, layered  # noqa: PLC0415
    from fairway.managedjobs.tasks.errors import TaskError  # noqa: PLC0415

    if any(candidate.infra for candidate in one.task.candidates):
        raise TaskError("needs this machine, and infra names another; remove one of them", field=_FLAG)
    directory = Path.cwd()
    for mount in one.mounts:
        if mount.path != ".":
            raise mount.where.error(f"file_mounts would be written into your directory; remove {_FLAG} or file_mounts")
        directory /= Path(mount.source).expanduser()
    place = {"spec": {"containers": [{"name": RUN, "workingDir": str(directory.resolve())}]}}
    return structs.replace(
        one, task=structs.replace(one.task, pod_config=layered((one.task.pod_config, place))), mounts=()
    )
