"""Which server a command is for: that of this machine, or that of a context of a kubeconfig.

Options name it, else the configuration, else `fairway use` did: that choice is kept in `use.json` in the state
directory.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fairway.client.rest.errors import KubeconfigError
from fairway.client.rest.kubeconfig import IN_CLUSTER, Kubeconfig, load
from fairway.managedjobs.configured import LaunchConfig
from fairway.settings import SettingsError

FILE: Final = "use.json"
OWN_CONTEXT: Final = "fairway"
"""The context in the kubeconfig that the server of this machine writes."""

_DEFAULT: Final = "~/.kube/config"


class ServerTarget(NamedTuple):
    """A server by its kubeconfig; the server of this machine if that is empty."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    """The one that `fairway use` remembered with it."""

    @property
    def own(self) -> bool:
        return not self.kubeconfig


class Used(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `fairway use` remembers."""

    kubeconfig: str
    context: str
    namespace: str = ""


def standard_kubeconfig() -> str:
    """The kubeconfig that kubectl would read: `$KUBECONFIG`, else `~/.kube/config`."""
    return os.environ.get("KUBECONFIG") or str(Path(_DEFAULT).expanduser())


def target(state: Path, kubeconfig: Path | None, context: str, config: LaunchConfig) -> ServerTarget:
    """The server that the options name, else the configuration, else `fairway use`, else that of this machine.

    A context without a kubeconfig is looked for in the configured kubeconfig, in that of this machine's server, and
    in kubectl's; `KubeconfigError` if none of them has it.
    """
    if kubeconfig is not None:
        return ServerTarget(str(kubeconfig), context or config.context)
    if not context:
        context = config.context
        if not config.kubeconfig and not context:
            used = read_used(state)
            return ServerTarget() if used is None else ServerTarget(used.kubeconfig, used.context, used.namespace)
        if config.kubeconfig:
            return ServerTarget(config.kubeconfig, context)
    for path in filter(None, (config.kubeconfig, str(state / "kubeconfig"), standard_kubeconfig())):
        known = _loaded(path)
        if known is not None and context in known.names:
            return ServerTarget("" if path == str(state / "kubeconfig") else path, context)
    if context == OWN_CONTEXT:
        return ServerTarget(context=context)
    if context == IN_CLUSTER:
        return ServerTarget(IN_CLUSTER, IN_CLUSTER)
    where = config.kubeconfig or standard_kubeconfig()
    known = _loaded(where)
    there = ", ".join(known.names) if known is not None else "no such file"
    raise KubeconfigError(
        f"there is no context {context!r} in {where} ({there or 'no contexts'}); `fairway use` lists the contexts, "
        "--kubeconfig names another file"
    )


def contexts(state: Path, kubeconfig: Path | None = None) -> Iterator[tuple[str, str]]:
    """The contexts that can be named, each with its kubeconfig; empty for the server of this machine."""
    if kubeconfig is None:
        yield OWN_CONTEXT, ""
    path = str(kubeconfig) if kubeconfig is not None else standard_kubeconfig()
    own = _loaded(str(state / "kubeconfig"))
    known = _loaded(path)
    for name in known.names if known is not None else ():
        if kubeconfig is not None or (name != OWN_CONTEXT and (own is None or name not in own.names)):
            yield name, path


def _loaded(path: str) -> Kubeconfig | None:
    try:
        return load(path)
    except KubeconfigError as error:
        if "no such file" in str(error):
            return None
        raise


def read_used(state: Path) -> Used | None:
    """What `fairway use` remembered; `None` for the server of this machine."""
    path = state / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Used)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{path}: not written by `fairway use`: {error}; `fairway use --here` removes it") from None


def write_used(state: Path, used: Used | None) -> None:
    """Remember a server for the commands that follow, for its owner alone; `None` forgets it."""
    path = state / FILE
    if used is None:
        path.unlink(missing_ok=True)
        return
    import tempfile  # noqa: PLC0415 - only here

    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=state, prefix=f"{FILE}.")  # made with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(used) + b"\n")
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
