"""Where configuration is read from: the user's file, the project's, the environment, the command line.

What the settings are, what is wrong with them and how the layers are laid over each other is in
`fairway.managed.config`; here are the files.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairway.managed.configured import Config


def read_config(state: Path, settings: Sequence[str] = ()) -> "Config":
    """All layers, the later over the earlier.

    They are `config.yaml` in the state directory, `.fairway.yaml` in this directory or the nearest above it, the
    environment (`FAIRWAY_…`), and `settings`: `key.path=value`, or the name of a file.
    """
    from fairway.managed.configured import ENVIRONMENT, PROJECT_FILE, USER_FILE, Config  # noqa: PLC0415 - not for help

    files = [path for path in (state / USER_FILE, _project_file(PROJECT_FILE)) if path is not None and path.is_file()]
    if not files and not settings and not any(os.environ.get(name) for name in ENVIRONMENT):
        return Config()
    from fairway.managed import config  # noqa: PLC0415 - reading takes more than most commands do

    layers = [config.parse(text_of(path), str(path)) for path in files]
    layers.append(config.from_environment(os.environ))
    for setting in settings:
        if "=" in setting:
            layers.append(config.from_settings([setting]))
        else:
            layers.append(_named(setting))
    return config.merge(layers)


def text_of(path: Path) -> bytes:
    """What is in a file that somebody named; `TaskError` if it cannot be read."""
    from fairway.managed.tasks.errors import TaskError  # noqa: PLC0415 - help must not wait for it

    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        raise TaskError(f"cannot be read: {error.strerror}; is the path right?", file=str(path)) from None


def _named(setting: str) -> "Config":
    from fairway.managed import config  # noqa: PLC0415 - help must not wait for it
    from fairway.managed.tasks.errors import TaskError  # noqa: PLC0415

    path = Path(setting).expanduser()
    if not path.is_file():
        raise TaskError(
            f"{setting!r} is no file; give one, or key=value such as kubernetes.provision_timeout=600", field="--config"
        )
    return config.parse(text_of(path), setting)


def _project_file(name: str) -> Path | None:
    """In this directory, or the nearest above it that has one."""
    try:
        here = Path.cwd()
    except OSError:  # it was deleted under our feet
        return None
    return next((path for folder in (here, *here.parents) if (path := folder / name).is_file()), None)
