"""The configuration in force: what the ConfigMaps of Kueue and of Fairway say, as soon as they say it.

A text that cannot be used changes nothing: the last good configuration stays in force, the ConfigMap gets a Warning
event, and the log says what is wrong. Without the ConfigMap, or without its key, the defaults hold.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec import structs

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
from fairway.controllers.configuration import reading
from fairway.errors import BadRequest, ValidationError

_log = logging.getLogger(__name__)
_KEYS: Final = {CONFIG_MAP: CONFIG_KEY, OWN_CONFIG_MAP: OWN_CONFIG_KEY}


class CurrentConfiguration:
    """Follows the ConfigMap; complete once the caches of the cluster are."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self.value = Configuration()
        self._kueue = Configuration()
        self._own: dict[str, Any] = {}
        self._recorder = recorder
        self._handlers: list[Callable[[Configuration], None]] = []
        cluster.cache("configmaps").on_change(self._changed)

    def on_change(self, handler: Callable[[Configuration], None]) -> None:
        """Tell this handler when another configuration comes into force."""
        self._handlers.append(handler)

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        metadata = (new or old or {})["metadata"]
        key = _KEYS.get(metadata["name"]) if metadata["namespace"] == NAMESPACE else None
        if key is None or (new is not None and old is not None and _text(new, key) == _text(old, key)):
            return
        if not self._read(new, key):
            return
        value = structs.replace(self._kueue, **self._own)
        if value == self.value:
            return
        self.value = value
        for handler in self._handlers:
            handler(value)

    def _read(self, config_map: Manifest | None, key: str) -> bool:
        """Take in what a ConfigMap says; whether it can be used."""
        text = _text(config_map, key) if config_map is not None else None
        try:
            if key == OWN_CONFIG_KEY:
                self._own = {} if text is None else reading.read_own(text)
            else:
                self._kueue = Configuration() if text is None else reading.read(text)
        except (BadRequest, ValidationError) as error:
            if config_map is not None:
                name = config_map["metadata"]["name"]
                _log.warning("%s/%s is not usable, the last good one stays in force: %s", NAMESPACE, name, error)
                self._recorder.warning(config_map, "InvalidConfiguration", f"The last good one stays in force: {error}")
            return False
        return True


def _text(config_map: Manifest, key: str) -> str | None:
    text = (config_map.get("data") or {}).get(key)
    return None if text is None else str(text)
