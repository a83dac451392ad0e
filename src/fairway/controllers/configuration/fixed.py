"""A configuration that does not change: where there is no ConfigMap to read, as in tests."""

from collections.abc import Callable

from fairway.apis.kueue.configuration import Configuration


class FixedConfiguration:
    """Like `CurrentConfiguration`, without the listening."""

    def __init__(self, value: Configuration | None = None) -> None:
        self.value = value or Configuration()
        self._handlers: list[Callable[[Configuration], None]] = []

    def on_change(self, handler: Callable[[Configuration], None]) -> None:
        """Tell this handler when another configuration is set."""
        self._handlers.append(handler)

    def set(self, value: Configuration) -> None:
        """Another one from now on."""
        self.value = value
        for handler in self._handlers:
            handler(value)
