"""Why a container cannot be started, in the words of Kubernetes."""

from typing import Final

from msgspec import Struct

from fairway.errors import FairwayError
from fairway.runner.shortages import explained, is_shortage

CONFIG_ERROR: Final = "CreateContainerConfigError"
CREATE_ERROR: Final = "CreateContainerError"


class Trouble(Struct, frozen=True, kw_only=True):
    """What keeps a container from being started, as its status says it."""

    reason: str
    message: str
    lasting: bool = False
    """Nothing but another pod can help."""

    shortage: bool = False
    """This machine has run out of something; the start is tried again, and it is never the pod's failure."""


class Unstartable(FairwayError):
    """A container cannot be started, now or ever."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


class ConfigError(Unstartable):
    """A container asks for something that is not there, or that this machine cannot give."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(Trouble(reason=CONFIG_ERROR, message=message, lasting=lasting))


class OutOfResources(Unstartable):
    """This machine has run out of descriptors, processes, memory or disk, and cannot start a container now."""

    def __init__(self, message: str) -> None:
        super().__init__(Trouble(reason=CREATE_ERROR, message=f"{message}; retrying", shortage=True))


def from_os_error(what: str, error: OSError) -> Unstartable:
    """What an error of the system means for a container."""
    message = f"{what}: {explained(error)}"
    return OutOfResources(message) if is_shortage(error.errno) else ConfigError(message)
