"""`ray start` with the volume of its pod as its temporary directory: run in the pods of RayClusters.

The first argument is the variable with the path of the volume, the others are those of `ray start`. Imports nothing but
Python's library, to start fast.

Paths of Unix sockets have at most 107 characters. The path by way of the open directory is short, whatever directory it
stands for, and valid for as long as `ray start --block` runs.
"""

import os
import sys
from pathlib import Path


def main() -> None:
    _, variable, *arguments = sys.argv
    directory = os.open(os.environ[variable], os.O_RDONLY | os.O_DIRECTORY)
    os.set_inheritable(directory, True)  # noqa: FBT003 - positional only
    path = f"/proc/{os.getpid()}/fd/{directory}"
    ray = str(Path(sys.executable).with_name("ray"))
    os.execve(ray, [ray, "start", *arguments, f"--temp-dir={path}"], {**os.environ, "RAY_TMPDIR": path})  # noqa: S606


if __name__ == "__main__":
    main()
