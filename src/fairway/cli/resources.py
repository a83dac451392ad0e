"""What kinds a server has, by all the names that people give them: `pods`, `pod`, `po`, `workloads.kueue.x-k8s.io`."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from fairway.client.rest import paths
from fairway.errors import FairwayError

if TYPE_CHECKING:
    from fairway.client.rest import Rest

_AGGREGATED: Final = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)


class NoSuchKindError(FairwayError):
    """A word that no kind answers to."""


class Resource(NamedTuple):
    """One kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """The kind before a name, as kubectl writes it: `workload.kueue.x-k8s.io`."""
        return f"{self.singular}.{self.group}" if self.group else self.singular

    def path(self, namespace: str | None, name: str = "") -> str:
        """Where the objects are; the namespace counts only for those that have one."""
        return paths.resource(self.api_version, self.plural, namespace if self.namespaced else None, name)

    def answers_to(self, word: str) -> bool:
        name, _, rest = word.partition(".")
        if name not in {self.plural, self.singular, self.kind.lower(), *self.short_names}:
            return False
        return rest in {"", self.group, self.version, f"{self.version}.{self.group}"}


class APIResources:
    """The kinds of one server, the preferred version of each first."""

    def __init__(self, found: Iterable[Resource]) -> None:
        self._found = list(found)

    @property
    def listed(self) -> list[str]:
        """What can be listed, by its plural."""
        return sorted({one.plural for one in self._found if "list" in one.verbs})

    def named(self, word: str) -> list[Resource]:
        """The kind that a word names, or all of the category that it names."""
        lower = word.lower()
        kind = next((one for one in self._found if one.answers_to(lower)), None)
        if kind is not None:
            return [kind]
        members: dict[tuple[str, str], Resource] = {}
        for one in self._found:
            if lower in one.categories:
                members.setdefault((one.group, one.plural), one)
        if members:
            return list(members.values())
        raise NoSuchKindError(self._unknown(word))

    def one(self, word: str) -> Resource:
        """The kind that a word names; a category will not do."""
        found = self.named(word)
        if len(found) > 1:
            raise NoSuchKindError(f"{word!r} matches several kinds; use one of: {', '.join(r.plural for r in found)}")
        return found[0]

    def of(self, api_version: str, kind: str) -> Resource:
        """The kind of a manifest."""
        for one in self._found:
            if (one.api_version, one.kind) == (api_version, kind):
                return one
        elsewhere = sorted({one.api_version for one in self._found if one.kind == kind})
        if elsewhere:
            raise NoSuchKindError(f"{api_version} has no {kind}; it is in {' and '.join(elsewhere)}")
        raise NoSuchKindError(self._unknown(kind))

    def _unknown(self, word: str) -> str:
        import difflib  # noqa: PLC0415 - only for those who mistype

        known = sorted({one.plural for one in self._found})
        spelled = {one.kind: one.plural for one in self._found} | {name: name for name in known}
        spelled |= {one.singular: one.plural for one in self._found}
        near = difflib.get_close_matches(word, spelled, n=1)
        hint = f"did you mean {spelled[near[0]]}?" if near else f"there are {', '.join(self.listed)}"
        return f"the server has no kind {word!r}; {hint}"


def discover(rest: "Rest") -> APIResources:
    """Ask a server what it has."""
    found: list[Resource] = []
    for path in ("/api", "/apis"):
        document = msgspec.json.decode(rest.raw(path, accept=_AGGREGATED))
        for group in document.get("items") or ():
            found += _of_group(group)
    return APIResources(found)


def _of_group(group: Mapping[str, Any]) -> Iterable[Resource]:
    name = (group.get("metadata") or {}).get("name", "")
    for version in group.get("versions") or ():
        for entry in version.get("resources") or ():
            kind = (entry.get("responseKind") or {}).get("kind")
            if not kind:
                continue
            yield Resource(
                group=name,
                version=version["version"],
                kind=kind,
                plural=entry["resource"],
                singular=entry.get("singularResource") or kind.lower(),
                namespaced=entry.get("scope") == "Namespaced",
                short_names=tuple(entry.get("shortNames") or ()),
                categories=tuple(entry.get("categories") or ()),
                verbs=tuple(entry.get("verbs") or ()),
            )
