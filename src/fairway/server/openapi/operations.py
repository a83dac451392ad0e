"""Which operations there are on which paths, in no dialect: what `documents` writes down in both.

The paths follow from a kind's record in the one way that Kubernetes' API has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.custom import definition_name
from fairway.apis.machinery.kind import Kind
from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.schema import Schema
from fairway.server.discovery import VIRTUAL, Virtual

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."

READ_TYPES: Final = ("application/json", "application/yaml")
WATCH_TYPES: Final = (*READ_TYPES, "application/json;stream=watch")
PATCH_TYPES: Final = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
STRATEGIC: Final = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a request."""

    name: str
    type: str
    description: str
    place: str = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method on one path."""

    path: str
    method: str
    action: str
    """Kubernetes' name of the verb; `deletecollection` is a DELETE on a list."""

    id: str
    description: str
    group: str
    version: str
    kind: str
    answer: Schema | None
    """What a good answer holds; `None` for text."""

    answer_types: tuple[str, ...] = READ_TYPES
    codes: tuple[int, ...] = (200,)
    body: Schema | None = None
    body_types: tuple[str, ...] = ("*/*",)
    body_needed: bool = True
    parameters: tuple[Parameter, ...] = ()


DRY_RUN: Final = Parameter("dryRun", "string", "`All`: do everything but write.")
FIELD_MANAGER: Final = Parameter("fieldManager", "string", "Who makes the change, for `metadata.managedFields`.")
FIELD_VALIDATION: Final = Parameter(
    "fieldValidation", "string", "What happens to unknown or repeated fields: `Strict`, `Warn` or `Ignore`."
)
FORCE: Final = Parameter("force", "boolean", "Take over fields that other managers own.")
PRETTY: Final = Parameter("pretty", "string", "`true`: indent the answer.")

_WRITING: Final = (DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION)
_CHOOSING: Final = (
    Parameter("continue", "string", "Where the next part of a list begins, as the previous part said."),
    Parameter("fieldSelector", "string", "Only objects whose fields have these values."),
    Parameter("labelSelector", "string", "Only objects whose labels match."),
    Parameter("limit", "integer", "At most so many objects in one answer."),
    Parameter("resourceVersion", "string", "Which revision the answer may come from."),
    Parameter("resourceVersionMatch", "string", "How `resourceVersion` is matched: `Exact` or `NotOlderThan`."),
)
_WATCHING: Final = (
    Parameter("allowWatchBookmarks", "boolean", "Send bookmarks, which tell how far the watch has come."),
    Parameter("sendInitialEvents", "boolean", "Begin the watch with the objects that there are."),
    Parameter("timeoutSeconds", "integer", "End the answer after this time."),
    Parameter("watch", "boolean", "Stay, and send changes as they happen."),
)
_DELETING: Final = (
    DRY_RUN,
    Parameter("gracePeriodSeconds", "integer", "How long the object gets to end in good order."),
    Parameter("propagationPolicy", "string", "What happens to owned objects: `Orphan`, `Background` or `Foreground`."),
)
_LOG: Final = (
    Parameter("container", "string", "Whose log; may be left out if there is one container."),
    Parameter("follow", "boolean", "Stay, and send lines as they are written."),
    Parameter("limitBytes", "integer", "End after so many bytes."),
    Parameter("previous", "boolean", "The log of the run before the last restart."),
    Parameter("sinceSeconds", "integer", "Only lines of the last so many seconds."),
    Parameter("tailLines", "integer", "Only the last so many lines."),
    Parameter("timestamps", "boolean", "Put the time before each line."),
)

_FILES: Final = (
    Parameter("task", "integer", "Of which task of a pipeline; the current one unless said."),
    Parameter("attempt", "integer", "Of which attempt; the latest one unless said."),
    Parameter("rank", "integer", "Of which node; 0, the head, unless said."),
    Parameter("path", "string", "A file or directory, from the working directory; all of it unless said."),
    Parameter("format", "string", "`tar` for the files themselves; a list unless said."),
)


class _Subresource(NamedTuple):
    """What is read or created below an object."""

    description: str
    method: str = "get"
    verb: str = "read"
    kind: str = ""
    schema: str = ""
    """The definition of what is sent and answered; empty for text and files."""

    types: tuple[str, ...] = READ_TYPES
    parameters: tuple[Parameter, ...] = ()


