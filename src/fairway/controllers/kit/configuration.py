"""The configuration in force: what the ConfigMaps of Kueue and of Fairway say, as soon as they say it.

A text that cannot be used changes nothing: the last good configuration stays in force, the ConfigMap gets a Warning
event, and the log says what is wrong. Without the ConfigMap, or without its key, the defaults hold.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from msgspec import structs

from fairway.apis.kueue import configuration_file
from fairway.apis.kueue.configuration import (
    CONFIG_KEY,
    CONFIG_MAP,
    NAMESPACE,
    OWN_CONFIG_KEY,
    OWN_CONFIG_MAP,
    Configuration,
)
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.errors import BadRequest, ValidationError

_log = logging.getLogger(__name__)
_KEYS: Final = {CONFIG_MAP: CONFIG_KEY, OWN_CONFIG_MAP: OWN_CONFIG_KEY}


class ConfigurationSource(Protocol):
    """The configuration in force, for controllers."""

    @property
    def value(self) -> Configuration:
        """What is in force now."""

    def on_change(self, handler: Callable[[Configuration], None]) -> None:
        """Call this handler when it changes."""


class FixedConfiguration:
    """A configuration that changes only by `set`: where there is no ConfigMap to read, as in tests."""

    def __init__(self, value: Configuration | None = None) -> None:
        self.value = value or Configuration()
        self._handlers: list[Callable[[Configuration], None]] = []

    def on_change(self, handler: Callable[[Configuration], None]) -> None:
        """Call this handler when another configuration comes into force."""
        self._handlers.append(handler)

    def set(self, value: Configuration) -> None:
        """Bring another configuration into force, unless it is the same."""
        if value == self.value:
            return
        self.value = value
        for handler in self._handlers:
            handler(value)


class CurrentConfiguration(FixedConfiguration):
    """Follows the ConfigMaps; complete once the caches of the cluster are."""

    def __init__(self, cluster: Cluster, recorder: Recorder, namespace: str = NAMESPACE) -> None:
        """`namespace` is that of the ConfigMaps."""
        super().__init__()
        self._namespace = namespace
        self._kueue = Configuration()
        self._own: dict[str, Any] = {}
        self._recorder = recorder
        cluster.cache("configmaps").on_change(self._changed)

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        metadata = (new or old or {})["metadata"]
        key = _KEYS.get(metadata["name"]) if metadata["namespace"] == self._namespace else None
        if key is None or (new is not None and old is not None and _text(new, key) == _text(old, key)):
            return
        if self._read(new, key):
            self.set(structs.replace(self._kueue, **self._own))

    def _read(self, config_map: Manifest | None, key: str) -> bool:
        """Take in what a ConfigMap says; whether it can be used."""
        text = _text(config_map, key) if config_map is not None else None
        try:
            if key == OWN_CONFIG_KEY:
                self._own = {} if text is None else configuration_file.read_own(text)
            else:
                self._kueue = Configuration() if text is None else configuration_file.read(text)
        except (BadRequest, ValidationError) as error:
            if config_map is not None:
                name = config_map["metadata"]["name"]
                _log.warning(
                    "ignoring invalid %s/%s, the last valid configuration stays in effect: %s",
                    self._namespace,
                    name,
                    error,
                )
                self._recorder.warning(
                    config_map, "InvalidConfiguration", f"The last valid configuration stays in effect: {error}"
                )
            return False
        return True


def _text(config_map: Manifest, key: str) -> str | None:
    text = (config_map.get("data") or {}).get(key)
    return None if text is None else str(text)
