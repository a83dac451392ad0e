"""What can go wrong between this process and a server, besides that the server says no (`fairway.errors.ApiError`)."""

from fairway.errors import FairwayError


class Unreachable(FairwayError):
    """No connection, or it broke before the response was complete; trying again later can help."""


class AnswerLost(Unreachable):
    """The request was sent, and the connection broke before the answer was complete: it may have been carried out."""


class Garbled(FairwayError):
    """The response is not one of the API; trying again does not help."""


class Unreadable(FairwayError):
    """A file that was to be sent cannot be read to its end."""


class KubeconfigError(FairwayError):
    """What the kubeconfig says cannot be used; the message says where and what to do."""