_SUBRESOURCES: Final = {
    "binding": _Subresource(
        "Bind a pod to a node", "post", "create", "Binding", "io.k8s.api.core.v1.Binding", parameters=_WRITING
    ),
    "files": _Subresource(
        "List the files that an attempt left, or read them as a tar archive",
        types=("application/json", "application/x-tar"),
        parameters=_FILES,
    ),
    "log": _Subresource("Read the log of a container", types=("text/plain",), parameters=_LOG),
    "scale": _Subresource(
        "Read how many replicas there are and should be", kind="Scale", schema="io.k8s.api.autoscaling.v1.Scale"
    ),
}


def group_versions(kinds: Sequence[Kind]) -> list[str]:
    """Each `v1` or `batch/v1` that has a document, sorted."""
    served = {kind.api_version(version) for kind in kinds for version in kind.versions}
    return sorted(served | {f"{one.group}/{version}" for one in VIRTUAL if one.described for version in one.versions})


def root(group_version: str) -> str:
    """Where a group version is served: `/api/v1`, `/apis/batch/v1`."""
    return f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"


def operations(kinds: Sequence[Kind], group_version: str) -> Iterator[Operation]:
    """Every operation of one group version."""
    group, _, version = group_version.rpartition("/")
    for kind in kinds:
        if served := kind.version_in(group, version):
            yield from _Endpoints(kind, served).all()
    for one in _virtual(group, version):
        yield from _asking(one, version) if "create" in one.verbs else _worked_out(one, version)


def unstored(group_version: str) -> Iterator[tuple[Schema, str]]:
    """The schemas of what is answered and not stored, with their kinds."""
    group, _, version = group_version.rpartition("/")
    for one in _virtual(group, version):
        schema = _schema_of(one, version)
        yield schema, one.kind
        if "list" in one.verbs:
            yield list_of(schema), f"{one.kind}List"


def _virtual(group: str, version: str) -> list[Virtual]:
    return [one for one in VIRTUAL if one.described and one.group == group and version in one.versions]


def _schema_of(virtual: Virtual, version: str) -> Schema:
    group, kubernetes, _ = virtual.group.partition(".k8s.io")
    name = f"io.k8s.api.{group}.{version}.{virtual.kind}" if kubernetes else ""
    return definition(name or definition_name(virtual.group, version, virtual.kind))


def list_of(schema: Schema) -> Schema:
    """What an answer with many objects of this schema holds."""
    text = Schema(type="string")
    items = Schema(type="array", items=schema)
    metadata = definition(f"{_META}ListMeta")
    known = {"apiVersion": text, "items": items, "kind": text, "metadata": metadata}
    return Schema(type="object", name=f"{schema.name}List", properties=known, required=("items",))


def _asking(virtual: Virtual, version: str) -> Iterator[Operation]:
    """A question that is asked by creating an object."""
    group_version, schema = f"{virtual.group}/{version}", _schema_of(virtual, version)
    yield Operation(
        path=f"{root(group_version)}/{virtual.plural}",
        method="post",
        action="post",
        id=f"create{_camel(group_version)}{virtual.kind}",
        description=f"Ask with a {virtual.kind}; nothing is kept.",
        group=virtual.group,
        version=version,
        kind=virtual.kind,
        answer=schema,
        codes=(200, 201),
        body=schema,
        parameters=_WRITING,
    )


def _worked_out(virtual: Virtual, version: str) -> Iterator[Operation]:
    """What is computed for each request, in a namespace or in all of them."""
    group, name, plural = virtual.group, virtual.kind, virtual.plural
    group_version, one = f"{group}/{version}", _schema_of(virtual, version)
    inside = f"{root(group_version)}/namespaces/{{namespace}}/{plural}"
    for path, verb, called, sentence, answer in (
        (f"{root(group_version)}/{plural}", "list", f"{name}ForAllNamespaces", "all namespaces", list_of(one)),
        (inside, "list", f"Namespaced{name}", "a namespace", list_of(one)),
        (f"{inside}/{{name}}", "read", f"Namespaced{name}", "all about one of them", one),
    ):
        yield Operation(
            path=path,
            method="get",
            action="list" if verb == "list" else "get",
            id=f"{verb}{_camel(group_version)}{called}",
            description=f"Ask why jobs wait: {sentence}",
            group=group,
            version=version,
            kind=name,
            answer=answer,
        )


def _camel(group_version: str) -> str:
    """`batch/v1` as operations are named: `BatchV1`."""
    group, _, version = group_version.rpartition("/")
    words = (group or "core").removesuffix(".k8s.io").replace("-", ".").split(".")
    return "".join(word.capitalize() for word in [*words, version])


