"""What other controllers know of the one that drives the engine."""

from typing import Protocol

from fairway.admission.engine import Engine
from fairway.admission.events import Event


class Queueing(Protocol):
    """Whoever owns the engine: it may be looked at, and told what only others notice."""

    @property
    def engine(self) -> Engine:
        """The engine in charge; another one after the configuration changed, so not to be kept."""

    def tell(self, *happened: Event) -> None:
        """Feed the engine, and see to what it decides."""
