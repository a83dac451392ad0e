"""Where configuration is read from: the user's file, the project's, the environment, the command line.

What the settings are, what is wrong with them and how the layers are laid over each other is in
`fairway.managedjobs.config`; here are the files.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairway.managedjobs.configured import LaunchConfig


def read_config(state: Path, settings: Sequence[str] = ()) -> "LaunchConfig":
    """All layers, the later over the earlier.

    They are `config.yaml` in the state directory (SkyPilot's, if that is not there), `.fairway.yaml` in this directory
    or the nearest above it, the environment (`FAIRWAY_…`), and `settings`: `key.path=value`, or the name of a file.
    """
    from fairway.managedjobs.configured import ENVIRONMENT, PROJECT_FILE, LaunchConfig  # noqa: PLC0415 - not for help
    from fairway.settings import configuration_file  # noqa: PLC0415

    user, project = configuration_file(state), _project_file(PROJECT_FILE)
    if user is None and project is None and not settings and not any(os.environ.get(name) for name in ENVIRONMENT):
        return LaunchConfig()
    from fairway.managedjobs import config  # noqa: PLC0415 - reading takes more than most commands do

    layers = [_of_user(user, state)] if user is not None else []
    if project is not None:
        layers.append(config.parse(text_of(project), str(project)))
    layers.append(config.from_environment(os.environ))
    for setting in settings:
        if "=" in setting:
            layers.append(config.from_settings([setting]))
        else:
            layers.append(_named(setting))
    return config.merge(layers)


def _of_user(path: Path, state: Path) -> "LaunchConfig":
    """The user's file; of SkyPilot's it is said that it is read, and why."""
    from fairway.managedjobs import config  # noqa: PLC0415 - help must not wait for it
    from fairway.managedjobs.configured import USER_FILE, LaunchConfig  # noqa: PLC0415
    from fairway.managedjobs.tasks.errors import TaskError  # noqa: PLC0415
    from fairway.settings import SKYPILOT_CONFIG  # noqa: PLC0415

    own = state / USER_FILE
    if path == own:
        return config.parse(text_of(path), str(path))
    try:
        found = config.parse(text_of(path), str(path))
    except TaskError as error:
        error.message += f" (this file is read because {own} does not exist; create that file to ignore this one)"
        raise
    return config.merge([found, LaunchConfig(warnings=(f"reading {SKYPILOT_CONFIG}, because {own} does not exist",))])


def text_of(path: Path) -> bytes:
    """The content of a file given by the user; `TaskError` if it cannot be read."""
    from fairway.managedjobs.tasks.errors import TaskError  # noqa: PLC0415 - help must not wait for it

    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        raise TaskError(f"cannot be read: {error.strerror}; is the path right?", file=str(path)) from None


def _named(setting: str) -> "LaunchConfig":
    from fairway.managedjobs import config  # noqa: PLC0415 - help must not wait for it
    from fairway.managedjobs.tasks.errors import TaskError  # noqa: PLC0415

    path = Path(setting).expanduser()
    if not path.is_file():
        raise TaskError(
            f"{setting!r} is not a file; give a file, or key=value such as kubernetes.provision_timeout=600",
            field="--config",
        )
    return config.parse(text_of(path), setting)


def _project_file(name: str) -> Path | None:
    """In this directory, or the nearest above it that has one."""
    try:
        here = Path.cwd()
    except OSError:  # it was deleted under our feet
        return None
    return next((path for folder in (here, *here.parents) if (path := folder / name).is_file()), None)
