"""Admission plugins: what may complete or refuse an object when it is written, besides the rules of its kind.

Rules judge an object by itself. A plugin also knows other objects, such as queues, from caches. It is a function of the
request: called by the store in the middle of a write (so it answers at once and reads no disk), or served to another
API server as a webhook (`server/admissionreview.py`).
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Protocol

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import FieldError


class UserInfo(NamedTuple):
    """Who writes."""

    name: str = ""
    """As authenticated; empty for controllers of this process."""

    can_impersonate: bool = False
    """May write in the name of others, and what only administrators and controllers may."""

    groups: tuple[str, ...] = ()


THIS_PROCESS: Final = UserInfo(can_impersonate=True)


class AdmissionRequest(NamedTuple):
    """One write of an object (not of its status)."""

    kind: Kind
    object: Manifest
    """With its defaults; the plugin may change it. A new one may have a `generateName` and no name yet: the plugin may
    set one."""

    old: Manifest | None = None
    """As stored; `None` if the object is created."""

    user: UserInfo = THIS_PROCESS
    dry_run: bool = False
    mutating: bool = True
    """Whether changes of the object count; without, it is only judged, and changes are thrown away."""


class AdmissionResponse(NamedTuple):
    """What a plugin says, besides how it changed the object."""

    errors: Sequence[FieldError] = ()
    """Why the write is refused, if there are any."""

    warnings: tuple[str, ...] = ()


ALLOWED: Final = AdmissionResponse()


class AdmissionPlugin(Protocol):
    """Completes and judges the objects of some resources.

    To complete an object twice is the same as once, so that it may be completed in one call and judged in another.
    """

    @property
    def resources(self) -> Collection[str]:
        """What it is to be asked about: `jobs.batch`, `pods` …"""

    def admit(self, request: AdmissionRequest) -> AdmissionResponse: ...


class AdmissionChain:
    """Several plugins as one, asked in order; each sees what those before it completed."""

    def __init__(self, *plugins: AdmissionPlugin) -> None:
        self._by_resource: dict[str, list[AdmissionPlugin]] = {}
        for plugin in plugins:
            for resource in plugin.resources:
                self._by_resource.setdefault(resource, []).append(plugin)

    @property
    def resources(self) -> Collection[str]:
        return self._by_resource.keys()

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        plugins = self._by_resource.get(request.kind.resource)
        if plugins is None:
            return ALLOWED
        errors: list[FieldError] = []
        warnings: tuple[str, ...] = ()
        for plugin in plugins:
            response = plugin.admit(request)
            errors += response.errors
            warnings += response.warnings
        return AdmissionResponse(errors, warnings) if errors or warnings else ALLOWED
