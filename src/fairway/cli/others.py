"""Servers of other users on this machine.

Two independent servers would assign the same GPUs and CPUs twice, so starting a second one is an error with the address
of the first and how to get access. Servers are found by their command lines, which every user may
read, except where the system hides the processes of other users (`hidepid`).
"""

import os
import pwd
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from fairway.errors import FairwayError
from fairway.settings import DEFAULT_PORT, Settings

_MODULE: Final = "fairway.cli.main"
_NO_JOBS: Final = frozenset({"--api-only", "--no-node"})


class OthersServerError(FairwayError):
    """Another user's server runs on this machine."""


class OtherServer(NamedTuple):
    pid: int
    user: str
    url: str
    """Where it listens; empty if its command line does not say."""

    def __str__(self) -> str:
        where = f" at {self.url}" if self.url else ""
        return f"the server of user {self.user} (process {self.pid}{where})"


def servers_of_others(proc: Path = Path("/proc")) -> Iterator[OtherServer]:
    """All servers on this machine that run jobs and belong to another user."""
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            uid = folder.stat().st_uid
            words = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:  # it has ended meanwhile
            continue
        options = _options(words)
        if uid != os.geteuid() and options is not None and not _NO_JOBS.intersection(options):
            yield OtherServer(int(folder.name), _name(uid), _url(options))


def refuse_second_server(settings: Settings, found: Sequence[OtherServer] | None = None) -> None:
    """Raise `OthersServerError` if jobs of another user's server use this machine, unless this one takes no GPUs.

    A user who declares CPUs and no GPUs knows about the other server.
    """
    if settings.api_only or settings.no_node or (settings.cpus is not None and settings.gpus == "0"):
        return
    found = list(servers_of_others()) if found is None else found
    if found:
        raise OthersServerError(advice(found))


def advice(found: Sequence[OtherServer]) -> str:
    """What there is, and how to get in."""
    listed = f"{found[0]} runs here" if len(found) == 1 else f"{found[0]} and {len(found) - 1} more run here"
    me, owner = _name(os.geteuid()), found[0].user
    return (
        f"this machine is shared: {listed}, and a second one would assign the same GPUs and CPUs twice. "
        f"Ask {owner} for access: `fairway users add {me} --team TEAM -o kubeconfig > {me}.kubeconfig`, and then "
        f"`export FAIRWAY_KUBECONFIG={me}.kubeconfig`. For a second server: `fairway up --cpus N --gpus 0`"
    )


def _options(words: list[str]) -> list[str] | None:
    """The options of a command line that runs a server; `None` if it does something else."""
    for index, word in enumerate(words[:-1]):
        if words[index + 1] == "serve" and (word == _MODULE or Path(word).name == "fairway"):
            return words[index + 2 :]
    return None


def _url(options: list[str]) -> str:
    said = dict(pairwise(options))
    port = said.get("--port", str(DEFAULT_PORT))
    if port == "0":
        return ""
    scheme = "http" if "--insecure" in options and "--tls-cert" not in options else "https"
    return f"{scheme}://{said.get('--public-name') or said.get('--host', '127.0.0.1')}:{port}"


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
