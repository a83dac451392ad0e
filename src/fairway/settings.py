"""Everything that can be set about a server: one typed object, read once."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairway.errors import FairwayError

RESULTS_NOTE: Final = ".results"
"""In the log directory of a pod: what became of the files that it left. Written by the runner, read by the server."""

SYSTEM_NAMESPACE: Final = "kube-system"
"""Where Fairway keeps objects of its own on one machine."""

DEFAULT_PORT: Final = 7437
_NAME: Final = re.compile(r"[A-Za-z0-9.:_-]{1,253}")
_LOCAL_NAMES: Final = frozenset({"localhost", "ip6-localhost"})


CONTROLLERS: Final = (
    "accounting",
    "admission",
    "batchjob",
    "jobframework",
    "limits",
    "managedjob",
    "metrics",
    "placement",
    "pods",
    "provisioning",
    "queuestatus",
    "quota",
    "ray",
    "scheduler",
    "topology",
    "workload",
)
"""The controllers that can be left out, by their folders in `fairway.controllers`."""


class SettingsError(FairwayError):
    """A setting that cannot be used; the message says which, and what to do."""


def state_directory(environment: Mapping[str, str] = os.environ, account: str = "") -> Path:
    """Where a server of an account keeps its files unless told otherwise: `$FAIRWAY_STATE`, else `~/.fairway`.

    `RuntimeError` if there is no such account.
    """
    return Path(environment.get("FAIRWAY_STATE") or f"~{account}/.fairway").expanduser()


SKYPILOT_CONFIG: Final = "~/.sky/config.yaml"


def configuration_file(state: Path) -> Path | None:
    """The user's configuration: `config.yaml` in the state directory, else SkyPilot's; `None` if there is neither."""
    own, skypilot = state / "config.yaml", Path(SKYPILOT_CONFIG).expanduser()
    return next((path for path in (own, skypilot) if path.is_file()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server."""

    state: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 lets the system choose."""

    tls_cert: Path | None = None
    tls_key: Path | None = None
    public_name: str | None = None
    """The name in the URL that clients are given, if it is not the host's."""

    insecure: bool = False
    """Speak plain HTTP: tokens then travel in the clear, and kubectl does not send them at all."""

    gives_authority: bool = False
    """Clients get the authority of this process's own certificate from it, so that it may serve other machines."""

    cpus: str | None = None
    memory: str | None = None
    gpus: str | None = None
    """What this machine gives to jobs, where it is not what it has; GPUs as `8`, `T4:8` or `V100:4,T4:2`."""

    nodes: Path | None = None
    """A file with nodes that are declared, besides this machine."""

    controllers: str = "all"
    """Those that run in this process: `all`, `none`, names, or `-name` for all but these."""

    api_only: bool = False
    """Serve the API and nothing else: no queueing, no jobs."""

    no_node: bool = False
    """This machine is no node, and there are no first queues with its capacity."""

    @property
    def controller_names(self) -> frozenset[str]:
        return selected_controllers(self.controllers)

    @property
    def external_groups(self) -> frozenset[str]:
        """The API groups whose operator is another program: that of a controller which was left out alone.

        Without any controllers, `fairway controller` runs them.
        """
        names = self.controller_names
        return frozenset({"ray.io"}) if names and "ray" not in names else frozenset()

    def __post_init__(self) -> None:
        selected_controllers(self.controllers)
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"--port {self.port}: a port is a number from 0 to 65535")
        for option, quantity in (("--cpus", self.cpus), ("--memory", self.memory)):
            if quantity is not None and not is_amount(quantity):
                raise SettingsError(f"{option} {quantity}: give an amount greater than 0, such as 8, 1500m or 16Gi")
        if self.gpus is not None:
            try:
                from fairway.apis.core.accelerators import declared_models  # noqa: PLC0415 - most commands need only a path

                declared_models(self.gpus)
            except ValueError as error:
                raise SettingsError(f"--gpus {self.gpus}: {error}") from None
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsError("--tls-cert and --tls-key belong together: give both or none")
        for option, path in (("--tls-cert", self.tls_cert), ("--tls-key", self.tls_key), ("--nodes", self.nodes)):
            if path is not None and not path.is_file():
                raise SettingsError(f"{option} {path}: there is no such file")
        if self.public_name is not None and not _NAME.fullmatch(self.public_name):
            raise SettingsError(f"--public-name {self.public_name}: give a host name or an address, without a port")
        if not (is_loopback(self.host) or self.tls_cert is not None or self.insecure or self.gives_authority):
            raise SettingsError(
                f"--host {self.host} can be reached from other machines, which do not trust this server's own "
                "certificate. Give --tls-cert and --tls-key, or --insecure for plain HTTP behind a proxy."
            )

    @property
    def database(self) -> Path:
        return self.state / "fairway.db"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def own_tls(self) -> Path:
        return self.state / "tls"

    @property
    def server_log(self) -> Path:
        return self.state / "server.log"


def selected_controllers(text: str) -> frozenset[str]:
    """The controllers of a text such as `all`, `none`, `admission,workload` or `-managedjob`."""
    words = [word for word in (part.strip() for part in text.split(",")) if word]
    named = {word for word in words if not word.startswith("-")}
    left_out = {word[1:] for word in words if word.startswith("-")}
    if unknown := sorted((named | left_out) - {"all", "none", *CONTROLLERS}):
        raise SettingsError(
            f"--controllers {text}: there is no controller {unknown[0]!r}; they are {', '.join(CONTROLLERS)}; also "
            "all, none, and -NAME to leave one out"
        )
    if not words or ("none" in named and len(words) > 1) or left_out & {"all", "none"}:
        raise SettingsError(
            f"--controllers {text}: give all, none, names, or -NAME to leave one out, separated by commas"
        )
    chosen = set(CONTROLLERS) if "all" in named or not named else named - {"none"}
    return frozenset(chosen - left_out)


def is_amount(text: str) -> bool:
    """Whether a text is a quantity of something."""
    from fairway.apis.machinery.quantities import Quantity  # noqa: PLC0415 - most commands need only a path

    try:
        return Quantity.parse(text).nanos > 0
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host in _LOCAL_NAMES:
        return True
    from ipaddress import ip_address  # noqa: PLC0415 - most commands need only a path

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
