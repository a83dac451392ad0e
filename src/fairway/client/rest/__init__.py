"""A synchronous client of the API, for the command line: small, and imported in a few milliseconds.

    rest = open_rest(Path("~/.fairway/kubeconfig").expanduser())
    for job in rest.get(paths.jobs(rest.namespace))["items"]: ...

Only the light half of the standard library and msgspec belong here: no asyncio, no http.client (it brings email with
it), and YAML only when a kubeconfig is not written as JSON. What objects mean is not known here; they are plain
dictionaries.
"""

from fairway.client.rest.api import Rest, open_rest
from fairway.client.rest.errors import AnswerLost, Garbled, KubeconfigError, Unreachable, Unreadable

__all__ = ["AnswerLost", "Garbled", "KubeconfigError", "Rest", "Unreachable", "Unreadable", "open_rest"]
