"""Which kinds the API serves: one list, looked up by what requests and manifests call them.

To serve another kind is to write its record and to put it on the list; nothing else knows the kinds one by one. A list
that cannot be served (two kinds of one name, a version without a schema) is refused when it is made. At run time the
list grows and shrinks with the CustomResourceDefinitions of users; `store/gc/definitions.py` alone changes it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from fairway.apis import components, stored
from fairway.apis.autoscaling import records as autoscaling
from fairway.apis.batch import records as batch
from fairway.apis.coordination import records as coordination
from fairway.apis.core import records as core
from fairway.apis.dask import records as dask
from fairway.apis.extensions.records import DEFINITIONS
from fairway.apis.fairway import records as fairway
from fairway.apis.jobset import records as jobset
from fairway.apis.kubeflow import records as kubeflow
from fairway.apis.kueue import records as kueue
from fairway.apis.machinery.kind import Kind
from fairway.apis.node import records as node
from fairway.apis.ray import records as ray
from fairway.apis.scheduling import records as scheduling
from fairway.apis.spark import records as spark


class Registry:
    """The kinds that are served, and ways to find one."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.kinds: tuple[Kind, ...] = ()
        self._by_resource: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self._by_name: dict[str, Kind] = {}
        self._versions: dict[str, tuple[str, ...]] = {}
        self._observers: list[Callable[[str], None]] = []
        for kind in kinds:
            self._add(kind)
        self.kinds = tuple(self._by_name.values())
        self.built_in = frozenset(kind.resource for kind in self.kinds if not kind.yields)
        """The resources that are always served, and that no definition of a user changes."""

        self._yielding = {kind.resource: kind for kind in self.kinds if kind.yields}

        self.external: frozenset[str] = frozenset()
        """The groups of components whose own operators run beside this server, by the choice of its controllers."""

    def is_built_in(self, definition: str) -> bool:
        """Whether a definition is of a kind that the server has itself, or comes with a built-in component."""
        group = definition.partition(".")[2]
        of_component = group not in self.external and components.is_definition_of_component(definition)
        return definition in self.built_in or of_component

    def observe(self, observer: Callable[[str], None]) -> None:
        """Call this with the group whenever kinds of it are added, replaced or removed."""
        self._observers.append(observer)

    def put(self, kind: Kind) -> None:
        """Serve a kind, in place of the one with the same resource; `ValueError`, and no change, if it cannot be."""
        before = self._drop(kind.resource)
        try:
            self._add(kind)
        except ValueError:
            if before is not None:
                self._add(before)
            raise
        self._changed(kind.group)

    def remove(self, resource: str) -> None:
        """Serve a kind no longer, or again as it was before a definition took its place."""
        kind = self._drop(resource)
        if kind is not None:
            if resource in self._yielding:
                self._add(self._yielding[resource])
            self._changed(kind.group)

    def _drop(self, resource: str) -> Kind | None:
        kind = self._by_name.pop(resource, None)
        if kind is not None:
            for group, version in kind.group_versions:
                self._by_kind.pop((group, kind.kind), None)
                del self._by_resource[group, version, kind.plural]
        return kind

    def _changed(self, group: str) -> None:
        self.kinds = tuple(self._by_name.values())
        served = (pair for kind in self.kinds for pair in kind.group_versions)
        versions = dict.fromkeys(version for of, version in served if of == group)
        if versions:
            self._versions[group] = tuple(versions)
        else:
            self._versions.pop(group, None)
        for observer in self._observers:
            observer(group)

    def by_resource_name(self, resource: str) -> Kind | None:
        """The kind of `pods` or `jobs.batch`, as the store calls resources."""
        return self._by_name.get(resource)

    def by_resource(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind behind a path such as `/apis/batch/v1/jobs`."""
        return self._by_resource.get((group, version, plural))

    def by_kind(self, group: str, kind: str) -> Kind | None:
        """The kind that a manifest names, whatever version it is written in."""
        return self._by_kind.get((group, kind))

    def by_api_version(self, api_version: str, kind: str) -> Kind | None:
        """The kind of a manifest with this `apiVersion` and `kind`, if that version is served."""
        group, _, version = api_version.rpartition("/")
        found = self._by_kind.get((group, kind))
        return found if found is not None and found.version_in(group, version) else None

    def by_name(self, name: str) -> Kind | None:
        """The kind with this name: `pods`, `pod`, `po`, `Pod`, `jobs.batch`; the first on the list if several."""
        plain, _, group = name.lower().partition(".")
        for kind in self.kinds:
            if group and group != kind.group:
                continue
            if plain in {kind.plural, kind.singular_name, *kind.short_names}:
                return kind
        return None

    def named(self, name: str) -> Kind:
        """As `by_name`, for kinds that must be served; raises `LookupError` otherwise."""
        kind = self.by_name(name)
        if kind is None:
            raise LookupError(f"no kind is called {name!r}")
        return kind

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The versions of each group, the preferred one first; the groups in the order of the list."""
        return MappingProxyType(self._versions)

    def of_group(self, group: str, version: str) -> Sequence[Kind]:
        """The kinds that this version of a group has."""
        return [kind for kind in self.kinds if kind.version_in(group, version)]

    def _add(self, kind: Kind) -> None:
        if not kind.defined and kind.stored not in kind.versions:
            raise ValueError(f"{kind.resource} is stored as {kind.stored!r}, which is not among {kind.versions}")
        missing = [version for version in kind.versions if version not in kind.schemas]
        if missing:
            raise ValueError(f"{kind.resource} has no schema for {', '.join(missing)}")
        unknown = [version for version in kind.columns if version not in kind.versions]
        if unknown:
            raise ValueError(f"{kind.resource} has columns for {', '.join(unknown)}, which it does not serve")
        if (kind.group, kind.kind) in self._by_kind:
            raise ValueError(f"there are two kinds called {kind.kind} in {kind.group or 'the core group'}")
        self._refuse_taken_names(kind)
        self._by_name[kind.resource] = kind
        for group, version in kind.group_versions:
            self._by_kind[group, kind.kind] = kind
            self._by_resource[group, version, kind.plural] = kind
            known = self._versions.get(group, ())
            self._versions[group] = known if version in known else (*known, version)

    def _refuse_taken_names(self, kind: Kind) -> None:
        """Within a group, a name that people type may mean one kind only."""
        names = {kind.plural, kind.singular_name, *kind.short_names}
        for other in self._by_kind.values():
            taken = names & {other.plural, other.singular_name, *other.short_names}
            if other.group == kind.group and taken:
                raise ValueError(f"{kind.resource} and {other.resource} are both called {', '.join(sorted(taken))}")


def default_registry() -> Registry:
    """Every kind that one machine serves."""
    kinds = [
        kind
        for module in (
            core,
            batch,
            scheduling,
            coordination,
            node,
            kueue,
            autoscaling,
            ray,
            jobset,
            kubeflow,
            spark,
            dask,
            fairway,
        )
        for kind in module.KINDS
    ]
    return Registry([*kinds, *stored.kinds(), *components.kinds(), DEFINITIONS])
