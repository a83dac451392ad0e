"""Kueue's Configuration in force: read from its ConfigMap, again each time it changes, and told to whoever asked."""

from collections.abc import Callable
from typing import Protocol

from fairway.apis.kueue.configuration import Configuration


class ConfigurationSource(Protocol):
    """Where controllers look up what is configured."""

    @property
    def value(self) -> Configuration:
        """What is in force now."""

    def on_change(self, handler: Callable[[Configuration], None]) -> None:
        """Tell this handler when it changes."""