class _Endpoints:
    """The operations on one kind in one version."""

    def __init__(self, kind: Kind, version: str) -> None:
        self._kind = kind
        self._group, _, self._version = kind.api_version(version).rpartition("/")
        self._schema = kind.schemas[version]()
        group_version = kind.api_version(version)
        self._root = root(group_version)
        scope = "Namespaced" if kind.namespaced else ""
        self._name = f"{scope}{kind.kind}"
        self._prefix = _camel(group_version)
        self._list = f"{self._root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else self._everywhere
        self._object = f"{self._list}/{{name}}"

    @property
    def _everywhere(self) -> str:
        return f"{self._root}/{self._kind.plural}"

    def all(self) -> Iterator[Operation]:
        if self._kind.namespaced:
            yield self._listing(self._everywhere, f"{self._kind.kind}ForAllNamespaces", "in all namespaces")
        yield self._listing(self._list, self._name, "" if not self._kind.namespaced else "in a namespace")
        yield self._creating()
        yield self._deleting_many()
        yield from self._reading_and_writing(self._object, "", "")
        yield self._deleting()
        if self._kind.status:
            yield from self._reading_and_writing(f"{self._object}/status", "Status", "the status of ")
        for subresource in self._kind.subresources:
            yield self._subresource(subresource)

    def _operation(self, path: str, method: str, verb: str, name: str, description: str, **more: Any) -> Operation:
        known: dict[str, Any] = {
            "action": method,
            "group": self._group,
            "version": self._version,
            "kind": self._kind.kind,
            "answer": self._schema,
        }
        return Operation(
            path=path,
            method=method,
            id=f"{verb}{self._prefix}{name}",
            description=description,
            **(known | more),
        )

    def _listing(self, path: str, name: str, where: str) -> Operation:
        description = f"List or watch objects of kind {self._kind.kind} {where}".rstrip()
        answer = list_of(self._schema)
        parameters = (*_CHOOSING, *_WATCHING)
        return self._operation(
            path,
            "get",
            "list",
            name,
            description,
            action="list",
            answer=answer,
            answer_types=WATCH_TYPES,
            parameters=parameters,
        )

    def _creating(self) -> Operation:
        description = f"Create a {self._kind.kind}"
        return self._operation(
            self._list,
            "post",
            "create",
            self._name,
            description,
            body=self._schema,
            codes=(200, 201, 202),
            parameters=_WRITING,
        )

    def _deleting_many(self) -> Operation:
        return self._operation(
            self._list,
            "delete",
            "delete",
            f"Collection{self._name}",
            f"Delete the objects of kind {self._kind.kind} that are chosen",
            action="deletecollection",
            answer=definition(f"{_META}Status"),
            body=definition(f"{_META}DeleteOptions"),
            body_needed=False,
            parameters=(*_DELETING, *_CHOOSING),
        )

    def _reading_and_writing(self, path: str, suffix: str, what: str) -> Iterator[Operation]:
        kind, name = self._kind.kind, f"{self._name}{suffix}"
        yield self._operation(path, "get", "read", name, f"Read {what}one {kind}")
        yield self._operation(
            path,
            "put",
            "replace",
            name,
            f"Replace {what}one {kind}",
            body=self._schema,
            codes=(200, 201),
            parameters=_WRITING,
        )
        yield self._operation(
            path,
            "patch",
            "patch",
            name,
            f"Change {what}one {kind}",
            body=definition(f"{_META}Patch"),
            body_types=(*PATCH_TYPES, STRATEGIC) if self._kind.builtin else PATCH_TYPES,
            codes=(200, 201),
            parameters=(*_WRITING, FORCE),
        )

    def _deleting(self) -> Operation:
        return self._operation(
            self._object,
            "delete",
            "delete",
            self._name,
            f"Delete one {self._kind.kind}",
            answer=definition(f"{_META}Status"),
            body=definition(f"{_META}DeleteOptions"),
            body_needed=False,
            codes=(200, 202),
            parameters=_DELETING,
        )

    def _subresource(self, subresource: str) -> Operation:
        path = f"{self._object}/{subresource}"
        name = f"{self._name}{subresource.capitalize()}"
        found = _SUBRESOURCES.get(subresource)
        if found is None:
            raise ValueError(f"the subresource {subresource} of {self._kind.resource} has no description in OpenAPI")
        schema = definition(found.schema) if found.schema else None
        more: dict[str, Any] = {"kind": found.kind} if found.kind else {}
        if found.method == "post":
            more["body"] = schema
        return self._operation(
            path,
            found.method,
            found.verb,
            name,
            found.description,
            answer=schema,
            answer_types=found.types,
            parameters=found.parameters,
            **more,
        )
