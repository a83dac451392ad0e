"""The Python environment that Fairway itself is installed in, which no job is given.

A `pip install` in a job that finds Fairway's Python first would change Fairway, or break it. So the directories of its
environment are taken out of the search paths of every job.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SEARCH_PATHS: Final = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
"""Lists of directories by which programs and modules are found."""

ACTIVATED: Final[Mapping[str, tuple[str, ...]]] = {
    "VIRTUAL_ENV": ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"),
    "CONDA_PREFIX": ("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_PROMPT_MODIFIER", "CONDA_SHLVL"),
}
"""The variable that names the environment a shell has activated, and all that are set with it."""


def own_environment(prefix: str = sys.prefix, base_prefix: str = sys.base_prefix) -> Path | None:
    """The virtual or conda environment of Fairway; `None` if it is installed in a Python that other programs share.

    The base environment of conda is a shared one: conda itself is in it.
    """
    here = Path(prefix)
    in_conda = (here / "conda-meta").is_dir() and not (here / "condabin").is_dir()
    return here if prefix != base_prefix or in_conda else None


OWN: Final = own_environment()


def without_own(environment: Mapping[str, str], own: Path | None = OWN) -> dict[str, str]:
    """The variables without the directories of Fairway's environment, and as if it were not activated."""
    result = dict(environment)
    for name in SEARCH_PATHS:
        if name in result:
            kept = [one for one in result[name].split(os.pathsep) if not _is_own(one, own, name)]
            if kept:
                result[name] = os.pathsep.join(kept)
            else:
                del result[name]
    for name, together in ACTIVATED.items():
        if _is_own(result.get(name, ""), own, name):
            for variable in together:
                result.pop(variable, None)
    return result


def _is_own(directory: str, own: Path | None, variable: str) -> bool:
    """Whether a directory, by whatever name, is of Fairway's environment; for modules also that of its sources."""
    if not directory:
        return False
    real = Path(os.path.realpath(directory))
    if own is not None and real.is_relative_to(os.path.realpath(own)):
        return True
    return variable == "PYTHONPATH" and real == Path(__file__).resolve().parents[1]
