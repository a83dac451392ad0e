"""The saved options of `fairway up`, for the next start of the server.

After a reboot any command starts the server again, and it should have the GPUs that were declared, and listen where
it did. What is kept are the options of all `up`s so far, the later over the earlier, in `up.json`; no secret is among
them. `up --reset` forgets those of before.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fairway.settings import DEFAULT_PORT, Settings, SettingsError

FILE: Final = "up.json"
_PORT: Final = "FAIRWAY_PORT"


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be said about a server besides where its files are."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    tls_cert: str | None = None
    tls_key: str | None = None
    public_name: str | None = None
    insecure: bool = False
    cpus: str | None = None
    memory: str | None = None
    gpus: str | None = None
    nodes: str | None = None
    controllers: str = "all"
    api_only: bool = False
    no_node: bool = False

    @property
    def words(self) -> str:
        """As they are written on the command line; empty if there are none."""
        import shlex  # noqa: PLC0415 - only where it is said

        given = [(f"--{name.replace('_', '-')}", value) for name, value in self.given.items()]
        return " ".join(name if value is True else f"{name} {shlex.quote(str(value))}" for name, value in given)

    @property
    def given(self) -> dict[str, Any]:
        """Those that are not as they would be without a word."""
        usual = msgspec.structs.asdict(Options())
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value != usual[name]}


def remember(settings: Settings) -> None:
    """Keep the options of a server that has started; for its owner alone."""
    options = Options(
        host=settings.host,
        port=settings.port,
        tls_cert=_absolute(settings.tls_cert),
        tls_key=_absolute(settings.tls_key),
        public_name=settings.public_name,
        insecure=settings.insecure,
        cpus=settings.cpus,
        memory=settings.memory,
        gpus=settings.gpus,
        nodes=_absolute(settings.nodes),
        controllers=settings.controllers,
        api_only=settings.api_only,
        no_node=settings.no_node,
    )
    handle, name = tempfile.mkstemp(dir=settings.state, prefix=f"{FILE}.")  # made with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(options.given) + b"\n")
        Path(name).replace(settings.state / FILE)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def remembered(state: Path) -> Options:
    """What was kept; nothing special where nothing was."""
    path = state / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Options)
    except (FileNotFoundError, NotADirectoryError):
        return Options()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise _unusable(path, str(error)) from None


def settings_as_before(state: Path, environment: Mapping[str, str] = os.environ) -> tuple[Settings, Options]:
    """The options of a start without options; `$FAIRWAY_PORT` wins over the saved port."""
    options = remembered(state)
    try:
        return _settings(state, options, environment), options
    except SettingsError as error:
        if str(error).startswith(_PORT):
            raise
        raise _unusable(state / FILE, str(error)) from None


def settings_with(
    state: Path, given: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> tuple[Settings, Options]:
    """How to start the server with some options: what was said before and is not said now is kept, and returned."""
    kept = {name: value for name, value in remembered(state).given.items() if name not in given}
    if given.get("insecure"):
        kept = {name: value for name, value in kept.items() if name not in {"tls_cert", "tls_key"}}
    if given.get("tls_cert"):
        kept.pop("insecure", None)
    text = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
    environment = {} if "port" in given else environment
    return _settings(state, Options(**{**kept, **text}), environment), Options(**kept)


def _settings(state: Path, options: Options, environment: Mapping[str, str]) -> Settings:
    port = environment.get(_PORT) or str(options.port)
    if not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"{_PORT} {port!r}: a port is a number from 0 to 65535")
    given: dict[str, Any] = msgspec.structs.asdict(options) | {"port": int(port)}
    for name in ("tls_cert", "tls_key", "nodes"):
        given[name] = Path(given[name]) if given[name] is not None else None
    return Settings(state=state, **given)


def _absolute(path: Path | None) -> str | None:
    return str(path.absolute()) if path is not None else None


def _unusable(path: Path, why: str) -> SettingsError:
    return SettingsError(
        f"{path}, the options of the last `fairway up`, cannot be used: {why}; start the server with "
        "`fairway up` and new options"
    )
