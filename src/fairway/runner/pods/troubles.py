"""Why a container cannot be started at all, in the words of Kubernetes."""

from typing import Final

from msgspec import Struct

from fairway.errors import FairwayError

CONFIG_ERROR: Final = "CreateContainerConfigError"


class Trouble(Struct, frozen=True, kw_only=True):
    """What keeps a container from being started, as its status says it."""

    reason: str
    message: str
    lasting: bool = False
    """Nothing but another pod can help."""


class ConfigError(FairwayError):
    """A container asks for something that is not there, or that this machine cannot give."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.trouble = Trouble(reason=CONFIG_ERROR, message=message, lasting=lasting)
