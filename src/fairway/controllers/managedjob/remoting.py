"""Other servers, as the controller of managed jobs meets them: a job that cannot have what it needs here is handed to
one of them and followed there.

What is here is the contract alone. Whoever keeps it knows the contexts of the server's kubeconfig, speaks HTTP, and
begins again by itself when a connection is lost.
"""

from collections.abc import Callable
from typing import Protocol

from fairway.apis.machinery.kind import Manifest
from fairway.client.sighting import ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_UID, Sighting

__all__ = ["ORIGIN_NAME", "ORIGIN_NAMESPACE", "ORIGIN_UID", "Handler", "Remotes", "Sighting"]

Handler = Callable[[str, str], None]
"""Told the namespace and name of the original, here, of a job that changed there; two empty texts when a server has
told of everything (again): any job that was handed to it may have changed or be gone."""


class Remotes(Protocol):
    """The servers behind the contexts of a kubeconfig. Refusals are the `ApiError`s that they send; a server that does
    not answer raises another `FairwayError`. Jobs are in the namespace that the context names.
    """

    def knows(self, context: str) -> bool:
        """Whether there is such a context."""

    def sighting(self, context: str, name: str) -> Sighting:
        """A job there, from memory; asking for it makes the context be followed from then on."""

    async def submit(self, context: str, manifest: Manifest, *, namespace: str, secret: Manifest | None) -> Manifest:
        """Make a job there, and before it whatever it needs: its archives, which are found here below `namespace`, and
        its Secret (`secret` is the one here; it gets the name that `spec.secretName` of the job says).

        `manifest` has no namespace; its name is the same whenever it is submitted, so where a job of that name with
        the same origin uid is there already, that one is the answer; one of another origin is `AlreadyExists`.
        """

    async def change(self, context: str, name: str, spec: Manifest) -> Manifest | None:
        """Merge into the spec of a job there; `None` if it is gone."""

    async def delete(self, context: str, name: str) -> None:
        """Delete a job there, and the Secret that was made for it; nothing if it is gone."""

    def on_change(self, handler: Handler) -> None:
        """Tell this handler of every change of a job that is followed, also that one is gone, and of every job here
        (by what the annotations of the jobs there say) when a server answers again."""

    async def run(self) -> None:
        """Follow until cancelled."""
