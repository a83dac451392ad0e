"""Which other servers this one may hand jobs to: read from the server's `config.yaml` and a kubeconfig, at its start.

Part of the composition root. What a configuration may say is in `fairway.managedjobs.config`, how the other servers are
spoken to in `fairway.client.remotes`.
"""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from fairway.client.remotes import KubeconfigRemotes
from fairway.managedjobs import config
from fairway.managedjobs.configured import LaunchConfig, RunnerConfig
from fairway.managedjobs.tasks.errors import TaskError
from fairway.runtime.clock import Clock
from fairway.settings import Settings, configuration_file, is_loopback

_log = logging.getLogger(__name__)
_DEFAULT: Final = "~/.kube/config"
_ALL: Final = "*"


def configuration_of(settings: Settings) -> LaunchConfig:
    """The configuration of a server or a process of controllers; the defaults if it cannot be read."""
    return _configuration(configuration_file(settings.state))


def runner_configuration(settings: Settings) -> RunnerConfig:
    """What the server's configuration says about its own machine; the defaults if it cannot be read."""
    return configuration_of(settings).runner


def other_servers(settings: Settings, environment: Mapping[str, str], clock: Clock) -> KubeconfigRemotes:
    """The servers of the contexts that may be used.

    Their kubeconfig is `kubernetes.kubeconfig` of the configuration, else `$KUBECONFIG`, else `~/.kube/config`.
    """
    said = configuration_of(settings)
    return KubeconfigRemotes(
        said.other_servers or environment.get("KUBECONFIG") or _DEFAULT,
        settings.state / "archives",
        clock,
        allowed=_allowed(said.allowed_contexts, settings.host),
        own=settings.kubeconfig,
    )


def _allowed(contexts: Collection[str] | None, host: str) -> Collection[str] | None:
    """`None` for all. Where nothing is said, a server for this machine alone may use what its owner may, and a server
    for others may not: they would be let in elsewhere under its owner's name."""
    if contexts is None:
        return None if is_loopback(host) else ()
    return None if _ALL in contexts else contexts


def _configuration(path: Path | None) -> LaunchConfig:
    """The server's configuration. An invalid one allows no other servers; jobs here are not affected."""
    if path is None:
        return LaunchConfig()
    try:
        return config.parse(path.read_bytes(), str(path))
    except (OSError, TaskError) as error:
        _log.warning("ignoring invalid configuration, jobs are not sent to other servers: %s", error)
        return LaunchConfig(allowed_contexts=())
