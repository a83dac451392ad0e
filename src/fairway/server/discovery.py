"""What the API says about itself: groups, versions, resources and verbs, in the old form and in the aggregated one.

Everything here follows from the records of the kinds and from one table of resources that are answered but not stored.
The documents are made once; they change only with the program.
"""

import base64
import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import fairway
from fairway.apis.machinery.kind import Kind

Document: TypeAlias = dict[str, Any]

AGGREGATED_VERSIONS: Final = ("v2", "v2beta1")
"""Those of `apidiscovery.k8s.io`, the preferred one first; they differ in name only."""

_KUBERNETES_MINOR: Final = "34"
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_ACCOUNT_VERBS: Final = ("create", "delete", "get", "list", "patch")
_STATUS_VERBS: Final = ("get", "patch", "update")
ONE_BY_ONE: Final = frozenset({"namespaces"})
"""Resources that are never deleted as a collection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Virtual:
    """A resource that is answered on request and never stored."""

    group: str
    versions: tuple[str, ...]
    kind: str
    """What comes back."""

    plural: str
    subresource: str = ""
    """If this is something about the objects of `plural`, such as `pendingworkloads`."""

    verbs: tuple[str, ...]
    namespaced: bool = False
    described: bool = False
    """Whether OpenAPI has a schema of it."""


_VISIBILITY: Final = "visibility.kueue.x-k8s.io"
_VISIBILITY_VERSIONS: Final = ("v1beta2", "v1beta1")
_FAIRWAY: Final = "fairway.dev"


def _review(group: str, kind: str) -> Virtual:
    plural = f"{kind.lower()}s"
    return Virtual(group=group, versions=("v1",), kind=kind, plural=plural, verbs=("create",), described=True)


VIRTUAL: Final = (
    _review("authentication.k8s.io", "SelfSubjectReview"),
    _review("authorization.k8s.io", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "SubjectAccessReview"),
    Virtual(
        group=_VISIBILITY,
        versions=_VISIBILITY_VERSIONS,
        kind="PendingWorkloadsSummary",
        plural="clusterqueues",
        subresource="pendingworkloads",
        verbs=("get",),
    ),
    Virtual(
        group=_VISIBILITY,
        versions=_VISIBILITY_VERSIONS,
        kind="PendingWorkloadsSummary",
        plural="localqueues",
        subresource="pendingworkloads",
        verbs=("get",),
        namespaced=True,
    ),
    Virtual(
        group=_FAIRWAY,
        versions=("v1alpha1",),
        kind="Attempt",
        plural="attempts",
        verbs=("list",),
        namespaced=True,
    ),
    Virtual(
        group=_FAIRWAY,
        versions=("v1alpha1",),
        kind="UsageReport",
        plural="usage",
        verbs=("list",),
        namespaced=True,
    ),
    Virtual(group=_FAIRWAY, versions=("v1alpha1",), kind="Group", plural="groups", verbs=_ACCOUNT_VERBS),
    Virtual(group=_FAIRWAY, versions=("v1alpha1",), kind="User", plural="users", verbs=_ACCOUNT_VERBS),
    Virtual(group=_FAIRWAY, versions=("v1alpha1",), kind="Simulation", plural="simulations", verbs=("create",)),
    Virtual(
        group=_FAIRWAY,
        versions=("v1alpha1",),
        kind="WaitingJob",
        plural="waitingjobs",
        verbs=("get", "list"),
        namespaced=True,
        described=True,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sub:
    """A subresource: its verbs, and what it speaks if that is not the kind itself."""

    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


_SUBRESOURCES: Final[Mapping[str, _Sub]] = {
    "binding": _Sub(verbs=("create",), kind="Binding"),
    "eviction": _Sub(verbs=("create",), kind="Eviction", group="policy", version="v1"),
    "files": _Sub(verbs=("get",)),
    "finalize": _Sub(verbs=("update",)),
    "log": _Sub(verbs=("get",)),
    "scale": _Sub(verbs=_STATUS_VERBS, kind="Scale", group="autoscaling", version="v1"),
    "status": _Sub(verbs=_STATUS_VERBS),
}


@dataclass(frozen=True, slots=True)
class _Resource:
    """A resource with its subresources, in one version; without a kind it is only the place of these."""

    plural: str
    namespaced: bool
    kind: str = ""
    singular: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_hash: str = ""
    subresources: tuple[tuple[str, _Sub], ...] = ()


class Discovery:
    """The documents of `/api` and `/apis`."""

    def __init__(self, kinds: Sequence[Kind], virtual: Sequence[Virtual] = VIRTUAL) -> None:
        self._resources = _resources(kinds, virtual)
        self._versions: dict[str, list[str]] = {}
        for group, version in self._resources:
            self._versions.setdefault(group, []).append(version)

    def api_versions(self, address: str) -> Document:
        """`/api`; the address is where the client reached the server."""
        where = {"clientCIDR": "0.0.0.0/0", "serverAddress": address}
        return {"kind": "APIVersions", "versions": self._versions.get("", []), "serverAddressByClientCIDRs": [where]}

    def groups(self) -> Document:
        """`/apis`."""
        listed = [_group(name, versions) for name, versions in self._versions.items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}

    def group(self, name: str) -> Document | None:
        """`/apis/<group>`, if there is such a group."""
        versions = self._versions.get(name) if name else None
        return None if versions is None else {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}

    def resources(self, group: str, version: str) -> Document | None:
        """`/api/v1` or `/apis/<group>/<version>`, if it is served."""
        found = self._resources.get((group, version))
        if found is None:
            return None
        listed = [entry for resource in found for entry in _listed(resource)]
        group_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}

    def aggregated(self, *, core: bool, version: str = AGGREGATED_VERSIONS[0]) -> Document:
        """All of `/api` (the core group) or of `/apis` in one document, in a version of `apidiscovery.k8s.io`."""
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [self._aggregated_version(group, one) for one in versions],
            }
            for group, versions in self._versions.items()
            if core == (not group)
        ]
        api_version = f"apidiscovery.k8s.io/{version}"
        return {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items}

    def _aggregated_version(self, group: str, version: str) -> Document:
        resources = [_described(resource, group, version) for resource in self._resources[group, version]]
        return {"version": version, "resources": resources, "freshness": "Current"}


def aggregated_type(version: str) -> str:
    """The media type that an aggregated document is asked for and answered with."""
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def version_info() -> Document:
    """`/version`."""
    return {
        "major": "1",
        "minor": _KUBERNETES_MINOR,
        "gitVersion": f"v1.{_KUBERNETES_MINOR}.0+fairway-{fairway.__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def _resources(kinds: Sequence[Kind], virtual: Sequence[Virtual]) -> dict[tuple[str, str], list[_Resource]]:
    """By group and version, groups and versions in the order in which they come, resources by name."""
    found: dict[tuple[str, str], list[_Resource]] = {}
    for group, versions in _groups(kinds, virtual).items():
        for version in versions:
            stored = [_stored(kind) for kind in kinds if kind.version_in(group, version)]
            answered = [_resource_of(one) for one in virtual if one.group == group and version in one.versions]
            found[group, version] = sorted(stored + answered, key=lambda resource: resource.plural)
    return found


def _groups(kinds: Iterable[Kind], virtual: Iterable[Virtual]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    served = [pair for kind in kinds for pair in kind.group_versions]
    served += [(one.group, version) for one in virtual for version in one.versions]
    for group, version in served:
        known = groups.setdefault(group, [])
        if version not in known:
            known.append(version)
    return groups


def _stored(kind: Kind) -> _Resource:
    names = sorted({*kind.subresources, *(("status",) if kind.status else ())})
    return _Resource(
        plural=kind.plural,
        namespaced=kind.namespaced,
        kind=kind.kind,
        singular=kind.singular_name,
        verbs=tuple(verb for verb in _VERBS if verb != "deletecollection" or kind.plural not in ONE_BY_ONE),
        short_names=kind.short_names,
        categories=kind.categories,
        storage_hash=_storage_hash(kind),
        subresources=tuple((name, _SUBRESOURCES[name]) for name in names),
    )


def _resource_of(virtual: Virtual) -> _Resource:
    if virtual.subresource:
        # The parent has no kind here, or clients would take it for the queue itself.
        sub = _Sub(verbs=virtual.verbs, kind=virtual.kind)
        return _Resource(virtual.plural, virtual.namespaced, subresources=((virtual.subresource, sub),))
    return _Resource(
        virtual.plural, virtual.namespaced, kind=virtual.kind, singular=virtual.kind.lower(), verbs=virtual.verbs
    )


def _storage_hash(kind: Kind) -> str:
    """Changes when objects are stored in another version."""
    digest = hashlib.sha256(f"{kind.group}/{kind.stored}/{kind.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _group(name: str, versions: Sequence[str]) -> Document:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _listed(resource: _Resource) -> list[Document]:
    """The entries of a resource and its subresources in the old form."""
    entries = []
    if resource.kind:
        entry = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
            "shortNames": list(resource.short_names),
            "categories": list(resource.categories),
            "storageVersionHash": resource.storage_hash,
        }
        entries.append({name: value for name, value in entry.items() if value not in ([], "")})
    for name, sub in resource.subresources:
        speaks = {"group": sub.group, "version": sub.version} if sub.group else {}
        entries.append(
            {
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                **speaks,
                "kind": sub.kind or resource.kind,
                "verbs": list(sub.verbs),
            }
        )
    return entries


def _described(resource: _Resource, group: str, version: str) -> Document:
    """The entry of a resource in the aggregated form."""
    kind = {"group": group, "version": version, "kind": resource.kind}
    entry: Document = {
        "resource": resource.plural,
        "responseKind": kind if resource.kind else {"group": "", "version": "", "kind": ""},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": {
                    "group": sub.group or group,
                    "version": sub.version or version,
                    "kind": sub.kind or resource.kind,
                },
                "verbs": list(sub.verbs),
            }
            for name, sub in resource.subresources
        ]
    return entry
