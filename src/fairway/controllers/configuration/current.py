"""The configuration in force: what the ConfigMap says, as soon as it says it.

A text that cannot be used changes nothing: the last good configuration stays in force, the ConfigMap gets a Warning
event, and the log says what is wrong. Without the ConfigMap, or without its key, the defaults hold.
"""

import logging
from collections.abc import Callable

from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.configuration import reading
from fairway.errors import BadRequest, ValidationError
from fairway.kinds.kind import Manifest
from fairway.model.configuration import CONFIG_KEY, CONFIG_MAP, NAMESPACE, Configuration

_log = logging.getLogger(__name__)


class CurrentConfiguration:
    """Follows the ConfigMap; complete once the caches of the cluster are."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self.value = Configuration()
        self._recorder = recorder
        self._handlers: list[Callable[[Configuration], None]] = []
        cluster.cache("configmaps").on_change(self._changed)

    def on_change(self, handler: Callable[[Configuration], None]) -> None:
        """Tell this handler when another configuration comes into force."""
        self._handlers.append(handler)

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        metadata = (new or old or {})["metadata"]
        if metadata["name"] != CONFIG_MAP or metadata["namespace"] != NAMESPACE:
            return
        if new is not None and old is not None and _text(new) == _text(old):
            return
        value = self._read(new)
        if value is None or value == self.value:
            return
        self.value = value
        for handler in self._handlers:
            handler(value)

    def _read(self, config_map: Manifest | None) -> Configuration | None:
        text = _text(config_map) if config_map is not None else None
        if config_map is None or text is None:
            return Configuration()
        try:
            return reading.read(text)
        except (BadRequest, ValidationError) as error:
            _log.warning("%s/%s is not usable, the last good one stays in force: %s", NAMESPACE, CONFIG_MAP, error)
            self._recorder.warning(config_map, "InvalidConfiguration", f"The last good one stays in force: {error}")
            return None


def _text(config_map: Manifest) -> str | None:
    text = (config_map.get("data") or {}).get(CONFIG_KEY)
    return None if text is None else str(text)
